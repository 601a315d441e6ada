"""Right verdicts on plans whose tensors share bytes, derived byte by byte from the oracle."""

from __future__ import annotations

import random
from dataclasses import replace

from support.sharing_oracle import may_lie, values_of

from cpplan import Graph, Plan
from cpplan.model.plan_data import Relation
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem


def true_relations(graph: Graph, plan: Plan) -> list[Relation]:
    """Those that the ops allow and the addresses have."""
    allowed = [Relation("in place", *pair) for op in graph.ops for pair in op.in_place]
    allowed += [Relation("placement", *placed) for op in graph.ops for placed in op.placements]
    return [
        relation
        for relation in dict.fromkeys(allowed)
        if plan.offset_of(relation.tensor) == plan.offset_of(relation.other) + relation.offset
    ]


def _live_together(problem, i: int, j: int) -> bool:
    return max(problem.lower[i], problem.lower[j]) < min(problem.upper[i], problem.upper[j])


def joined(graph: Graph, plan: Plan) -> dict[str, set[str]]:
    """Storages that the plan's relations join."""
    group = {name: {name} for name in plan.buffers}
    for relation in plan.relations:
        together = group[graph.root[relation.tensor][0]] | group[graph.root[relation.other][0]]
        group.update(dict.fromkeys(together, together))
    return group


def is_sound(graph: Graph, plan: Plan) -> bool:
    """True if no needed byte is destroyed and relations join all storages that share bytes."""
    problem, order = to_problem(to_anf(graph)), to_anf(graph).order
    at, group = dict(zip(plan.buffers, plan.offset.tolist(), strict=True)), joined(graph, plan)
    for j, other in enumerate(problem.names):
        for i, one in enumerate(problem.names[:j]):
            shift = at[other] - at[one]
            if shift >= problem.size[i] or -shift >= problem.size[j]:
                continue
            if not may_lie(graph, order, one, other, shift):
                return False
            if _live_together(problem, i, j) and one not in group[other]:
                return False
    return True


def runs_right(graph: Graph, plan: Plan) -> bool:
    """True if every op reads the right values when the plan runs in a memory of values."""
    order, memory = to_anf(graph).order, {}
    held, at = values_of(graph, order), dict(zip(plan.buffers, plan.offset.tolist(), strict=True))

    def cells(name: str) -> list[tuple[int, tuple[str, int]]]:
        root, start = graph.root[name]
        span = range(start, start + graph.tensor[name].nbytes)
        return [(at[root] + byte, held[root][byte]) for byte in span]

    def intact(names) -> bool:
        return all(memory[address] == value for name in names for address, value in cells(name))

    given = [t.name for t in graph.tensors if t.kind == "input"]
    for name in given:
        memory.update(cells(name))
    if not intact(given):
        return False
    for op in (graph.ops[k] for k in order):
        if not intact(op.inputs):
            return False
        read = {graph.root[name][0] for name in op.inputs}
        for name in op.outputs + op.workspaces:
            if graph.root[name][0] not in read:
                memory.update(cells(name))
        lost = {old for new, old in op.in_place if plan.offset_of(new) == plan.offset_of(old)}
        if not intact(name for name in op.tensors if name not in lost):
            return False
    return intact(t.name for t in graph.tensors if t.kind == "output")


def mutated(rng: random.Random, graph: Graph, plan: Plan) -> Plan:
    """One or two buffers a little lower or higher, at another's address, or at a candidate's."""
    offset = plan.offset.copy()
    for _ in range(rng.randint(1, 2)):
        row, other = rng.randrange(len(offset)), rng.randrange(len(offset))
        near = offset[row] + rng.randint(-2, 2), offset[other] + rng.choice((0, 0, 1, 2))
        offset[row] = max(0, rng.choice(near))
    moved = replace(plan, offset=offset, peak=int((offset + plan.size).max()), relations=())
    return replace(moved, relations=tuple(true_relations(graph, moved)))
