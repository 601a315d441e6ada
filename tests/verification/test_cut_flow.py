"""The bound "minimum cut" from the flow that a plan carries, and flows that prove nothing."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from support.cases import seeds
from support.empty_tensors import with_empty
from support.instances import side_by_side
from support.orders_oracle import least_pressure, random_graph

import cpplan
from cpplan import Graph, Plan, Residency, to_anf, verify
from cpplan.io.plan_json import plan_from_dict, plan_text, plan_to_dict
from cpplan.model.certificates import CutFlow
from cpplan.model.errors import InputError, VerificationError
from cpplan.ordering.cuts import CutNetwork
from cpplan.ordering.problem import order_problem
from cpplan.verification.access_trace import replay
from cpplan.verification.cited_bounds import minimum_cut_bytes
from cpplan.verification.verifier import check_plan


def proved() -> tuple[Graph, Plan]:
    graph = side_by_side()
    plan = cpplan.solve(graph, order="search")
    flow = CutFlow(
        "u",
        (("s", "start", 2), ("t", "a", 2)),
        (("s", "a", 2), ("t", "end", 2)),
        (),
    )
    return graph, replace(
        plan, bound_by="minimum cut", lower_bound=10, certificate=flow, status="optimal"
    )


def test_the_flow_proves_what_no_op_alone_has():
    graph, plan = proved()
    assert (plan.peak, plan.scope) == (10, "every order")
    assert check_plan(graph, plan).bound == "certificate"
    with pytest.raises(VerificationError, match="forced live bytes' proves a lower bound of 8 B"):
        verify(graph, replace(plan, bound_by="forced live bytes", certificate=None))


def test_the_planner_s_plan_carries_its_flow():
    graph = side_by_side()
    plan = cpplan.solve(graph, order="search")
    assert (plan.peak, plan.bound_by, plan.status) == (10, "minimum cut", "optimal")
    assert check_plan(graph, plan).bound == "certificate"
    again = plan_from_dict(json.loads("".join(plan_text(plan))))
    assert again == plan
    assert again.certificate == plan.certificate


@pytest.mark.parametrize("seed", range(40))
def test_flows_prove_the_minimum_of_every_op(seed):
    graph = random_graph(seed, 2 + seed % 9)
    if seed % 2:
        graph = with_empty(graph, seed)
    residency = Residency(inputs="keep", constants="keep") if seed % 3 == 0 else Residency()
    network = CutNetwork(order_problem(graph, residency))
    demands = replay(to_anf(graph), residency)
    for op in range(len(graph.ops)):
        flow = network.certificate(op)
        least = minimum_cut_bytes(graph, residency, flow, *demands)
        assert least == network.minimum(op)[0]
        if residency == Residency():
            assert least <= least_pressure(graph)


def mutated(flow: CutFlow, rng: random.Random) -> CutFlow:
    """One row left out, doubled, sent elsewhere, or with another amount; or another op."""
    key = rng.choice(("begun", "ended"))
    rows = list(getattr(flow, key))
    k = rng.randrange(len(rows))
    storage, op, amount = rows[k]
    match rng.randrange(5):
        case 0:
            del rows[k]
        case 1:
            rows.append(rows[k])
        case 2:
            rows[k] = (storage, rng.choice([x for x in (None, "u", "end", "?") if x != op]), amount)
        case 3:
            rows[k] = (storage, op, rng.choice([amount + 1, amount - 1, -amount, 0, 10**9]))
        case _:
            rows[k] = (rng.choice(["y", "space", "?"]), op, amount)
    return flow._replace(**{key: tuple(rows)})


@pytest.mark.parametrize("seed", seeds(40))
def test_a_mutated_flow_is_refused(seed):
    graph, plan = proved()
    changed = mutated(plan.certificate, random.Random(seed))
    with pytest.raises(
        VerificationError, match=r"certificate is not a valid flow|proves a lower bound"
    ):
        verify(graph, replace(plan, certificate=changed))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower_bound": 11}, "above the peak"),
        ({"certificate": None}, "has no certificate"),
        ({"bound_by": "downset search"}, "does not use"),
        ({"lower_bound": None, "status": "feasible"}, "claims no bound"),
        ({"lower_bound": 9, "status": "optimal"}, "contradicts"),
        ({"scope": "given order", "bound_by": "live bytes"}, "does not use"),
    ],
)
def test_a_claim_that_does_not_go_with_the_flow_is_refused(changes, message):
    graph, plan = proved()
    with pytest.raises(VerificationError, match=message):
        verify(graph, replace(plan, **changes))


def test_no_flow_proves_more_than_it_carries():
    """With 3 B as the peak's share beside u, the plan is larger than its bound may be."""
    graph, plan = proved()
    wide = replace(plan, certificate=plan.certificate._replace(op="a"))
    with pytest.raises(VerificationError, match="certificate is not a valid flow"):
        verify(graph, wide)


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "trust me"},
        {"kind": "cut flow", "op": "u", "begun": [], "ended": []},
        {"kind": "cut flow", "op": 3, "begun": [], "ended": [], "waits": []},
        {"kind": "cut flow", "op": "u", "begun": [["s", "a", 1.5]], "ended": [], "waits": []},
        {"kind": "cut flow", "op": "u", "begun": [["s", "a", True]], "ended": [], "waits": []},
        {"kind": "cut flow", "op": "u", "begun": [["s", "a"]], "ended": [], "waits": []},
        {"kind": "cut flow", "op": "u", "begun": [], "ended": [], "waits": [["a", None, 1]]},
        "cut flow",
    ],
)
def test_a_malformed_certificate_is_refused_when_read(values):
    _, plan = proved()
    with pytest.raises(InputError, match="certificate"):
        plan_from_dict({**plan_to_dict(plan), "certificate": values})
