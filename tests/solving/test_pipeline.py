"""The whole of ``solve``: optimal where it says so, anytime, deterministic, and lazy."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from support.instances import chain, perfect_packing, stubborn, triangle
from support.oracles import brute_force_peak, random_problem

import cpplan
from cpplan.io.plan_json import plan_text
from cpplan.model.errors import DefectWarning, InputError, VerificationError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem
from cpplan.packing import heuristics
from cpplan.packing import portfolio as part_search
from cpplan.zoo.packing import near_perfect_packing


def test_chain_is_optimal_by_the_live_bytes_of_two_neighbours():
    plan = cpplan.solve(chain(6, size=8))
    assert (plan.status, plan.peak, plan.lower_bound, plan.gap) == ("optimal", 16, 16, 0.0)
    assert plan.bound_by == "live bytes"


def test_triangle_needs_a_search_to_prove_what_live_bytes_cannot():
    plan = cpplan.solve(triangle(), workers=1)
    assert (plan.status, plan.peak, plan.lower_bound) == ("optimal", 3, 3)
    assert plan.bound_by is not None
    assert plan.bound_by.startswith("CP-SAT")


@pytest.mark.parametrize("block", range(10))
def test_agrees_with_brute_force_on_random_problems(block: int):
    """500 in all, with alignments, gaps, windows and fixed offsets among them."""
    for seed in range(50 * block, 50 * block + 50):
        problem = random_problem(random.Random(seed), 1 + seed % 7)
        plan = cpplan.solve(problem, workers=1)
        assert (plan.status, plan.peak) == ("optimal", brute_force_peak(problem)), seed
        cpplan.simulate(problem, plan)


def test_random_problems_have_what_they_are_meant_to_have():
    problems = [random_problem(random.Random(seed), 1 + seed % 7) for seed in range(500)]
    assert sum(bool(p.fixed) for p in problems) > 50
    assert sum(bool(p.gaps) for p in problems) > 50
    assert sum(int(p.alignment.max(initial=1)) > 1 for p in problems) > 50


def test_perfect_packings_are_proved_perfect():
    for seed in range(3):
        plan = cpplan.solve(perfect_packing(seed, 60), workers=1)
        assert (plan.status, plan.peak) == ("optimal", 4096)


def test_one_more_buffer_never_lowers_the_peak():
    problem = perfect_packing(5, 24)
    for count in range(20, 24):
        smaller = cpplan.solve(problem.subset(np.arange(count)), workers=1)
        larger = cpplan.solve(problem.subset(np.arange(count + 1)), workers=1)
        assert smaller.status == larger.status == "optimal"
        assert smaller.peak <= larger.peak


def test_same_seed_and_one_worker_give_the_same_bytes():
    for problem in (perfect_packing(0, 100), triangle(), chain()):
        one, other = (
            "".join(plan_text(cpplan.solve(problem, workers=1, seed=7))) for _ in range(2)
        )
        assert one == other


def test_deterministic_time_ends_the_run_without_the_clock():
    one, other = (
        cpplan.solve(stubborn(), workers=1, deterministic=True, time_limit=0.1) for _ in range(2)
    )
    assert one.status == "feasible"
    assert "".join(plan_text(one)) == "".join(plan_text(other))


def test_history_improves_monotonically_and_ends_at_the_answer():
    events: list[cpplan.model.plan_data.Progress] = []
    plan = cpplan.solve(perfect_packing(0, 100), workers=1, progress=events.append)
    assert tuple(events) == plan.history
    peaks = [event.peak for event in plan.history]
    assert peaks == sorted(peaks, reverse=True)
    assert (peaks[-1], plan.history[-1].lower_bound) == (plan.peak, plan.lower_bound)


def test_expired_time_limit_returns_the_best_plan():
    plan = cpplan.solve(stubborn(), time_limit=1)
    assert plan.status == "feasible"
    assert plan.peak > plan.lower_bound


def test_interrupt_returns_the_best_plan_so_far():
    def interrupt(event):
        if event.source != "bump":
            raise KeyboardInterrupt

    plan = cpplan.solve(stubborn(), time_limit=60, progress=interrupt)
    assert plan.status == "feasible"
    assert plan.peak < int(stubborn().size.sum())


def test_an_interrupt_that_other_code_swallows_ends_the_run_too():
    """As modules do that are interrupted while they are loaded."""

    def swallow(event):
        if event.source != "bump":
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    problem = perfect_packing(0, 60)
    assert cpplan.solve(problem, deterministic=True).status == "optimal"
    plan = cpplan.solve(problem, deterministic=True, progress=swallow)
    assert plan.status == "feasible"
    assert plan.peak < int(problem.size.sum())


def test_capacity_ends_at_the_first_plan_that_fits():
    problem = perfect_packing(0, 60)
    plan = cpplan.solve(problem, capacity="8 KiB")
    assert plan.peak <= 8192
    assert plan.peak > 4096
    assert plan.status == "feasible"


def test_memory_limit_goes_on_to_the_optimum():
    plan = cpplan.solve(perfect_packing(0, 60), memory_limit=4096)
    assert (plan.status, plan.peak, plan.capacity) == ("optimal", 4096, 4096)


def test_pool_capacity_is_a_limit_too():
    problem = Problem(("a",), lower=[0], upper=[1], size=[8], pools=(Pool("sram", 4),))
    plan = cpplan.solve(problem)
    assert (plan.status, plan.pools) == ("infeasible", (Pool("sram", 4),))


def test_infeasible_capacity_names_missing_bytes_and_live_buffers():
    plan = cpplan.solve(chain(6, size=8), capacity=12)
    assert (plan.status, plan.peak, plan.offset, plan.gap) == ("infeasible", None, None, None)
    assert plan.lower_bound == 16
    assert "4 B are missing" in plan.message
    assert "live at step 1: t0 (8 B), t1 (8 B)" in plan.message


def test_infeasibility_that_only_search_can_prove():
    plan = cpplan.solve(triangle(), capacity=2, workers=1)
    assert (plan.status, plan.lower_bound) == ("infeasible", 3)
    assert "1 B are missing (CP-SAT" in plan.message


def test_a_capacity_that_two_parts_exceed_is_refuted():
    """Each part holds 5 B at most, but a window off the grid makes one need 7 B, the other 6 B."""
    problem = Problem(
        ("a", "b", "c", "d"), [0, 1, 2, 3], [2, 2, 6, 5], [4, 4, 2, 4], [3, 2, 2, 2],
        gaps={0: [Gap(0, 2, 2, 3)], 2: [Gap(2, 6, 0, 1)]},
    )  # fmt: skip
    plan = cpplan.solve(problem, capacity=5, workers=1, time_limit=60)
    assert plan.status == "infeasible"
    assert plan.lower_bound in (6, 7)


def test_hollow_and_empty_buffers_count_by_their_end():
    """In a gap throughout, and of no size at a fixed offset: what counts is where they end."""
    hollow = Problem(("a",), [0], [2], [4], gaps={0: [Gap(0, 2)]})
    pinned = Problem(("a",), [0], [2], [0], fixed={0: 4})
    for problem, bound in ((hollow, "largest buffer"), (pinned, "fixed offset")):
        plan = cpplan.solve(problem, capacity=3)
        missing = f"does not fit into 3 B: 1 B are missing ({bound}); a ends at 4 B or higher"
        assert (plan.status, plan.message) == ("infeasible", missing)


def test_cp_sat_goes_on_while_loops_are_compiled(monkeypatch):
    """A first run does not spend its time on waiting."""
    waits: list[float] = []

    def never_ready(groups, deadline):
        waits.append(deadline.remaining())
        return False

    monkeypatch.setattr(part_search, "is_ready", lambda group: False)
    monkeypatch.setattr(part_search, "prepare_first", never_ready)
    problem = near_perfect_packing(60, seed=3, fill=0.9).problem
    plan = cpplan.solve(problem, time_limit=60, workers=1)
    assert (plan.status, plan.found_by.split()[0]) == ("optimal", "CP-SAT")
    assert 0 < max(waits) <= 6


def test_not_found_is_not_infeasible():
    limit = int(stubborn().live_bytes().max())
    plan = cpplan.solve(stubborn(), capacity=limit, time_limit=1)
    assert (plan.status, plan.offset, plan.peak) == ("unknown", None, None)
    assert f"no plan within {limit} B was found in time" in plan.message


def test_independent_parts_that_tie_are_both_searched():
    """Two triangles, one after the other: each needs 3, and neither bounds the other's search."""
    tri = triangle()
    twice = Problem(
        (*tri.names, *(f"{name}'" for name in tri.names)),
        lower=np.concatenate([tri.lower, tri.lower + 3]),
        upper=np.concatenate([tri.upper, tri.upper + 3]),
        size=np.tile(tri.size, 2),
        gaps={0: [Gap(1, 2)], 3: [Gap(4, 5)]},
    )
    plan = cpplan.solve(twice, workers=1)
    assert (plan.status, plan.peak) == ("optimal", 3)


def test_there_may_be_no_time_limit():
    assert cpplan.solve(triangle(), time_limit=math.inf).status == "optimal"


def test_deterministic_time_limits_the_heuristics_too():
    problem = perfect_packing(0, 3000, steps=100_000, height=1 << 20)
    plan = cpplan.solve(problem, deterministic=True, time_limit=1e-3)
    # A plain allocator's plan always comes first, and nothing after it.
    assert plan.found_by == "segregated_fit"


def test_independent_parts_are_packed_apart():
    """Part one needs a search (optimum 3); part two is a plain stack of 100 bytes and hides it."""
    tri = triangle()
    both = Problem(
        (*tri.names, "big"),
        lower=np.append(tri.lower, 3),
        upper=np.append(tri.upper, 4),
        size=np.append(tri.size, 100),
        gaps=tri.gaps,
    )
    plan = cpplan.solve(both)
    assert (plan.status, plan.peak, plan.bound_by) == ("optimal", 100, "live bytes")


def test_hints_are_followed_where_they_fit():
    problem = perfect_packing(0, 60)
    known = cpplan.solve(problem).offset
    hinted = Problem(
        problem.names, problem.lower, problem.upper, problem.size,
        hint=dict(enumerate(known.tolist())),
    )  # fmt: skip
    plan = cpplan.solve(hinted)
    assert (plan.status, plan.found_by) == ("optimal", "hint")


def test_fixed_offsets_that_overlap_are_named():
    problem = Problem(
        ("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8], fixed={0: 0, 1: 2}
    )  # fmt: skip
    with pytest.raises(
        InputError, match=r"fixed offsets contradict each other: .*'a' and 'b' overlap at step 1"
    ):
        cpplan.solve(problem)


def test_fixed_offsets_in_one_another_s_gaps_do_not_overlap():
    problem = Problem(
        ("a", "b"), lower=[0, 1], upper=[3, 2], size=[4, 4],
        gaps={0: [Gap(1, 2)]}, fixed={0: 0, 1: 0},
    )  # fmt: skip
    assert cpplan.solve(problem).peak == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": 0}, "time_limit must be a positive number of seconds"),
        ({"workers": 0}, "workers must be an integer from 1 on"),
        ({"seed": -1}, "seed must be an integer"),
        ({"workers": 2, "deterministic": True}, "deterministic=True needs workers=1"),
        ({"capacity": "many"}, "'many' is not a byte count"),
        ({"inputs": "perhaps"}, "expected one of reuse, keep, outside"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        cpplan.solve(chain(), **options)


def test_not_a_model_is_named():
    with pytest.raises(InputError, match="expected a Graph, a Program or a Problem, not str"):
        cpplan.solve("model.onnx")


def test_a_graph_s_plan_names_its_ops_and_views():
    """x and t live together, then t and y: 24 bytes; the reshape costs none."""
    graph = Graph(
        "tiny",
        tensors=(
            Tensor("x", 8, kind="input"),
            Tensor("t", 16),
            Tensor("flat", 16, view_of=("t", 0)),
            Tensor("y", 4, kind="output"),
        ),
        ops=(
            Op("conv", inputs=("x",), outputs=("t",), cost=5),
            Op("reshape", inputs=("t",), outputs=("flat",)),
            Op("dense", inputs=("flat",), outputs=("y",), cost=2),
        ),
    )
    plan = cpplan.solve(graph)
    assert (plan.status, plan.peak, plan.name) == ("optimal", 24, "tiny")
    assert plan.order == ("conv", "reshape", "dense")
    assert (plan.cost, plan.base_cost) == (8, 8)
    assert plan.offset_of("flat") == plan.offset_of("t")
    cpplan.simulate(graph, plan)


def test_residency_moves_the_boundary_out_of_the_arena():
    graph = Graph(
        "tiny",
        (Tensor("x", 8, kind="input"), Tensor("t", 16), Tensor("y", 4, kind="output")),
        (Op("a", inputs=("x",), outputs=("t",)), Op("b", inputs=("t",), outputs=("y",))),
    )
    assert cpplan.solve(graph).peak == 24
    assert cpplan.solve(graph, inputs="keep").peak == 28
    assert cpplan.solve(graph, inputs="outside").peak == 20
    assert cpplan.solve(graph, inputs="outside", outputs="outside").peak == 16


def test_nothing_to_place_is_optimal():
    empty = cpplan.solve(Graph("empty", (), ()))
    assert (empty.status, empty.peak, empty.gap) == ("optimal", 0, 0.0)
    zero = cpplan.solve(Problem(("z",), lower=[0], upper=[1], size=[0]))
    assert (zero.status, zero.peak) == ("optimal", 0)


def test_a_registered_heuristic_takes_part():
    known = cpplan.solve(perfect_packing(0, 60)).offset

    @heuristics.register("oracle", portfolio=True)
    def oracle(problem, deadline):
        return known

    try:
        plan = cpplan.solve(perfect_packing(0, 60))
        assert (plan.status, plan.found_by) == ("optimal", "oracle")
    finally:
        heuristics.unregister("oracle")


def test_a_broken_heuristic_is_found_out_and_left_out():
    @heuristics.register("all at zero", portfolio=True)
    def zero(problem, deadline):
        return np.zeros(len(problem), np.int64)

    try:
        with pytest.warns(DefectWarning, match="all at zero.*left out"):
            assert cpplan.solve(perfect_packing(0, 60)).status == "optimal"
        with pytest.raises(VerificationError, match="all at zero"):
            cpplan.solve(perfect_packing(0, 60), algorithm="all at zero")
    finally:
        heuristics.unregister("all at zero")


def test_an_easy_model_loads_no_solver():
    script = (
        "import sys, cpplan\n"
        "assert not {'ortools', 'llvmlite', 'pandas', 'onnx', 'networkx'} & set(sys.modules)\n"
        "from cpplan.model.problem import Problem\n"
        "problem = Problem(('a', 'b'), lower=[0, 1], upper=[2, 3], size=[4, 8])\n"
        "assert cpplan.solve(problem).status == 'optimal'\n"
        "heavy = {'ortools', 'llvmlite', 'pandas', 'onnx', 'networkx', 'rich', 'formulations'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cpplan.solve(TWO_OPS, order="search", first=3), "first must be a sequence of str"),
        (lambda: cpplan.solve(TWO_OPS, order="search", last=[3]), "last must be a sequence of str"),
        (lambda: cpplan.solve(TWO_OPS, algorithm=[]), r"algorithm \[\] is not understood"),
        (lambda: cpplan.Graph("g", (), (), 3), "symbols must be Symbols, not int"),
        (lambda: cpplan.batch(3), "models must be a list or a mapping, not 3"),
        (lambda: cpplan.batch({"g": TWO_OPS}, 3), "settings must be a mapping"),
    ],
)
def test_wrong_argument_types_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


TWO_OPS = cpplan.Graph(
    "two",
    (cpplan.Tensor("a", 8), cpplan.Tensor("b", 8, kind="output")),
    (cpplan.Op("f", outputs=("a",)), cpplan.Op("g", inputs=("a",), outputs=("b",))),
)
