"""A graph read at the upper bounds of its variables, made right for every size below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cpplan.graph import Graph, Op, Placement, Tensor
from cpplan.io.onnx_facts import Call, Fact, Shape
from cpplan.io.onnx_symbolic_placements import symbolic_offsets
from cpplan.shapes import Dim, Range
from cpplan.symbols import Symbols, tensor_bytes

if TYPE_CHECKING:
    import onnx

    from cpplan.io.onnx_graph import Translation
    from cpplan.io.onnx_symbolic_walk import Known


def with_symbols(
    translation: Translation,
    ranges: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    lost: Mapping[str, str],
    known: Mapping[str, Known],
    opsets: Mapping[str, int],
    most: Mapping[str, int],
) -> Graph:
    """The graph with symbolic shapes, and without the relations that hold at its own size only.

    Views keep their base: what moves no bytes at one size moves none at another, but for a
    Transpose, which is looked at again. A view whose size is not provably that of its base is lost.
    """
    graph = translation.graph
    reasons = dict(lost)
    sized = {t.name: _size(t, shapes) for t in graph.tensors}
    tensors = []
    for tensor in graph.tensors:
        producer = graph.producer.get(tensor.name)
        view = tensor.view_of
        if view is not None and producer is not None and producer.kind == "Transpose":
            node = translation.ops[producer.name].node
            if not _keeps_order(node, shapes.get(view[0])):
                view = None
        size = sized[tensor.name]
        if view is not None and tensor.name not in reasons:
            if view[0] in reasons:
                reasons[tensor.name] = f"it is a view of {view[0]!r}, which is lost"
            elif size != sized[view[0]]:
                reasons[tensor.name] = f"its {size} B are not provably those of {view[0]!r}"
        if tensor.name not in reasons and isinstance(size, Dim):
            # A graph takes expressions, and holds their largest values.
            extents: Any = shapes[tensor.name]
            tensor = replace(tensor, shape=extents, size=None, view_of=view)
        elif view != tensor.view_of:
            tensor = replace(tensor, view_of=view)
        tensors.append(tensor)
    equal = {name: None if name in reasons else size for name, size in sized.items()}
    ops = []
    for op in graph.ops:
        source = translation.ops[op.name].node
        call = Call(source, [_input(known, name) for name in source.input], opsets, ranges)
        ops.append(_proved(op, call, equal, shapes, graph, reasons, most))
    symbols = Symbols(dims=ranges, lost=reasons)
    return Graph(graph.name, tuple(tensors), tuple(ops), symbols)


def _size(tensor: Tensor, shapes: Mapping[str, Shape]) -> int | Dim | None:
    """Bytes at every size; ``None`` if they are lost."""
    shape = shapes.get(tensor.name)
    if shape is None or tensor.dtype is None:
        return None
    return tensor_bytes(shape, tensor.dtype)


def _keeps_order(node: onnx.NodeProto, shape: Shape | None) -> bool:
    """Whether a Transpose leaves the axes that may be longer than one in their order."""
    if shape is None:
        return False
    order = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
    order = list(range(len(shape)))[::-1] if order is None else order
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


def _input(known: Mapping[str, Known], name: str) -> Fact | str | None:
    return known[name] if name else None


def _proved(
    op: Op,
    call: Call,
    sizes: Mapping[str, int | Dim | None],
    shapes: Mapping[str, Shape],
    graph: Graph,
    lost: Mapping[str, str],
    most: Mapping[str, int],
) -> Op:
    """The op with the in-place pairs and placements that hold at every size."""
    pairs = tuple(
        (output, source)
        for output, source in op.in_place
        if sizes[output] is not None and sizes[output] == sizes[source]
    )
    placements = op.placements
    touched = {name for placement in placements for name in placement[:2]}
    if any(name in lost or isinstance(sizes[name], Dim) for name in touched):
        own = {n: shapes[n] for n in op.tensors if n in shapes and n not in lost}
        dtypes = {name: graph.tensor[name].dtype for name in op.tensors}
        offsets = symbolic_offsets(call, own, dtypes)
        kept = []
        for part, whole, offset in placements:
            same = [at for p, w, at in offsets if (p, w) == (part, whole)]
            here: Any = next((at for at in same if _value(at, most) == offset), None)
            if here is not None:
                kept.append(Placement(part, whole, here))
        placements = tuple(kept)
    if (pairs, placements) == (op.in_place, op.placements):
        return op
    return replace(op, in_place=pairs, placements=placements)


def _value(extent: int | Dim, most: Mapping[str, int]) -> int:
    return extent if isinstance(extent, int) else extent.evaluate(most)
