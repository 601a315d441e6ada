"""Constructive orders: always orders, never below the optimum, and each does what its name says."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given as given_examples
from hypothesis import settings
from hypothesis import strategies as st
from support.oracles import graphs
from support.published import DATASETS
from support.random_orders import every_order

from cpplan.io.graph_json import read_graph
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.order_problem import OrderProblem
from cpplan.ordering import heuristics as orders
from cpplan.ordering.heuristics.by_net_change import completed
from cpplan.ordering.heuristics.by_width import beam
from cpplan.ordering.heuristics.reversal import reverse_time
from cpplan.ordering.problem import order_problem
from cpplan.runtime.deadline import Deadline

NAMES = orders.names()


def problem_of(
    predecessors: Sequence[Sequence[int]],
    sizes: Sequence[int],
    *,
    extra: Sequence[int] | None = None,
    kept: Sequence[int] = (),
) -> OrderProblem:
    """One output an op, read by its successors; an empty output is no storage."""
    count = len(predecessors)
    users = [
        (op, *(other for other in range(count) if op in predecessors[other])) for op in range(count)
    ]
    rows = [op for op in range(count) if sizes[op]]
    return OrderProblem(
        predecessors=tuple(map(tuple, predecessors)),
        extra=np.array(extra if extra is not None else [0] * count, np.int64),
        size=np.array([sizes[op] for op in rows], np.int64),
        accessed_by=tuple(tuple(sorted(users[op])) for op in rows),
        present=np.zeros(len(rows), bool),
        kept=np.array([op in kept for op in rows], bool),
    )


def random_problem(rng: random.Random, count: int) -> OrderProblem:
    """Ops numbered in any order, storages with several writers, some present, some kept."""
    shuffled = rng.sample(range(count), count)
    rank = {op: k for k, op in enumerate(shuffled)}
    predecessors = [
        sorted(other for other in range(count) if rank[other] < rank[op] and rng.random() < 0.3)
        for op in range(count)
    ]
    accessed_by = [
        tuple(sorted(rng.sample(range(count), rng.randint(1, min(3, count)))))
        for _ in range(rng.randint(0, 2 * count) if count else 0)
    ]
    return OrderProblem(
        predecessors=tuple(map(tuple, predecessors)),
        extra=np.array([rng.choice((0, 0, 3, 9)) for _ in range(count)], np.int64),
        size=np.array([rng.randint(1, 9) for _ in accessed_by], np.int64),
        accessed_by=tuple(accessed_by),
        present=np.array([rng.random() < 0.3 for _ in accessed_by], bool),
        kept=np.array([rng.random() < 0.3 for _ in accessed_by], bool),
        base=rng.choice((0, 5)),
    )


@st.composite
def problems(draw: st.DrawFn, most: int = 7) -> OrderProblem:
    return random_problem(random.Random(draw(st.integers(0, 1 << 30))), draw(st.integers(0, most)))


def smallest_peak(problem: OrderProblem) -> int:
    return min(map(problem.peak, every_order(problem)))


def run(name: str, problem: OrderProblem, seconds: float = 60) -> list[int]:
    return orders.get(name)(problem, Deadline(seconds)).tolist()


@pytest.mark.parametrize("name", NAMES)
@given_examples(graph=graphs())
@settings(max_examples=20)
def test_every_order_runs_any_graph(name: str, graph: Graph) -> None:
    problem = order_problem(graph)
    assert problem.is_order(run(name, problem))


@given_examples(problem=problems(most=6))
@settings(max_examples=60)
def test_a_beam_that_keeps_all_downsets_is_exact(problem: OrderProblem) -> None:
    assert problem.peak(run("beam", problem)) == smallest_peak(problem)
    assert problem.peak(run("beam_backward", problem)) == smallest_peak(problem)


@given_examples(problem=problems(most=12))
@settings(max_examples=60)
def test_reversed_time_has_the_same_bytes_at_every_step(problem: OrderProblem) -> None:
    order = orders.get("post_order")(problem, Deadline(60))
    backward = reverse_time(problem).pressure(order[::-1])
    assert backward.tolist() == problem.pressure(order)[::-1].tolist()


# Two branches of two ops: 0 starts 1 -> 2 and 3 -> 4; 5 joins.
TWO_BRANCHES = [[], [0], [1], [0], [3], [2, 4]]


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("given", [0, 1, 2, 3, 4, 5]),
        ("depth_first", [0, 1, 2, 3, 4, 5]),
        ("post_order", [0, 1, 2, 3, 4, 5]),
        ("reverse_post_order", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_branches_one_after_the_other(name: str, order: list[int]) -> None:
    assert run(name, problem_of(TWO_BRANCHES, [1] * 6)) == order


# The same, listed breadth first: 0 starts 1 -> 3 and 2 -> 4; 5 joins.
BREADTH_FIRST = [[], [0], [0], [1], [2], [3, 4]]


def test_only_the_given_order_keeps_a_breadth_first_listing() -> None:
    problem = problem_of(BREADTH_FIRST, [1] * 6)
    assert run("given", problem) == [0, 1, 2, 3, 4, 5]
    for name in ("depth_first", "post_order", "reverse_post_order"):
        assert run(name, problem) == [0, 1, 3, 2, 4, 5]


def test_where_the_listing_is_no_order_the_given_order_is_the_post_order() -> None:
    problem = problem_of([[1], [2], []], [1, 1, 1])
    assert run("given", problem) == [2, 1, 0]


def test_a_late_source_runs_when_its_reader_needs_it_only_in_post_order() -> None:
    # 0 and 1 are sources, 0 -> 2 -> 3 is a chain, and 3 reads 1.
    problem = problem_of([[], [], [0], [2, 1]], [1, 1, 1, 1])
    assert run("post_order", problem) == [0, 2, 1, 3]
    assert run("given", problem) == [0, 1, 2, 3]


def test_list_schedule_takes_the_least_net_change() -> None:
    # 0 (4 B) feeds 1 (8 B) and 2 (1 B): 2 first. Then 1 frees 0; 3 reads both.
    problem = problem_of([[], [0], [0], [1, 2]], [4, 8, 1, 1])
    assert run("list_schedule", problem) == [0, 2, 1, 3]


def test_list_schedule_is_short_sighted() -> None:
    # 0 (8 B) -> 1 (1 B); 2 (1 B); 3 joins 1 and 2. The greedy rule opens the cheap branch first
    # and carries its byte through the dear one.
    problem = problem_of([[], [0], [], [1, 2]], [8, 1, 1, 0])
    assert run("list_schedule", problem) == [2, 0, 1, 3]
    assert problem.peak(run("list_schedule", problem)) == 10  # 2, 0 and 1
    assert problem.peak([0, 1, 2, 3]) == 9 == smallest_peak(problem)
    assert problem.peak(run("list_schedule_backward", problem)) == 9
    assert problem.peak(run("beam", problem)) == 9


def test_workspaces_break_the_ties_of_list_schedule() -> None:
    problem = problem_of([[], []], [2, 2], extra=[5, 0], kept=[0, 1])
    assert run("list_schedule", problem) == [1, 0]
    assert run("given", problem) == [0, 1]


def test_a_wider_beam_sees_what_a_narrow_one_misses() -> None:
    # As above: with one state, the beam is greedy too.
    problem = problem_of([[], [0], [], [1, 2]], [8, 1, 1, 0])
    assert problem.peak(beam(problem, Deadline(60), 1)) == 10
    assert problem.peak(beam(problem, Deadline(60), 2)) == 9


def test_below_the_level_live_bytes_decide() -> None:
    # 0 (workspace 5 B) leaves nothing, 1 leaves 2 B, kept. With one state and no level, 1 runs
    # first, for its pressure is less; at 5 B, both are equal and 0 leaves less.
    problem = problem_of([[], []], [0, 2], extra=[5, 0], kept=[1])
    assert beam(problem, Deadline(60), 1).tolist() == [1, 0]
    assert beam(problem, Deadline(60), 1, level=5).tolist() == [0, 1]
    assert problem.peak([1, 0]) == 7 > problem.peak([0, 1]) == 5


@given_examples(problem=problems(), level=st.integers(0, 40))
@settings(max_examples=40)
def test_any_level_gives_an_order(problem: OrderProblem, level: int) -> None:
    assert problem.is_order(beam(problem, Deadline(60), 2, level=level).tolist())


def test_a_beam_without_time_still_ends_with_an_order() -> None:
    problem = random_problem(random.Random(1), 60)
    assert problem.is_order(run("beam", problem, seconds=0))
    assert problem.is_order(run("beam_backward", problem, seconds=0))


def test_a_beam_out_of_time_is_completed_by_list_scheduling() -> None:
    """Going on with one state would take time quadratic in the ops that are ready."""
    problem = problem_of([[], *[[0]] * 2000], [1, *range(2000, 0, -1)])
    deadline = Deadline(1e-3, deterministic=True)
    order = beam(problem, deadline, 1)
    assert problem.is_order(order.tolist())
    assert deadline._spent < 0.01
    late = random_problem(random.Random(3), 40)
    assert beam(late, Deadline(0), 4).tolist() == run("list_schedule", late)


@given_examples(problem=problems(), begun=st.integers(0, 8))
@settings(max_examples=40)
def test_a_begun_order_is_completed(problem: OrderProblem, begun: int) -> None:
    first = run("list_schedule_backward", problem)[:begun]
    order = completed(problem, first).tolist()
    assert problem.is_order(order)
    assert order[:begun] == first


@pytest.mark.parametrize("name", NAMES)
def test_the_same_problem_has_the_same_order(name: str) -> None:
    problem = random_problem(random.Random(2), 40)
    assert run(name, problem) == run(name, problem)


@pytest.mark.parametrize("name", NAMES)
def test_waiting_twice_for_the_same_op_is_waiting_once(name: str) -> None:
    assert run(name, problem_of([[], [0, 0], [1, 0, 1]], [1, 1, 1])) == [0, 1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_heuristics_order_an_empty_graph(name: str) -> None:
    assert run(name, problem_of([], [])) == []


def test_a_long_chain_is_no_recursion() -> None:
    chain = problem_of([[], *([k] for k in range(1999))], [1] * 2000)
    for name in set(NAMES) - {"beam", "beam_backward"}:
        assert run(name, chain) == list(range(2000))


def test_a_beam_of_no_width_is_refused() -> None:
    with pytest.raises(InputError, match="width must be at least 1, not 0"):
        beam(problem_of([[]], [1]), Deadline(60), 0)


def test_naming_the_orders_loads_no_compiler() -> None:
    code = (
        "import sys, cpplan.ordering.heuristics; print({'llvmlite', 'networkx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_no_order_of_100_layered_ops_is_below_their_proved_optimum() -> None:
    # 34,270: found and proved by exhaustive search over downsets.
    problem = order_problem(read_graph(DATASETS / "ordering/layered_100.json"))
    peaks = {name: problem.peak(run(name, problem)) for name in NAMES}
    assert peaks["given"] == 46340
    assert min(peaks.values()) == peaks["beam"] == 34270
