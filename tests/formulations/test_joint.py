"""Order and offsets in one model: by hand, and against every order with its best packing."""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model
from support.layouts_oracle import any_layout, packing_of, rows_of

from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.search.cp_sat_joint import joint_model
from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_proof import prove_peak
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets
from formulations.joint import build


def prove(problem: OrderProblem, alignment, extra_alignment, order) -> int:
    """The peak and the bound of a run to the end, which must be the same; the layout is checked."""
    start = any_layout(problem, order, alignment, extra_alignment)
    proof = prove_peak(
        joint_model(problem, alignment, extra_alignment), start, Budget(Deadline(60))
    )
    packing = packing_of(problem, proof.best.order, alignment, extra_alignment)
    offset = rows_of(proof.best)
    assert problem.is_order(proof.best.order)
    check_offsets(packing, offset, "joint")
    assert proof.bound == proof.peak
    filled = packing.size > 0
    assert proof.peak == int((offset + packing.size)[filled].max(initial=0))
    return proof.peak


def pairs() -> OrderProblem:
    """Op 0 makes a (4 bytes) for op 1, op 2 makes b (6) for op 3, op 1 makes c (4) for op 3."""
    return OrderProblem(
        predecessors=((), (0,), (), (1, 2)),
        extra=np.zeros(4, np.int64),
        size=np.array([4, 6, 4]),
        accessed_by=((0, 1), (2, 3), (1, 3)),
        present=np.zeros(3, bool),
        kept=np.zeros(3, bool),
    )


def test_the_order_that_packs_best():
    """Op 2 last but one: a and c meet, then b takes the place of a. Else all three meet: 14."""
    assert prove(pairs(), [1, 1, 1], [1, 1, 1, 1], [2, 0, 1, 3]) == 10


def test_alignment_raises_the_peak():
    """One of b and c lies at 8, the other at 0: at best c is the upper one."""
    assert prove(pairs(), [1, 8, 8], [1, 1, 1, 1], [2, 0, 1, 3]) == 12


def test_the_order_with_the_fewest_live_bytes_may_pack_worse():
    """a and b (1 byte, aligned to 8) meet in the order 0, 2, 1: 4 live bytes, but 9 in all.

    In the order 2, 0, 1 they do not: b or a, d and the input g are live, 5 bytes side by side.
    """
    problem = OrderProblem(
        predecessors=((), (0, 2), ()),
        extra=np.zeros(3, np.int64),
        size=np.array([1, 1, 1, 3]),
        accessed_by=((0, 1), (2,), (1, 2), (0,)),
        present=np.array([False, False, False, True]),
        kept=np.zeros(4, bool),
    )
    assert (problem.peak([0, 2, 1]), problem.peak([2, 0, 1])) == (4, 5)
    assert prove(problem, [8, 8, 1, 1], [1, 1, 1], [0, 2, 1]) == 5


def test_an_ops_own_bytes_lie_beside_what_it_accesses():
    """A storage of 5 bytes and a block of 4, at each other's side."""
    problem = OrderProblem(
        predecessors=((),),
        extra=np.array([4]),
        size=np.array([5]),
        accessed_by=((0,),),
        present=np.zeros(1, bool),
        kept=np.zeros(1, bool),
    )
    assert prove(problem, [1], [1], [0]) == 9
    assert prove(problem, [4], [4], [0]) == 9  # the 4 below, the 5 at 4
    assert prove(problem, [8], [8], [0]) == 12  # the 5 below, the 4 at 8


def test_below_the_optimum_is_infeasible():
    joint = build(pairs(), [1, 1, 1], [1] * 4, unit=2, upper=9)
    assert cp_model.CpSolver().solve(joint.model) == cp_model.INFEASIBLE


def test_a_bound_that_is_met_ends_it_at_once():
    problem = pairs()
    start = any_layout(problem, [0, 1, 2, 3], [1, 1, 1], [1] * 4)
    proof = prove_peak(
        joint_model(problem, [1, 1, 1], [1] * 4),
        start,
        Budget(Deadline(60)),
        bound=start.peak(problem),
    )
    assert proof.best is start
