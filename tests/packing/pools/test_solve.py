"""Packing into several pools: against brute force, by hand, on real models, and cut short."""

from __future__ import annotations

import random
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cases import seeds
from support.instances import perfect_packing, stubborn
from support.pool_oracles import OBJECTIVES, brute_force_objective, check_pooled, random_pooled

import cpplan
from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem
from cpplan.packing import heuristics
from cpplan.packing.heuristics.in_pools import run_in_pools
from cpplan.packing.pools import cp_sat_pools
from cpplan.packing.pools.bounds import objective_bound
from cpplan.packing.pools.objective import objective_value
from cpplan.packing.pools.solve import pack_pools
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.interrupts import first_interrupt_ending

DATASETS = Path(__file__).resolve().parents[3] / "datasets"


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("part", range(4))
def test_agrees_with_brute_force(objective, part):
    statuses = set()
    for seed in seeds(12, first=50 * part):
        problem = random_pooled(random.Random(f"pools {seed}"))
        expected = brute_force_objective(problem, objective)
        packing = pack_pools(problem, objective, Budget(Deadline(60)))
        statuses.add(packing.status)
        if expected is None:
            assert (packing.status, packing.pool) == ("infeasible", None), seed
            assert "B are missing in pool" in packing.message or "misses" in packing.message
            continue
        assert (packing.status, packing.objective_value) == ("optimal", expected), seed
        check_pooled(problem, packing.pool, packing.offset)
        assert packing.objective_bound == expected
        assert objective_bound(problem, objective, expected)[0] <= expected
    assert statuses == {"optimal", "infeasible"}


def test_one_pool_is_a_case_like_any_other():
    problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    assert pack_pools(problem, "total", Budget(Deadline(60))).objective_value == (12,)


def test_message_names_missing_bytes_pool_and_step():
    """Step 1 holds 8 + 4 bytes: 4 fit into fast, and slow misses 2 of the other 8.

    Or fast misses 4 of b's 8; the pool that misses less is named.
    """
    pools = (Pool("fast", capacity=4), Pool("slow", capacity=6))
    problem = Problem(("a", "b", "c"), [0, 1, 2], [2, 3, 4], [4, 8, 4], pools=pools)
    packing = pack_pools(problem, "preference", Budget(Deadline(60)))
    assert (packing.status, packing.offset, packing.objective_value) == ("infeasible", None, ())
    assert packing.message == (
        "does not fit: 2 B are missing in pool 'slow' of 6 B (live bytes beyond the other pools); "
        "live at step 1: b (8 B), a (4 B)"
    )


def test_search_proves_infeasibility_above_live_bytes():
    """Any two of three meet, never all three: 2 bytes are live, 3 needed."""
    problem = Problem(
        ("a", "b", "c"),
        [0, 0, 1],
        [3, 2, 3],
        [1, 1, 1],
        gaps={0: [Gap(1, 2)]},
        pools=(Pool("only", capacity=2), Pool("none", capacity=0)),
    )
    packing = pack_pools(problem, "total", Budget(Deadline(60)))
    assert packing.status == "infeasible"
    assert packing.bound_by == ("CP-SAT",)
    assert "at least 1 B are missing in all pools together (CP-SAT)" in packing.message


def test_expired_deadline_without_layout_is_unknown():
    half = int(stubborn().live_bytes().max()) // 2
    problem = replace(stubborn(), pools=(Pool("p", half), Pool("q", half + 1)))
    packing = pack_pools(problem, "total", Budget(Deadline(0)))
    assert packing.status == "unknown"
    assert packing.message.startswith("no plan within the capacities was found in time")


def test_without_time_there_is_a_layout_all_the_same():
    problem = replace(stubborn(), pools=(Pool("p", 1 << 19), Pool("q")))
    for objective in OBJECTIVES:
        relaxed = replace(problem, pools=(Pool("p"), Pool("q")))
        packing = pack_pools(relaxed, objective, Budget(Deadline(0)))
        assert packing.status == "feasible"
        check_pooled(relaxed, packing.pool, packing.offset)


def test_an_interrupt_loses_nothing_and_ends_the_run(monkeypatch):
    problem = replace(perfect_packing(0, 30), pools=(Pool("p", 2000), Pool("q")))
    told = []

    def interrupt(*arguments, **options):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(cp_sat_pools, "search_level", interrupt)
    deadline = Deadline(60)
    with first_interrupt_ending(deadline):
        packing = pack_pools(
            problem, "total", Budget(deadline), report=lambda value, *_: told.append(value)
        )
    assert deadline.cancelled
    check_pooled(problem, packing.pool, packing.offset)
    assert packing.objective_value == told[-1]


def test_reports_only_ever_get_better():
    problem = replace(perfect_packing(2, 40), pools=(Pool("p", 1500), Pool("q")))
    values, bounds = [], []

    def report(value, bound, source):
        bounds.append(bound)
        if value is not None:
            values.append(value)

    packing = pack_pools(problem, "preference", Budget(Deadline(60)), report=report)
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert values[-1] == packing.objective_value
    assert packing.objective_value[0] >= 4096 - 1500


def test_same_seed_same_layout():
    problem = replace(perfect_packing(3, 25), pools=(Pool("p", 1500), Pool("q", alignment=2)))
    first, second = (
        pack_pools(problem, "total", Budget(Deadline(8, deterministic=True), seed=5))
        for _ in range(2)
    )
    assert first.pool.tolist() == second.pool.tolist()
    assert first.offset.tolist() == second.offset.tolist()
    assert first.objective_bound == second.objective_bound


def test_problem_too_large_for_searches_keeps_the_heuristic_layout(tune):
    tune(PackingTuning, pools_entries=0, pools_ordered_buffers=0)
    problem = replace(stubborn(), pools=(Pool("p", 1 << 19), Pool("q")))
    packing = pack_pools(problem, "total", Budget(Deadline(600, deterministic=True)))
    assert packing.status == "feasible"


def test_bad_input_is_named():
    two = (Pool("p"), Pool("q", base=8))
    plain = Problem(("a",), [0], [1], [4], alignment=[16], pools=two)
    with pytest.raises(InputError, match="'a': alignment 16 does not divide base 8 of pool 'q'"):
        pack_pools(plain, "total", Budget(Deadline(1)))
    fixed = Problem(("a",), [0], [1], [4], fixed={0: 4}, pools=(Pool("p"), Pool("q")))
    with pytest.raises(InputError, match="'a': a fixed offset needs exactly one candidate pool"):
        pack_pools(fixed, "total", Budget(Deadline(1)))
    off_grid = replace(fixed, pools=(Pool("p", alignment=8),))
    with pytest.raises(InputError, match=r"'a': fixed offset 4 is not a multiple .* of pool 'p'"):
        pack_pools(off_grid, "total", Budget(Deadline(1)))
    with pytest.raises(InputError, match="'least' is not understood: expected one of preference"):
        pack_pools(replace(fixed, fixed={}), "least", Budget(Deadline(1)))


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("light_inception_v1", marks=pytest.mark.slow),  # seconds each, and the same
        pytest.param("light_resnet50", marks=pytest.mark.slow),
        "light_squeezenet",
        pytest.param("light_shufflenet", marks=pytest.mark.slow),
    ],
)
def test_two_pools_on_real_models(model):
    """Random capacities: never worse than a baseline, optimal on at least half."""
    problem = to_problem(to_anf(cpplan.load(DATASETS / f"{model}.json")))
    pressure, rng = int(problem.live_bytes().max()), random.Random(model)
    proved, turns = 0, seeds(8)
    for turn in turns:
        fast = Pool("fast", int(pressure * rng.uniform(0.05, 0.95)), cost_per_byte=3)
        pooled = replace(problem, pools=(fast, Pool("slow", read_bandwidth=1, read_latency=64)))
        objective = OBJECTIVES[turn % 3]
        packing = pack_pools(pooled, objective, Budget(Deadline(10), workers=2))
        check_pooled(pooled, packing.pool, packing.offset)
        proved += packing.status == "optimal"
        for name in heuristics.names():
            if name == "hill_climb" and turn:
                continue  # one run says enough: it is slow
            layout = run_in_pools(name, pooled, Deadline(60))
            if layout is not None:
                check_pooled(pooled, *layout)
                baseline = objective_value(pooled, objective, *layout)
                assert packing.objective_value <= baseline, name
    assert proved >= len(turns) / 2


def test_an_empty_problem_costs_nothing():
    empty = Problem((), np.zeros(0, int), np.zeros(0, int), np.zeros(0, int), pools=[Pool("p")] * 1)
    packing = pack_pools(empty, "cost", Budget(Deadline(1)))
    assert (packing.status, packing.objective_value) == ("optimal", (0,))
