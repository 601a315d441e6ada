"""Plans that only hand bytes over in place: the check in bulk and the access trace agree."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from support.plan_verdicts import accepts

import cpplan
from cpplan import Graph, Op, Placement, Plan, Residency, Tensor
from cpplan.model.errors import VerificationError
from cpplan.model.plan_data import Relation
from cpplan.packing.problem import as_problem
from cpplan.program.anf import to_anf
from cpplan.verification import program_plans
from cpplan.verification.access_trace import replay
from cpplan.verification.footprint import forced_by, forced_live_bytes
from cpplan.verification.hand_overs import find_hand_overs
from cpplan.verification.storages import relaxed_by
from cpplan.verification.verifier import verify


def random_graph(chance: random.Random) -> Graph:
    """Up to eight ops that compute, join tensors or take them apart; some may run in place."""
    count = chance.randint(2, 8)
    tensors = [Tensor("x", chance.choice((0, 4, 8)), kind="input")]
    ops = []
    for k in range(count):
        read = chance.sample(tensors, min(len(tensors), chance.randint(1, 2)))
        names = tuple(t.name for t in read)
        kind = "output" if k == count - 1 or chance.random() < 0.2 else "intermediate"
        what = chance.random()
        if what < 0.3:  # a concatenation
            ends = [sum(t.nbytes for t in read[:j]) for j in range(len(read) + 1)]
            written = [Tensor(f"t{k}", ends[-1], kind=kind)]
            placements = tuple(
                Placement(t.name, f"t{k}", at) for t, at in zip(read, ends, strict=False)
            )
            ops.append(Op(f"op{k}", inputs=names, outputs=(f"t{k}",), placements=placements))
        elif what < 0.5 and read[0].nbytes == 8:  # a split
            written = [Tensor(f"t{k}_{j}", 4, kind=kind) for j in range(2)]
            placements = tuple(
                Placement(t.name, names[0], chance.choice((0, 4 * j)))
                for j, t in enumerate(written)
            )
            outputs = tuple(t.name for t in written)
            ops.append(Op(f"op{k}", inputs=names, outputs=outputs, placements=placements))
        else:
            written = [Tensor(f"t{k}", chance.choice((0, 4, 4, 8)), kind=kind)]
            over = tuple((f"t{k}", t.name) for t in read if t.nbytes == written[0].nbytes)
            ops.append(Op(f"op{k}", inputs=names, outputs=(f"t{k}",), in_place=over))
        tensors += written
    return Graph("random", tuple(tensors), tuple(ops))


def mutated(plan: Plan, graph: Graph, chance: random.Random) -> Plan:
    """The plan, or one with another offset, relation or bound."""
    assert plan.offset is not None
    what = chance.randrange(5)
    if what == 1:
        offset = plan.offset.copy()
        offset[chance.randrange(len(offset))] = chance.choice((0, 4, 8, 12))
        return replace(plan, offset=offset)
    if what == 2 and plan.relations:
        kept = list(plan.relations)
        kept.pop(chance.randrange(len(kept)))
        return replace(plan, relations=tuple(kept))
    if what == 3:
        op = chance.choice(graph.ops)
        stray = Relation("in place", op.outputs[0], op.inputs[0])
        if op.placements:
            stray = Relation("placement", *chance.choice(op.placements))
        return replace(plan, relations=(*plan.relations, stray))
    if what == 4:
        return replace(plan, lower_bound=(plan.lower_bound or 0) + 4)
    return plan


def test_bulk_check_accepts_what_the_access_trace_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    in_bulk, taken = program_plans._check_single_runs, []
    chance = random.Random(5)
    counts = {True: 0, False: 0}
    for _ in range(70):
        graph = random_graph(chance)
        kept = chance.choice(("keep", "reuse", "outside"))
        residency = Residency(inputs=kept)
        first = cpplan.solve(graph, in_place=True, inputs=residency.inputs, algorithm="first_fit")
        for _ in range(4):
            plan = mutated(first, graph, chance)
            with monkeypatch.context() as only:
                only.setattr(program_plans, "_check_single_runs", lambda *given: None)
                expected = accepts(verify, graph, plan)
            with monkeypatch.context() as both:
                both.setattr(
                    program_plans,
                    "_check_single_runs",
                    lambda *given: taken.append(found := in_bulk(*given)) or found,
                )
                assert accepts(verify, graph, plan) == expected
            counts[expected] += 1
    assert min(counts.values()) > 30
    assert sum(needs is not None and needs.disjoint for needs in taken) > 50


def test_forced_bytes_are_those_of_the_access_trace() -> None:
    """Every order needs them, so that the order of the program does not matter."""
    chance = random.Random(3)
    told = 0
    for _ in range(150):
        graph = random_graph(chance)
        program = to_anf(graph)
        needed = as_problem(program, Residency())
        kinds = chance.choice((("in place",), ("placement",), ("in place", "placement")))
        allowed = find_hand_overs(program, Residency(), needed, kinds)
        if allowed is None:
            continue
        told += 1
        names = needed.names
        joined = [(names[one], names[other], shift) for one, other, shift in allowed.joined]
        storages = relaxed_by(graph, Residency(), joined, allowed.saved.tolist())
        slowly = forced_live_bytes(graph, Residency(), kinds, *replay(program, Residency()))
        assert forced_by(storages) == slowly
        op = chance.choice(graph.ops).name
        at = forced_live_bytes(graph, Residency(), kinds, *replay(program, Residency()), at=op)
        assert forced_by(storages, at=op) == at
    assert told > 80


def test_result_over_an_input_that_is_read_later_is_refused() -> None:
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("y", 4),
        Tensor("z", 4, kind="output"),
    )
    ops = (
        Op("a", inputs=("x",), outputs=("y",), in_place=(("y", "x"),)),
        Op("b", inputs=("x", "y"), outputs=("z",)),
    )
    graph = Graph("late", tensors, ops)
    plan = cpplan.solve(graph, in_place=True)
    claimed = replace(plan, offset=np.array([0, 0, 4]), relations=(Relation("in place", "y", "x"),))
    with pytest.raises(VerificationError, match="hold different values"):
        verify(graph, claimed)


def test_bytes_copied_that_a_plan_in_place_claims_are_checked() -> None:
    tensors = Tensor("x", 4, kind="input"), Tensor("y", 4, kind="output")
    op = Op("a", inputs=("x",), outputs=("y",), in_place=(("y", "x"),))
    graph = Graph("copied", tensors, (op,))
    plan = cpplan.solve(graph, in_place=True)
    with pytest.raises(VerificationError, match="cop"):
        verify(graph, replace(plan, copied_bytes=5))
