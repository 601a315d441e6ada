"""Edge cases of sharing: bodies that write, copies in place, constants, contradictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cpplan
from cpplan import Graph, Op, Placement, Pool, Tensor
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.plan_data import Relation


def branch(name: str) -> Graph:
    """Eight bytes of its own, then the result."""
    tensors = (Tensor(name, 8), Tensor("a", 64, kind="output"))
    return Graph(name, tensors, (Op("f", outputs=(name,)), Op("g", inputs=(name,), outputs=("a",))))


def after_if(*ops: Op, tensors: tuple[Tensor, ...]) -> Graph:
    """An ``if`` that writes ``a``, and ops that read it."""
    choose = Op("if", "If", ("c",), ("a",), bodies=(branch("p"), branch("q")))
    return Graph("if", (Tensor("c", 1, kind="input"), Tensor("a", 64), *tensors), (choose, *ops))


@pytest.mark.parametrize("pools", [None, (Pool("sram", 100), Pool("dram"))])
@pytest.mark.parametrize("objective", ["preference", "total", "cost"])
def test_what_bodies_write_may_be_written_over(pools: tuple[Pool, ...] | None, objective: str):
    # c, a and the branch's own 8 B while the if runs: 73 B; y then lies over a.
    relu = Op("relu", "Relu", ("a",), ("y",), in_place=(("y", "a"),))
    graph = after_if(relu, tensors=(Tensor("y", 64, kind="output"),))
    plan = cpplan.solve(graph, in_place=True, pools=pools, objective=objective)
    cpplan.simulate(graph, plan)
    assert (plan.status, plan.peak) == ("optimal", 73)
    assert plan.relations == (Relation("in place", "y", "a"),)


def test_a_worse_bound_for_it_is_refused():
    relu = Op("relu", "Relu", ("a",), ("y",), in_place=(("y", "a"),))
    graph = after_if(relu, tensors=(Tensor("y", 64, kind="output"),))
    plan = cpplan.solve(graph)
    assert plan.peak == 128
    claim = replace(plan, sharing=("in place",), bound_by="live bytes, shared")
    with pytest.raises(VerificationError, match=r"proves a lower bound of 73 B.* claims 128 B"):
        cpplan.verify(graph, claim)


def test_what_bodies_write_may_lie_within_a_concatenation():
    # a and b within y: 128 B, and c with the branch's 8 B beside a fit into what is not yet y.
    tensors = (Tensor("b", 64), Tensor("y", 128, kind="output"))
    make = Op("make", outputs=("b",))
    places = (Placement("a", "y", 0), Placement("b", "y", 64))
    concat = Op("concat", "Concat", ("a", "b"), ("y",), placements=places)
    graph = after_if(make, concat, tensors=tensors)
    for order in ("given", "search"):
        plan = cpplan.solve(graph, in_place=True, order=order)
        cpplan.simulate(graph, plan)
        assert (plan.status, plan.peak, len(plan.relations)) == ("optimal", 128, 2)


def test_no_op_copies_onto_itself():
    # y0 is x three times. At byte 0 of y2 it would hold what y2 holds there, but the op then copies
    # 12 B from there to byte 4: 8 of them lie in both places.
    thrice = tuple(Placement("x", "y0", 4 * k) for k in range(3))
    ends = (Placement("x", "y2", 0), Placement("y0", "y2", 4), Placement("x", "y2", 16))
    graph = Graph(
        "periods",
        (Tensor("x", 4, kind="input"), Tensor("y0", 12), Tensor("y2", 20, kind="output")),
        (
            Op("c0", "Concat", ("x", "x", "x"), ("y0",), placements=thrice),
            Op("c2", "Concat", ("x", "y0", "x"), ("y2",), placements=ends),
        ),
    )
    plan = cpplan.solve(graph, in_place=True)
    cpplan.simulate(graph, plan)
    assert (plan.status, plan.peak) == ("optimal", 20)
    assert plan.offset_of("y0") == plan.offset_of("y2") + 4
    at_start = (Relation("placement", "x", "y0", 0), Relation("placement", "x", "y2", 0))
    shifted = replace(plan, offset=np.zeros(3, np.int64), relations=at_start)
    with pytest.raises(VerificationError, match=r"'c2' copies 12 B between them by 4 B"):
        cpplan.verify(graph, shifted)


def test_constants_share_no_bytes_by_choice():
    # The bound counts c and y in full; a plan that placed c within y would be below it.
    places = (Placement("c", "y", 0), Placement("c", "y", 2))
    graph = Graph(
        "constant",
        (Tensor("c", 2, kind="constant"), Tensor("y", 4, kind="output")),
        (Op("concat", "Concat", ("c", "c"), ("y",), placements=places),),
    )
    plan = cpplan.solve(graph, in_place=True, constants="keep")
    assert (plan.status, plan.peak, plan.relations) == ("optimal", 6, ())
    smaller = replace(
        plan,
        offset=np.zeros(2, np.int64),
        peak=4,
        lower_bound=None,
        bound_by=None,
        status="feasible",
        relations=(Relation("placement", "c", "y", 0),),
    )
    with pytest.raises(VerificationError, match="'c' may not share bytes"):
        cpplan.verify(graph, smaller)


def test_two_inputs_at_one_place_of_an_output_contradict_each_other():
    tensors = (
        Tensor("a", 64, kind="input"),
        Tensor("b", 32, kind="input"),
        Tensor("y", 96, kind="output"),
    )
    places = (Placement("a", "y", 0), Placement("b", "y", 32))
    with pytest.raises(InputError, match=r"'o': placements of 'a' and 'b' overlap in 'y' at .*32"):
        Graph("g", tensors, (Op("o", "Concat", ("a", "b"), ("y",), placements=places),))


def test_what_fits_into_the_first_pool_with_sharing_goes_there():
    # Plain, x, a and b are live at once: 12 B. Each in place of the other, 4 B of SRAM hold all.
    graph = Graph(
        "chain",
        (Tensor("x", 4, kind="input"), Tensor("a", 4), Tensor("b", 4, kind="output")),
        (
            Op("f", inputs=("x",), outputs=("a",), in_place=(("a", "x"),)),
            Op("g", inputs=("a",), outputs=("b",), in_place=(("b", "a"),)),
        ),
    )
    pools = Pool("sram", 4), Pool("dram")
    for objective in ("preference", "total", "cost"):
        plan = cpplan.solve(graph, in_place=True, pools=pools, objective=objective)
        assert (plan.status, plan.pool_peaks) == ("optimal", {"sram": 4, "dram": 0})
        cpplan.simulate(graph, plan)
