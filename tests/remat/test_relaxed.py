"""Repetitions that the searches leave out, but no bound may: by hand."""

from __future__ import annotations

import pytest

from cpplan import Graph, Op, Tensor, simulate, solve, verify
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.liveness import to_problem
from cpplan.remat.known_schedules import KnownSchedules
from cpplan.remat.portfolio import ScheduleSearch
from cpplan.remat.problem import remat_problem
from cpplan.remat.relaxed import relax_repetition
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

# Beside c of 8 B and what it is made from lies s or t, of 4 B each. To make s again costs 1 and to
# make t again 5; what makes s is given below.
_SIZES = {"s": 4, "t": 4, "u": 1, "w": 1, "c": 8, "d": 1, "y": 1}
_LIMIT = 14
_TAIL = (
    Op("t", outputs=("t",), cost=5),
    Op("w", inputs=("t",), outputs=("w",)),
    Op("c", inputs=("u", "w"), outputs=("c",)),
    Op("d", inputs=("c",), outputs=("d",)),
    Op("y", inputs=("d", "s", "t"), outputs=("y",)),
)
_VIEW = Tensor("v", 4, view_of=("s", 0))
_CASES = {
    "another op passes on a view": (
        (_VIEW,),
        (Op("s", outputs=("s",)), Op("u", inputs=("s",), outputs=("v", "u"))),
        Residency(),
    ),
    "a view that costs something and is not needed again": (
        (_VIEW,),
        (
            Op("s", outputs=("s",)),
            Op("v", inputs=("s",), outputs=("v",), cost=10),
            Op("u", inputs=("v",), outputs=("u",)),
        ),
        Residency(),
    ),
    "a result outside the arena that another op writes too": (
        (Tensor("out", 2, kind="output"), Tensor("half", 1, view_of=("out", 0))),
        (Op("s", outputs=("s", "half")), Op("u", inputs=("s",), outputs=("u", "out"))),
        Residency(outputs="outside"),
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_no_bound_is_above_what_a_program_costs(case: str):
    tensors, head, residency = _CASES[case]
    tensors += tuple(Tensor(name, size) for name, size in _SIZES.items())
    graph = Graph("g", tensors, head + _TAIL)
    number = {op.name: k for k, op in enumerate(graph.ops)}
    once = [number[op.name] for op in graph.ops]
    program = Program(graph, (*once[:-1], number["s"], once[-1]))
    assert to_problem(program, residency).live_bytes().max() == _LIMIT
    problem = remat_problem(graph, residency)
    known = KnownSchedules(problem, range(len(problem)))
    search = ScheduleSearch(known)
    assert search.within(_LIMIT, Budget(Deadline(1, deterministic=True))).cost == known.base + 5
    search.bound_cost(_LIMIT, Budget(Deadline(1)))
    assert known.cost_bound(_LIMIT).cost == program.cost == known.base + 1


def test_a_result_outside_the_arena_is_written_again():
    """s is made again, at a cost of 1, though its op also writes an output of the caller's."""
    tensors = (Tensor("out", 9, kind="output"), *(Tensor(n, size) for n, size in _SIZES.items()))
    head = Op("s", outputs=("s", "out")), Op("u", inputs=("s",), outputs=("u",))
    graph = Graph("g", tensors, head + _TAIL)
    plan = solve(
        graph, remat=True, memory_limit=_LIMIT, outputs="outside", time_limit=5, deterministic=True
    )
    assert plan.status == "optimal"
    assert plan.cost == plan.base_cost + 1
    assert "out~1" not in plan.buffers
    verify(graph, plan)
    simulate(graph, plan)


_LATE = Tensor("z", 4, view_of=("s", 0))
_VIEWED = {
    "each view is made in one of two runs": (
        (_VIEW, _LATE),
        (
            Op("s", outputs=("s",)),
            Op("v", inputs=("s",), outputs=("v",), cost=10),
            Op("u", inputs=("v",), outputs=("u",)),
        ),
    ),
    "the first run is only waited for": (
        (_LATE,),
        (Op("s", outputs=("s",)), Op("u", outputs=("u",), after=("s",))),
    ),
}


@pytest.mark.parametrize("case", _VIEWED)
def test_views_that_run_once_in_all_are_not_counted_again(case: str):
    """z, a view of s, is made once, when s is made again: the program costs 1 more."""
    tensors, head = _VIEWED[case]
    tensors += tuple(Tensor(name, size) for name, size in _SIZES.items())
    tail = (
        Op("z", inputs=("s",), outputs=("z",), cost=10),
        Op("y", inputs=("d", "z", "t"), outputs=("y",)),
    )
    graph = Graph("g", tensors, head + _TAIL[:-1] + tail)
    number = {op.name: k for k, op in enumerate(graph.ops)}
    once = [number[op.name] for op in graph.ops]
    program = Program(graph, (*once[:-2], number["s"], *once[-2:]))
    assert to_problem(program, Residency()).live_bytes().max() == _LIMIT
    problem = remat_problem(graph)
    known = KnownSchedules(problem, range(len(problem)))
    search = ScheduleSearch(known)
    assert search.within(_LIMIT, Budget(Deadline(1, deterministic=True))).peak <= _LIMIT
    search.bound_cost(_LIMIT, Budget(Deadline(1)))
    assert known.cost_bound(_LIMIT).cost == program.cost == known.base + 1


def test_a_problem_that_leaves_nothing_out_is_the_same():
    # The only reader of s reads it as v: whoever makes s again must make v again.
    ops = (
        Op("s", outputs=("s",)),
        Op("v", inputs=("s",), outputs=("v",), cost=10),
        Op("u", inputs=("v",), outputs=("u",)),
    )
    problem = remat_problem(Graph("g", (Tensor("s", 4), _VIEW, Tensor("u", 1)), ops))
    assert relax_repetition(problem) is problem
