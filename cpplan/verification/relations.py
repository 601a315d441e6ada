"""Checks of a plan's relations against the ops that allow them and the offsets."""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Relation
from cpplan.program.copy_names import CopyNames, tensor_copies
from cpplan.verification.runs import Run, allowed_relations


def pairs_in_place(graph: Graph, plan: Plan) -> set[tuple[str, str]]:
    """``(output, input)`` copies that a relation puts in place and that lie so in the plan."""
    if not plan.relations:
        return set()
    names = tensor_copies(graph)
    return {
        (r.tensor, r.other)
        for r in plan.relations
        if r.kind == "in place"
        and (here := _address(graph, names, plan, r.tensor)) is not None
        and here == _address(graph, names, plan, r.other)
    }


def _address(graph: Graph, names: CopyNames, plan: Plan, copy: str) -> tuple[int, int] | None:
    """Pool and offset of a tensor, or ``None`` if the plan does not place it."""
    tensor, number = names.split(copy)
    if tensor not in graph.tensor or plan.offset is None:
        return None
    root, within = graph.root[tensor]
    row = plan.row.get(names.copy(root, number))
    return None if row is None else (int(plan.pool[row]), int(plan.offset[row]) + within)


def check_relations(runs: Sequence[Run], plan: Plan) -> None:
    """Check that an op allows every relation, and that its tensors lie at the relation's distance.

    Raises
    ------
    VerificationError
        Names the relation and what is wrong.
    """
    if not plan.relations:
        return
    allowed = allowed_relations(runs)
    assert plan.offset is not None
    for relation in plan.relations:
        here = describe(relation)
        if relation.kind not in plan.sharing:
            raise VerificationError(
                f"{here}: the plan's sharing does not include {relation.kind!r}"
            )
        if relation not in allowed:
            raise VerificationError(f"{here}: no op of the model allows it")
        rows = []
        for place in allowed[relation]:
            if not place.retention.placed or place.retention.name not in plan.row:
                raise VerificationError(f"{here}: {place.copy!r} is not in the arena")
            rows.append(plan.row[place.retention.name])
        pools = [plan.pools[int(plan.pool[row])].name for row in rows]
        if pools[0] != pools[1]:
            raise VerificationError(f"{here}: they lie in pools {pools[0]!r} and {pools[1]!r}")
        there, base = (
            int(plan.offset[row]) + place.begin
            for row, place in zip(rows, allowed[relation], strict=True)
        )
        if there != base + relation.offset:
            raise VerificationError(
                f"{here}: {relation.tensor!r} lies at {there}, not at {base + relation.offset}"
            )


def describe(relation: Relation) -> str:
    """Text of a relation, for messages."""
    if relation.kind == "in place":
        return f"relation {relation.tensor!r} in place of {relation.other!r}"
    return f"relation {relation.tensor!r} within {relation.other!r} at byte {relation.offset}"
