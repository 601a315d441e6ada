"""Bounds on moves in every order: of ops that leave too little room, and of the least peak."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from support.cases import seeds
from support.random_orders import every_order
from support.spill_oracle import Case, random_spill_case, random_unused_case

import cpplan
from cpplan import Graph, Op, Plan, Pool, Tensor
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.certificates import CutFlow, ForcedAt, ForcedMoves
from cpplan.model.errors import VerificationError
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline
from cpplan.spilling import every_order as planner
from cpplan.spilling.bounds import MovedBound
from cpplan.spilling.crowded_ops import CrowdedOps, live_problem
from cpplan.spilling.every_order import bound_of_every_order, bound_of_peak, cheapest_cover
from cpplan.verification import forced_moves as checker
from cpplan.verification.forced_moves import forced_moves_floor
from cpplan.verification.moves import BareProgram
from cpplan.verification.verifier import check_plan


def residual_layers(layers: int) -> Graph:
    """Layers that add their input to what two ops make of it; the middle is twice as large."""
    tensors, ops = [Tensor("x0", 4, kind="input")], []
    for k in range(layers):
        tensors += [Tensor(f"wide{k}", 8), Tensor(f"out{k}", 4), Tensor(f"x{k + 1}", 4)]
        ops += [
            Op(f"widen{k}", inputs=(f"x{k}",), outputs=(f"wide{k}",)),
            Op(f"narrow{k}", inputs=(f"wide{k}",), outputs=(f"out{k}",)),
            Op(f"add{k}", inputs=(f"x{k}", f"out{k}"), outputs=(f"x{k + 1}",)),
        ]
    tensors[-1] = replace(tensors[-1], kind="output")
    return Graph("residual", tuple(tensors), tuple(ops))


def two_chains() -> Graph:
    """Two chains from an input to an output; either has bytes live at any time."""
    tensors = [Tensor("x", 6, kind="input"), Tensor("y", 6), Tensor("z", 6, kind="output")]
    tensors += [Tensor("v", 4, kind="input"), Tensor("w", 4, kind="output")]
    ops = [
        Op("f", inputs=("x",), outputs=("y",)),
        Op("g", inputs=("y",), outputs=("z",)),
        Op("h", inputs=("v",), outputs=("w",)),
    ]
    return Graph("chains", tuple(tensors), tuple(ops))


def bound_and_floor(case: Case) -> tuple[MovedBound, int]:
    """The planner's bound of a case, and the bytes that the checker proves by its certificate."""
    program, none = to_anf(case.graph), np.zeros(0, np.int64)
    bound = bound_of_every_order(case.graph, case.problem(), program.order, share=case.in_place)
    plan = Plan(
        "p", "feasible", (), none, none, none, none, pools=case.pools, order=program.names,
        residency=case.residency, sharing=("in place",) if case.in_place else (),
        time_bound=0 if case.time else None,
    )  # fmt: skip
    if bound.certificate is None:
        return bound, 0
    assert isinstance(bound.certificate, ForcedMoves)
    bare = BareProgram(program, case.residency)
    return bound, forced_moves_floor(case.graph, bare, plan, bound.certificate)


def test_every_layer_moves_its_own_input() -> None:
    """While a layer narrows 8 B to 4 B, its input of 4 B leaves the pool, and comes back."""
    graph, pools = residual_layers(3), (Pool("fast", 12), Pool("slow"))
    # The input of the model may begin in the slow pool; the two others are written there as well.
    bound, floor = bound_and_floor(Case(graph, Residency(), pools, in_place=False))
    assert (bound.value, floor, bound.name) == (4 + 8 + 8, 20, "forced moves")
    assert isinstance(bound.certificate, ForcedMoves)
    assert len(bound.certificate.at) == 3


def test_no_op_is_looked_at_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a training step of 5,000 ops, looking at all took 23 s, whatever the deadline."""
    looked = []
    absent = CrowdedOps._absent

    def look(self: CrowdedOps, op: int, *, certain: bool) -> tuple[int, ...]:
        looked.append(op)
        return absent(self, op, certain=certain)

    monkeypatch.setattr(CrowdedOps, "_absent", look)
    graph, pools = residual_layers(40), (Pool("fast", 12), Pool("slow"))
    case, order = Case(graph, Residency(), pools, in_place=False), to_anf(graph).order
    options = {"share": False, "deadline": Deadline(0)}
    assert bound_of_every_order(graph, case.problem(), order, **options).value == 0
    assert len(looked) <= 1
    looked.clear()
    options["deadline"] = Deadline(1e-4, deterministic=True)
    bound_of_every_order(graph, case.problem(), order, **options)
    assert len(looked) < 40
    looked.clear()
    assert bound_of_every_order(graph, case.problem(), order, share=False).value > 0
    assert len(looked) == 40


def test_a_certificate_of_forced_moves_is_checked_again() -> None:
    graph, pools = two_chains(), [Pool("fast", 15), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, order="search", time_limit=20)
    plan = replace(plan, moved_bytes_bound_by="forced moves")
    proof = bound_and_floor(Case(graph, plan.residency, tuple(pools), in_place=False))[0]
    assert isinstance(proof.certificate, ForcedMoves)
    plan = replace(plan, moved_bytes_bound=proof.value, moved_certificate=proof.certificate)
    assert check_plan(graph, plan).moved_bound == "certificate"
    assert plan_from_dict(plan_to_dict(plan)) == plan
    at = proof.certificate.at
    for wrong, said in (
        ((), "proves a lower bound of 0 B"),
        (at + at[:1], "the same op twice"),
        ((ForcedAt("?"),), r"unknown op '\?'"),
    ):
        with pytest.raises(VerificationError, match=said):
            cpplan.verify(graph, replace(plan, moved_certificate=ForcedMoves(wrong)))


def test_a_minimum_cut_proves_moves_where_no_tensor_is_live_in_every_order() -> None:
    """Beside 12 B of one chain, there are 4 B of the other, either its input or its output."""
    graph, pools = two_chains(), (Pool("fast", 15), Pool("slow"))
    case = Case(graph, Residency(), pools, in_place=False)
    bound, floor = bound_and_floor(case)
    assert bound.value == floor == case.least(any_order=True) == 4
    assert isinstance(bound.certificate, ForcedMoves)
    assert any(isinstance(one, CutFlow) for one in bound.certificate.at)


@pytest.mark.parametrize("make", [random_unused_case, random_spill_case])
@pytest.mark.parametrize("seed", seeds(120))
def test_no_bound_of_every_order_is_above_brute_force(seed: int, make) -> None:
    case = make(seed)
    bound, floor = bound_and_floor(case)
    assert bound.value <= floor or bound.certificate is None
    least = case.least(any_order=True)
    assert least is None or max(bound.value, floor) <= least


@pytest.mark.parametrize("seed", seeds(60))
def test_the_least_peak_of_all_orders_bounds_moves(seed: int) -> None:
    case = random_spill_case(seed)
    problem, order = case.problem(), to_anf(case.graph).order
    live = live_problem(case.graph, problem, order, share=case.in_place)
    assert live.extra.min(initial=0) >= 0  # as models of orders expect
    peak = min(live.peak(order) for order in every_order(live))
    least = case.least(any_order=True)
    assert least is None or bound_of_peak(problem, peak).value <= least


def test_flows_that_are_none_are_refused() -> None:
    found = 0
    for seed in range(300):
        case = random_spill_case(seed)
        proof = bound_and_floor(case)[0].certificate
        if not isinstance(proof, ForcedMoves):
            continue
        for k, flow in enumerate(proof.at):
            if not isinstance(flow, CutFlow) or not flow.begun:
                continue
            found += 1
            storage, op, amount = flow.begun[0]
            wrong = flow._replace(begun=((storage, op, amount + 1), *flow.begun[1:]))
            at = (*proof.at[:k], wrong, *proof.at[k + 1 :])
            program, none = to_anf(case.graph), np.zeros(0, np.int64)
            plan = Plan(
                "p", "feasible", (), none, none, none, none, pools=case.pools,
                order=program.names, residency=case.residency,
                sharing=("in place",) if case.in_place else (),
            )  # fmt: skip
            with pytest.raises(VerificationError, match="not a valid flow"):
                forced_moves_floor(
                    case.graph, BareProgram(program, case.residency), plan, ForcedMoves(at)
                )
    assert found > 10


@pytest.mark.parametrize("seed", seeds(200))
def test_the_cheapest_cover_is_the_least_of_all_subsets(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    items = [(rng.choice([0, 1, 3, 8, 20]), rng.randint(1, 12)) for _ in range(rng.randint(1, 8))]
    needed = rng.randint(0, 40)
    costs = [
        sum(cost for cost, _ in some)
        for count in range(len(items) + 1)
        for some in combinations(items, count)
        if sum(room for _, room in some) >= needed
    ]
    least = min(costs, default=sum(cost for cost, _ in items))
    assert cheapest_cover(items, needed) == least
    assert checker._least_cost(items, needed) == least
    monkeypatch.setattr(planner, "MOST_SUMS", 1)
    monkeypatch.setattr(checker, "MOST_SUMS", 1)
    assert cheapest_cover(items, needed) <= checker._least_cost(items, needed) <= least
