"""Searched orders against brute force over all orders."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.cases import seeds
from support.spill_oracle import random_spill_case

import cpplan
from cpplan import Graph, Op, Pool, Tensor
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.certificates import ForcedAt, RoomPrices
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.small_graphs import kept_meanwhile
from cpplan.verification.verifier import check_plan


@pytest.mark.parametrize("seed", seeds(15, 500))
def test_searched_order_is_bounded_by_brute_force(seed: int) -> None:
    case = random_spill_case(seed, uniform=seed % 2 == 0)
    least, plan = case.least(any_order=True), case.solve("search")
    given = case.solve()
    assert plan.moved_bytes_bound <= least <= plan.moved_bytes
    assert given.moved_bytes is None or plan.moved_bytes <= given.moved_bytes
    assert (plan.status == "optimal") == (plan.moved_bytes == plan.moved_bytes_bound)
    cpplan.simulate(case.graph, plan)


def test_the_only_order_is_planned_as_given() -> None:
    tensors = (*(Tensor(name, 8) for name in "abc"), Tensor("y", 8, kind="output"))
    ops = (
        Op("f", outputs=("a",)),
        Op("g", inputs=("a",), outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c"), outputs=("y",)),
    )
    graph, pools = Graph("only", tensors, ops), [Pool("fast", 24), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, order="search", time_limit=20)
    assert (plan.status, plan.moved_bytes, plan.scope) == ("optimal", 0, "given order")


def test_a_better_order_moves_nothing() -> None:
    """The given order holds a and b while it makes c and d from the input: 40 B are live."""
    tensors = (Tensor("x", 8, kind="input"), *(Tensor(name, 8) for name in "abcd"))
    tensors += (Tensor("y", 8), Tensor("z", 8), Tensor("out", 8, kind="output"))
    reads = {"a": "x", "b": "x", "c": "x", "d": "x", "y": "ab", "z": "cd", "out": "yz"}
    ops = tuple(Op(f"make {k}", inputs=tuple(v), outputs=(k,)) for k, v in reads.items())
    graph, pools = Graph("pairs", tensors, ops), [Pool("fast", 32), Pool("slow")]
    given = cpplan.solve(graph, pools=pools, spill=True, time_limit=20)
    searched = cpplan.solve(graph, pools=pools, spill=True, order="search", time_limit=20)
    assert given.moved_bytes is not None
    assert given.moved_bytes > 0
    assert (searched.status, searched.moved_bytes, searched.scope) == ("optimal", 0, "every order")
    cpplan.verify(graph, searched)


def test_searched_orders_mostly_move_the_fewest_bytes() -> None:
    found = []
    for seed in range(700, 720):
        case = random_spill_case(seed, uniform=True)
        least = case.least(any_order=True)
        if least is not None:
            found.append(case.solve("search").moved_bytes == least)
    assert sum(found) >= 0.95 * len(found)


def test_prices_of_room_that_prove_nothing_are_refused() -> None:
    """A negative price would count room that nobody takes as bytes moved."""
    graph, pools = kept_meanwhile(), [Pool("fast", 16), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, time_limit=20)
    assert isinstance(plan.moved_certificate, RoomPrices)
    for wrong, said in (
        (RoomPrices(0, (("f", -100),)), "price at op 'f' is -100"),
        (RoomPrices(1 << 40, ()), "places of the certificate must be from 0 to 64"),
    ):
        with pytest.raises(VerificationError, match=said):
            cpplan.verify(graph, replace(plan, moved_certificate=wrong))


def test_bound_of_every_order_is_proved_at_the_op_that_the_plan_names() -> None:
    tensors = tuple(Tensor(name, 8) for name in "abcz")
    ops = (
        Op("f", outputs=("a",)),
        Op("g", inputs=("a",), outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c")),
        Op("i", inputs=("b",), outputs=("z",)),
    )
    graph, pools = Graph("forced", tensors, ops), [Pool("fast", 16), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, order="search", time_limit=20)
    # While h runs, b and c leave no room for a, which k reads after it.
    assert (plan.status, plan.moved_bytes_bound, plan.scope) == ("optimal", 16, "every order")
    assert plan.moved_certificate == ForcedAt("h")
    assert check_plan(graph, plan).moved_bound == "certificate"
    assert plan_from_dict(plan_to_dict(plan)) == plan
    for wrong, said in (
        (ForcedAt("i"), "prove a lower bound of 0 B, but the plan claims 16"),
        (ForcedAt("?"), r"unknown op '\?'"),
        (None, "are of different kinds"),
    ):
        with pytest.raises(VerificationError, match=said):
            cpplan.verify(graph, replace(plan, moved_certificate=wrong))
    values = {**plan_to_dict(plan), "moved_certificate": {"kind": "forced at", "op": 3}}
    with pytest.raises(InputError, match="moved_certificate: op must be a string, not 3"):
        plan_from_dict(values)
