"""Order, offsets and sharing in one model: by hand, and against the models it contains."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.cases import seeds
from support.layouts_oracle import check_shared_layout, stacked, with_meetings
from support.random_orders import random_order_problem, random_topological
from support.sharing_instances import random_read_graph, setting, two_branches
from support.sharing_oracle import may_lie

from cpplan.aliasing.cp_sat import joint_sharing_model, sharing_model
from cpplan.aliasing.distances import allowed_shifts
from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.search.cp_sat_joint import joint_model
from cpplan.program.anf import Program
from cpplan.program.liveness import to_problem
from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_proof import prove_peak
from cpplan.runtime.deadline import Deadline
from formulations.joint import Layout
from formulations.joint_sharing import Meeting, build


def prove(problem: OrderProblem, meetings, alignment=None, order=None) -> int:
    """The peak and the bound of a run to the end, which must be the same; the layout is checked."""
    alignment = alignment or [1] * len(problem.size)
    order = list(range(len(problem))) if order is None else order
    start = stacked(problem, alignment, order)
    proof = prove_peak(
        joint_sharing_model(problem, np.array(alignment), meetings), start, Budget(Deadline(60))
    )
    assert proof.peak == proof.bound
    assert problem.is_order(proof.best.order)
    assert not (proof.best.offset % np.array(alignment)).any()
    check_shared_layout(problem, meetings, proof.best)
    assert proof.peak == int((proof.best.offset + problem.size).max(initial=0))
    return proof.peak


def three() -> OrderProblem:
    """x (4 B, there from the start) is read by ops 0 and 1, which write a and b (4 B, kept)."""
    return OrderProblem(
        predecessors=((), ()),
        extra=np.zeros(2, np.int64),
        size=np.array([4, 4, 4]),
        accessed_by=((0, 1), (0,), (1,)),
        present=np.array([True, False, False]),
        kept=np.array([False, True, True]),
    )


def test_only_the_later_reader_may_write_over_what_both_read():
    assert prove(three(), {}) == 12
    assert prove(three(), {(0, 1): [Meeting(0, op=0, old=0)]}) == 8
    assert prove(three(), {(0, 2): [Meeting(0, op=1, old=0)]}) == 8
    both = {(0, 1): [Meeting(0, op=0, old=0)], (0, 2): [Meeting(0, op=1, old=0)]}
    assert prove(three(), both) == 8


def test_an_order_that_forbids_it():
    """Op 1 after op 0: a, which op 0 writes, cannot lie over x."""
    ordered = replace(three(), predecessors=((), (0,)))
    assert prove(ordered, {(0, 1): [Meeting(0, op=0, old=0)]}) == 12
    assert prove(ordered, {(0, 2): [Meeting(0, op=1, old=0)]}) == 8


def test_what_is_kept_is_not_written_over():
    kept = replace(three(), kept=np.ones(3, bool))
    assert prove(kept, {(0, 2): [Meeting(0, op=1, old=0)]}) == 12


def test_copies_meet_in_any_order():
    """a and b hold the second half of x and the first one: both lie in it."""
    assert prove(three(), {(0, 1): [Meeting(0)]}) == 8
    halved = replace(three(), size=np.array([8, 4, 4]))
    assert prove(halved, {(0, 1): [Meeting(4)], (0, 2): [Meeting(0)]}) == 8


def test_alignment_forbids_a_distance():
    halved = replace(three(), size=np.array([8, 4, 4]))
    inside = {(0, 1): [Meeting(4)], (0, 2): [Meeting(0)]}
    assert prove(halved, inside, [8, 4, 8]) == 8
    assert prove(halved, inside, [8, 8, 8]) == 12  # a in bytes of its own, at 8


def test_two_branches_are_concatenated_where_they_lie():
    """x, a, b, y: 10 B, as in the fixed order."""
    graph = two_branches()
    problem, meetings = with_meetings(graph)
    assert prove(problem, meetings) == 10


def test_below_the_optimum_is_infeasible():
    model = build(three(), [1] * 3, {(0, 1): [Meeting(0, 0, 0)]}, unit=1, upper=7).model
    assert cp_model.CpSolver().solve(model) == cp_model.INFEASIBLE


@pytest.mark.parametrize("seed", seeds(20))
def test_at_a_fixed_order_it_is_the_model_of_links_and_offsets(seed):
    graph = random_read_graph(seed, 1 + seed % 5)
    problem, meetings = with_meetings(graph)
    chain = tuple(() if k == 0 else (k - 1,) for k in range(len(problem)))
    found = setting(graph)
    shifts = allowed_shifts(found.problem, found.candidates, found.rules)
    start = np.cumsum(found.problem.size) - found.problem.size
    alone = prove_peak(sharing_model(found.problem, shifts), start, Budget(Deadline(60)))
    assert alone.peak == alone.bound == prove(replace(problem, predecessors=chain), meetings)


@pytest.mark.parametrize("seed", seeds(15))
def test_without_meetings_it_is_the_joint_model(seed):
    rng = random.Random(seed)
    problem = random_order_problem(rng, 1 + seed % 5)
    problem = replace(problem, extra=np.zeros(len(problem), np.int64), base=0, entry=0)
    alignment = [rng.choice((1, 1, 2, 3)) for _ in problem.size]
    order, none = random_topological(rng, problem), np.zeros(len(problem), np.int64)
    start = Layout(np.array(order), stacked(problem, alignment, order).offset, none)
    joint = prove_peak(
        joint_model(problem, np.array(alignment), none + 1), start, Budget(Deadline(60))
    )
    assert joint.peak == joint.bound == prove(problem, {}, alignment, order)


@pytest.mark.parametrize("seed", seeds(20))
def test_layouts_survive_byte_by_byte(seed):
    graph = random_read_graph(seed, 1 + seed % 6)
    problem, meetings = with_meetings(graph)
    start = stacked(problem, [1] * len(problem.size), range(len(problem)))
    ones = np.ones(len(problem.size), np.int64)
    layout = prove_peak(
        joint_sharing_model(problem, ones, meetings), start, Budget(Deadline(60))
    ).best
    order = tuple(int(op) for op in layout.order)
    lives = to_problem(Program(graph, order))
    span = dict(zip(lives.names, zip(lives.lower, lives.upper, strict=True), strict=True))
    for j, other in enumerate(problem.storages):
        for i, one in enumerate(problem.storages[:j]):
            if max(span[one][0], span[other][0]) < min(span[one][1], span[other][1]):
                assert may_lie(graph, order, one, other, int(layout.offset[j] - layout.offset[i]))


def test_a_bound_that_is_met_ends_it_at_once():
    start = stacked(three(), [1] * 3, [0, 1])
    proof = prove_peak(
        joint_sharing_model(three(), np.ones(3, int), {}), start, Budget(Deadline(60)), bound=12
    )
    assert proof.best is start
