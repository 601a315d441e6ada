"""Bytes that no schedule can do without."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.remat_oracle import least_cost, random_remat_problem, remat_chain

from cpplan import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.ordering.problem import order_problem
from cpplan.program.anf import to_anf
from cpplan.remat.footprint import Footprint, accessed_footprint, least_footprint
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline
from cpplan.verification.access_trace import replay
from cpplan.verification.footprint import least_footprint as proved_footprint


@pytest.mark.parametrize("seed", seeds(30))
def test_no_schedule_fits_below_the_footprint(seed):
    problem = random_remat_problem(seed, 5)
    assert least_cost(problem, least_footprint(problem).bytes - 1) is None


@pytest.mark.parametrize("seed", seeds(30))
def test_a_given_order_and_one_op_prove_the_footprint_or_less(seed):
    problem = random_remat_problem(seed, 7)
    least = least_footprint(problem).bytes
    assert least_footprint(problem, range(len(problem))).bytes == least
    assert least_footprint(problem, range(len(problem)), Deadline(0)).bytes <= least
    one = accessed_footprint(order_problem(problem.graph))
    assert one.bytes <= least
    at = None if one.unit is None else problem.graph.ops[one.unit].name
    accesses = replay(to_anf(problem.graph), Residency())
    proof = {"at": at, "enough": one.bytes}
    assert proved_footprint(problem.graph, Residency(), (), *accesses, **proof) >= one.bytes


def test_a_chain_needs_a_unit_with_what_it_reads():
    """Unit 5 reads t4 and t3 and writes t5; 3 slots are enough."""
    problem = remat_problem(remat_chain(4))
    assert least_footprint(problem) == Footprint(3, 5)
    assert least_cost(problem, 3) == 15


def test_outputs_meet_at_the_end():
    """Three outputs of 5 bytes, each made from one byte: 6 while the unit runs, 15 at the end."""
    tensors = (Tensor("x", 1, kind="input"),)
    tensors += tuple(Tensor(f"y{k}", 5, kind="output") for k in range(3))
    ops = tuple(Op(f"f{k}", inputs=("x",), outputs=(f"y{k}",)) for k in range(3))
    problem = remat_problem(Graph("fan", tensors, ops))
    assert least_footprint(problem) == Footprint(15, None)


def test_tensor_of_a_single_run_stays_until_it_is_read():
    """d is random: its 8 bytes are there while g runs, whose own are 1 + 4; y reads both."""
    tensors = Tensor("x", 1, kind="input"), Tensor("d", 8), Tensor("a", 1), Tensor("b", 4)
    tensors += (Tensor("y", 1, kind="output"),)

    def problem(again):
        return remat_problem(
            Graph(
                "dropout",
                tensors,
                (
                    Op("r", inputs=("x",), outputs=("d",), recomputable=again),
                    Op("e", inputs=("d",), outputs=("a",)),
                    Op("g", inputs=("a",), outputs=("b",)),
                    Op("h", inputs=("b", "d"), outputs=("y",)),
                ),
            )
        )

    # h alone: b, d and y.
    assert least_footprint(problem(True)) == Footprint(13, 3)
    # Of what may not run again, d is there while g runs too: also 13, and g is the first.
    assert least_footprint(problem(False)) == Footprint(13, 2)


def test_footprint_without_ops_names_no_unit():
    problem = remat_problem(Graph("idle", (Tensor("x", 3, kind="input"),), ()))
    assert least_footprint(problem) == Footprint(3, None)
