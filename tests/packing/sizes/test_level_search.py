"""The stages of a run: each finds and proves what it should, and all end when they are told to."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import numpy as np
import pytest
from support.instances import perfect_packing, stubborn
from support.sizes_oracle import random_sizes

from cpplan.io import load
from cpplan.packing.heuristics.greedy import bump
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.sizes import solve as planning
from cpplan.packing.sizes.arenas import Arenas, BestLayout, objective_levels
from cpplan.packing.sizes.bounds import arena_bounds
from cpplan.packing.sizes.order_climb import OrderClimb
from cpplan.packing.sizes.size_set import SizeSet
from cpplan.packing.sizes.solve import improve_levels
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline


def start(problem, bytes, objective="largest", **options):
    sizes = SizeSet(problem, np.array(bytes))
    reduction, bounds = reduce_problem(sizes.merged), arena_bounds(sizes)
    levels = objective_levels(bounds, bounds, objective, prefix_stable=True)
    arenas = Arenas(sizes, reduction, levels)
    return BestLayout(arenas, bounds, bump(reduction.problem), "bump", **options)


def three_sizes(problem):
    """Some buffers grow from size to size, some shrink, some stay."""
    kind = np.arange(len(problem)) % 3
    factors = np.array([[1, 8, 3], [8, 1, 3], [2, 2, 3]])
    return problem.size * factors[:, kind]


@pytest.mark.parametrize(("objective", "seed"), [("largest", 0), ("ratio", 5)])
def test_cp_sat_finds_and_proves_what_local_search_and_bounds_do_not(objective, seed, tune):
    problem = perfect_packing(seed, 12)
    best = start(problem, three_sizes(problem), objective)
    improve_levels(best, Budget(Deadline(100, deterministic=True)))
    assert best.done
    tune(PackingTuning, section_entries=0)
    without = start(problem, three_sizes(problem), objective)
    improve_levels(without, Budget(Deadline(1e6)), most_effort=4)
    assert not without.done
    assert best.values < without.values


def test_compiled_and_plain_first_fit_agree(tune):
    problem = perfect_packing(2, 30)
    bytes = three_sizes(problem)
    reached = []
    for least in (0, 10**9):
        tune(PackingTuning, sizes_compiled=least)
        best = start(problem, bytes)
        climb = OrderClimb(best, 3)
        climb.start(Deadline(60))
        for number in range(len(best.values)):
            climb.run(number, 200, Deadline(60))
        reached.append(best.best.tolist())
    assert reached[0] == reached[1]


def test_an_effort_ends_the_run():
    problem = stubborn()
    best = start(problem, three_sizes(problem))
    improve_levels(best, Budget(Deadline(1e6)), most_effort=0)
    assert best.found_by == "order search"
    assert not best.done


def test_without_cp_sat_the_run_ends_when_effort_cannot_grow(tune):
    tune(PackingTuning, section_entries=0, most_effort=1)
    problem = perfect_packing(0, 12)
    best = start(problem, three_sizes(problem))
    improve_levels(best, Budget(Deadline(1e6)))
    assert not best.done


def test_time_that_is_up_leaves_a_layout_without_reuse():
    problem, bytes = random_sizes(random.Random(4), 8)
    found = planning.layout_for_sizes(problem, bytes, Budget(Deadline(0)), prefix_stable=True)
    assert found.offset is not None
    assert found.status in ("feasible", "optimal")


@pytest.mark.parametrize("stage", ["pack", "improve_levels"])
def test_ctrl_c_hands_out_the_best_so_far(stage, monkeypatch):
    whole, pressed = getattr(planning, stage), []

    def interrupted(best, deadline, **options):
        whole(best, deadline, most_effort=0, **options)
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(planning, stage, interrupted)
    problem = perfect_packing(1, 12)
    bytes = three_sizes(problem)
    found = planning.layout_for_sizes(problem, bytes, Budget(Deadline(60)), prefix_stable=True)
    assert found.status == "feasible"
    assert found.arena.max() < bytes.max(axis=0).sum()


def test_from_the_top_down_a_real_network_meets_all_bounds():
    """A batch of 1, 4, 16, 64; every seventh buffer stays. Local search alone may not get there."""
    path = Path(__file__).resolve().parents[3] / "datasets" / "ordering" / "nasnet_mobile.json"
    problem = to_problem(to_anf(load(path)))
    stays = np.arange(len(problem)) % 7 == 3
    bytes = [np.where(stays, 4 * problem.size, n * problem.size) for n in (1, 4, 16, 64)]
    found = planning.layout_for_sizes(
        problem, np.array(bytes), Budget(Deadline(60, deterministic=True)), prefix_stable=True
    )
    assert found.value == found.bound == (243052544, 243052544, 165982208, 146714624, 141897728)
    assert found.arena.tolist() == found.lower_bound.tolist()
