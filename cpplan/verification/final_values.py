"""Check of the places that a plan states for final values: views, copies, inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.verification.runs import Run


def check_ends(graph: Graph, plan: Plan, runs: Sequence[Run] | None) -> None:
    """Check the place of every tensor's latest value, and the lists of inputs and outputs.

    A tensor lies where the last run of its op wrote it; a view that no op writes lies in its base.
    For the tensors in its pools, the plan lists the inputs, the outputs and, as ``views``, every
    tensor that does not lie at the start of a buffer of its own name. Without ``runs``, each op
    runs once.

    Raises
    ------
    VerificationError
        Names the tensor, its place in the plan and its true place; or the list, and a tensor that
        is missing from it or does not belong there.
    """
    if runs is None and _ends_agree(graph, plan):
        return
    places = graph.root if runs is None else _last_places(graph, runs)
    placed = set(plan.buffers)
    needed = {
        name: place for name, place in places.items() if place[0] in placed and place != (name, 0)
    }
    for name in (*needed, *plan.views):
        claimed, wanted = plan.views.get(name), needed.get(name)
        if claimed is None or wanted is None or tuple(claimed) != wanted:
            place = places.get(name)
            lies = f"at {place}" if place and place[0] in placed else "in none of its buffers"
            raise VerificationError(
                f"the plan's views put tensor {name!r} at {claimed}, but it lies {lies}"
            )
    for kind, listed in (("input", plan.inputs), ("output", plan.outputs)):
        there = {t.name for t in graph.tensors if t.kind == kind and places[t.name][0] in placed}
        wrong = next(iter(sorted(there.symmetric_difference(listed))), None)
        if wrong is not None:
            raise VerificationError(
                f"the plan's {kind}s are not those of the model in its pools: {wrong!r} is "
                f"{'missing' if wrong in there else 'not expected'}"
            )


def _ends_agree(graph: Graph, plan: Plan) -> bool:
    """True if a plan whose ops run once each states the right places, by the graph's columns."""
    columns = graph.columns
    names, number, (roots, offsets) = columns.names, columns.number, columns.places
    buffers = [number[name] for name in plan.buffers if name in number]
    in_pools = np.zeros(len(names), np.bool_)
    in_pools[buffers] = True
    in_pools = in_pools[roots]
    moved = np.flatnonzero(in_pools & ((roots != np.arange(len(names))) | (offsets != 0)))
    if len(plan.views) != len(moved):
        return False
    places = map(plan.views.get, [names[k] for k in moved.tolist()])
    lying = zip([names[k] for k in roots[moved].tolist()], offsets[moved].tolist(), strict=True)
    if not all(map(eq, places, lying)):
        return False
    for kind, listed in (("input", plan.inputs), ("output", plan.outputs)):
        there = np.flatnonzero(in_pools & columns.are({kind})).tolist()
        if set(listed) != {names[k] for k in there}:
            return False
    return True


def _last_places(graph: Graph, runs: Sequence[Run]) -> dict[str, tuple[str, int]]:
    """Tensor -> buffer and byte offset in it, after the last run."""
    written = {
        name: run.places[name].retention.name
        for run in runs
        for name in run.op.outputs + run.op.workspaces
    }
    places = {}
    for tensor in graph.tensors:
        # Every op runs: its results lie where its last run wrote them.
        holder = graph.holder[tensor.name]
        places[tensor.name] = written.get(holder, holder), graph.root[tensor.name][1]
    return places
