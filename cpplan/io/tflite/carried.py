"""The plan that a TFLite file carries, as a plan that can be verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np

from cpplan.io.tflite.extents import bind_extents
from cpplan.io.tflite.graph import TensorKey, Translation, graphs_in, translate
from cpplan.io.tflite.model import naming, parse_model
from cpplan.io.tflite.offsets import AT_RUN_TIME, METADATA, read_offsets
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.in_place_kinds import with_in_place
from cpplan.model.names import name_of_file
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Relation
from cpplan.program.anf import to_anf
from cpplan.program.liveness import last_places, to_problem


@dataclass(frozen=True, slots=True)
class CarriedPlan:
    """A plan in a file, its graph, and the tensors that it leaves to the runtime.

    Attributes
    ----------
    graph
        The model in the form that the plan fits: outputs of reshapes that do not lie at their
        inputs' place are copies, not views; tensors that the runtime places have no bytes. Scratch
        buffers of kernels, which the runtime also places, are left out.
    plan
        The plan, in the file's order.
    left
        Names of the tensors that the runtime places.
    """

    graph: Graph
    plan: Plan
    left: tuple[str, ...]


def read_carried_plan(
    source: str | PathLike[str] | bytes,
    *,
    dims: Mapping[str, int] | None = None,
    in_place: Mapping[str, bool] | None = None,
) -> CarriedPlan:
    """The plan in a TFLite file, not verified yet.

    If an output lies at an input that its op may write over, or a part lies at its place within the
    concatenated tensor, they share bytes on purpose.

    Parameters
    ----------
    source
        A file, or its bytes.
    dims
        Extents of axes that the file leaves open.
    in_place
        As in :func:`cpplan.load`.

    Raises
    ------
    InputError
        If the file cannot be read, is not a TFLite model or carries no plan.
    VerificationError
        If the plan does not have one offset for every tensor.
    MissingExtraError
        If the package ``tflite`` is missing.

    Examples
    --------
    >>> read_carried_plan("datasets/tflite/branches.tflite")
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: datasets/tflite/branches.tflite: carries no plan: expected \
metadata 'OfflineMemoryAllocation'
    """
    with naming(source):
        model = bind_extents(parse_model(source), dims)
        offsets = read_offsets(model)
        name = "main" if isinstance(source, bytes) else name_of_file(source)
        translation = translate(model, name, scratch=False)
        apart = {
            view
            for view, base in _views(translation)
            if offsets[view] != offsets[base] or offsets[view] == AT_RUN_TIME
        }
        translation = translate(model, name, apart, scratch=False)
        if in_place is not None:
            translation = replace(translation, graph=with_in_place(translation.graph, in_place))
        left = dict.fromkeys(
            name
            for name, key in translation.keys.items()
            if offsets[key] == AT_RUN_TIME and _in_arena(translation.graph, name)
        )
        translation = replace(translation, graph=_without(translation.graph, left))
        return CarriedPlan(translation.graph, _plan(translation, offsets), tuple(left))


def _views(translation: Translation) -> Iterator[tuple[TensorKey, TensorKey]]:
    for _, graph in graphs_in(translation.graph):
        for tensor in graph.tensors:
            if tensor.view_of is not None:
                yield translation.keys[tensor.name], translation.keys[tensor.view_of[0]]


def _in_arena(graph: Graph, name: str) -> bool:
    return any(
        name in inner.tensor
        and inner.tensor[name].kind != "constant"
        and inner.tensor[name].nbytes > 0
        for _, inner in graphs_in(graph)
    )


def _without(graph: Graph, left: Mapping[str, None]) -> Graph:
    """The graph with 0 bytes for these tensors."""

    def emptied(tensor: Tensor) -> Tensor:
        return replace(tensor, size=0, shape=None) if tensor.name in left else tensor

    def freed(op: Op) -> Op:
        return replace(
            op,
            in_place=tuple(pair for pair in op.in_place if left.keys().isdisjoint(pair)),
            placements=tuple(p for p in op.placements if left.keys().isdisjoint(p[:2])),
            bodies=tuple(_without(body, left) for body in op.bodies),
            axes=tuple(axis for axis in op.axes if left.keys().isdisjoint(axis.window)),
        )

    if not left:
        return graph
    return replace(
        graph, tensors=tuple(map(emptied, graph.tensors)), ops=tuple(map(freed, graph.ops))
    )


def _plan(translation: Translation, offsets: Mapping[TensorKey, int]) -> Plan:
    graph = translation.graph
    program = to_anf(graph)
    problem = to_problem(program)
    place = {
        buffer: max(offsets[key], 0) for key, buffer, within in translation.places() if within == 0
    }
    offset = np.array([place[name] for name in problem.names], np.int64)
    relations = tuple(_relations(translation, offsets))
    ends = {t: p for t, p in last_places(program).items() if p[0] in place}
    cost = sum(op.cost for op in graph.ops)
    return Plan(
        name=graph.name,
        status="feasible",
        buffers=tuple(problem.names),
        size=problem.size,
        lower=problem.lower,
        upper=problem.upper,
        offset=offset,
        peak=int(np.max(offset + problem.size, initial=0)),
        found_by=METADATA,
        order=program.names,
        cost=cost,
        base_cost=cost,
        inputs=tuple(t.name for t in graph.tensors if t.kind == "input"),
        outputs=tuple(t.name for t in graph.tensors if t.kind == "output"),
        views={tensor: end for tensor, end in ends.items() if end != (tensor, 0)},
        sharing=tuple(sorted({relation.kind for relation in relations})),
        relations=relations,
    )


def _relations(translation: Translation, offsets: Mapping[TensorKey, int]) -> Iterator[Relation]:
    """Relations of the tensors of one op that share bytes in a way that the op allows."""
    graph, keys = translation.graph, translation.keys
    for op in graph.ops:
        for output, source in op.in_place:
            if offsets[keys[output]] == offsets[keys[source]]:
                yield Relation("in place", output, source)
        for part, whole, within in op.placements:
            if offsets[keys[part]] == offsets[keys[whole]] + within:
                yield Relation("placement", part, whole, within)
