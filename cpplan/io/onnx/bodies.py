"""Translation of the subgraphs of ONNX's If, Loop and Scan into bodies of an op.

A body's boundary tensor with the name of one of the op's tensors *is* that tensor. So a captured
tensor keeps its name, a branch's result takes the name of the node's output, and all other boundary
tensors get names of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpplan.model.graph import Graph, Op, Placement, Tensor

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class Body:
    """A translated subgraph: its results in order, and the tensors captured from outside."""

    graph: Graph
    results: tuple[str, ...]
    captured: tuple[str, ...]


def largest_result(bodies: Sequence[Body], k: int) -> int | None:
    """Bytes of the largest result number ``k`` of all branches; ``None`` if one has no size."""
    sizes = []
    for body in bodies:
        if k >= len(body.results) or body.results[k] not in body.graph.tensor:
            return None
        sizes.append(body.graph.tensor[body.results[k]].nbytes)
    return max(sizes, default=None)


def fit_body(node: onnx.NodeProto, body: Body, accessed: Mapping[str, Tensor]) -> Graph:
    """The body's graph; a boundary tensor that is one of the op's tensors gets its name."""
    graph, names = body.graph, _all_names(body.graph)
    renamed: dict[str, str] = {}
    if node.op_type == "If":
        renamed = {
            result: output
            for result, output in zip(body.results, node.output, strict=False)
            if output in accessed
            and result in graph.producer
            and body.results.count(result) == 1
            and graph.tensor[result].nbytes == accessed[output].nbytes
            and (output == result or output not in names)
        }
        graph = _without_views(graph, renamed)
    names.update(accessed)
    for tensor in graph.tensors:
        apart = tensor.name not in body.captured and tensor.name not in renamed
        if apart and tensor.kind in ("input", "output") and tensor.name in accessed:
            number = 1
            while f"{tensor.name}.{number}" in names:
                number += 1
            renamed[tensor.name] = f"{tensor.name}.{number}"
            names.add(renamed[tensor.name])
    return _rename(graph, renamed)


def _without_views(graph: Graph, results: Mapping[str, str]) -> Graph:
    """The graph of a branch; ops that make its results as views copy instead, with placements."""
    copied = {name: view for name in results if (view := graph.tensor[name].view_of) is not None}
    if not copied:
        return graph
    tensors = (replace(t, view_of=None) if t.name in copied else t for t in graph.tensors)

    def op(old: Op) -> Op:
        copies = tuple(Placement(name, *copied[name]) for name in old.outputs if name in copied)
        return replace(old, placements=old.placements + copies) if copies else old

    return replace(graph, tensors=tuple(tensors), ops=tuple(map(op, graph.ops)))


def _rename(graph: Graph, renamed: Mapping[str, str]) -> Graph:
    def one(name: str) -> str:
        return renamed.get(name, name)

    def new(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(one, names))

    def tensor(old: Tensor) -> Tensor:
        view_of = old.view_of and (one(old.view_of[0]), old.view_of[1])
        if old.name not in renamed and view_of == old.view_of:
            return old
        return replace(old, name=one(old.name), view_of=view_of)

    def op(old: Op) -> Op:
        shared = {name: renamed[name] for name in old.tensors if name in renamed}
        if not shared:
            return old
        return replace(
            old,
            inputs=new(old.inputs),
            outputs=new(old.outputs),
            in_place=tuple((one(output), one(source)) for output, source in old.in_place),
            placements=tuple(Placement(one(p), one(w), at) for p, w, at in old.placements),
            bodies=tuple(_rename(body, _boundary(body, shared)) for body in old.bodies),
        )

    if not renamed:
        return graph
    return Graph(graph.name, tuple(map(tensor, graph.tensors)), tuple(map(op, graph.ops)))


def _boundary(body: Graph, renamed: Mapping[str, str]) -> dict[str, str]:
    kinds = {tensor.name: tensor.kind for tensor in body.tensors}
    return {old: new for old, new in renamed.items() if kinds.get(old) in ("input", "output")}


def _all_names(graph: Graph) -> set[str]:
    inner = (_all_names(body) for op in graph.ops for body in op.bodies)
    return set(graph.tensor).union(*inner)
