"""Correction of a graph read at the upper bounds of its variables, to hold at every size below.

Byte offsets of placements are expressions: as in :mod:`cpplan.io.onnx.graph`, a copy is a box of
the larger tensor, and a placement is kept only if the box is in one piece at every size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from cpplan.io.onnx.facts import Call, Extent, Fact, Lost, Shape
from cpplan.io.onnx.move_shapes import slice_intervals, split
from cpplan.io.onnx.symbolic_check import check_bounded
from cpplan.io.onnx.types import bodies_of
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.shapes import Dim, Range
from cpplan.model.symbols import Symbols, tensor_bytes

if TYPE_CHECKING:
    import onnx

    from cpplan.io.onnx.facts import Known
    from cpplan.io.onnx.graph import Translation

    Nodes = Mapping[str, onnx.NodeProto]


@dataclass(frozen=True, slots=True)
class Reading:
    """A model at its upper bounds, and the facts found about other sizes.

    Attributes
    ----------
    most
        The values of the variables at which the model was read.
    opsets
        Versions of the operator sets, by domain.
    known, inner
        Facts about tensors: of tensors outside bodies, and of each body's tensors, by its enclosing
        nodes.
    elsewhere
        Other sizes, with the model read at them, if it has bodies.
    """

    translation: Translation
    ranges: Mapping[str, Range]
    most: Mapping[str, int]
    opsets: Mapping[str, int]
    known: Mapping[str, Known]
    inner: Mapping[tuple[str, ...], Mapping[str, Known]]
    elsewhere: Sequence[tuple[Mapping[str, int], Graph]]


def with_symbols(reading: Reading, shapes: Mapping[str, Shape], lost: Mapping[str, str]) -> Graph:
    """The graph with symbolic shapes, without relations that hold only at its own size.

    Views keep their base: an op that moves no bytes at one size moves none at another, except for a
    Transpose, which is checked again. A view is lost if its size is not provably its base's size,
    and is then a tensor of its own if the base's size varies.
    """
    nodes = {name: source.node for name, source in reading.translation.ops.items()}
    return _sized(reading, reading.translation.graph, nodes, shapes, lost, ())


def _sized(
    reading: Reading,
    graph: Graph,
    nodes: Nodes,
    shapes: Mapping[str, Shape],
    lost: Mapping[str, str],
    path: tuple[str, ...],
) -> Graph:
    """A graph or a body with symbolic shapes, also in its own bodies."""
    reasons = dict(lost)
    sizes = {t.name: _size(t, shapes) for t in graph.tensors}
    tensors = []
    for tensor in graph.tensors:
        producer, view = graph.producer.get(tensor.name), tensor.view_of
        if view is not None and producer is not None and producer.kind == "Transpose":
            view = view if _keeps_order(nodes[producer.name], shapes.get(view[0])) else None
        if view is not None and tensor.name not in reasons:
            if view[0] in reasons:
                reasons[tensor.name] = f"it is a view of {view[0]!r}, whose shape is not known"
            elif sizes[tensor.name] != sizes[view[0]]:
                size = sizes[tensor.name]
                reasons[tensor.name] = f"its {size} B are not provably those of {view[0]!r}"
        if view is not None and tensor.name in reasons and view[0] not in reasons:
            view = None if isinstance(sizes[view[0]], Dim) else view
        if tensor.name not in reasons and isinstance(sizes[tensor.name], Dim):
            # A graph accepts expressions and holds their largest values.
            extents: Any = shapes[tensor.name]
            tensor = replace(tensor, shape=extents, size=None)
        tensors.append(tensor if view == tensor.view_of else replace(tensor, view_of=view))
    check_bounded(reading.ranges, reasons)
    sizes.update(dict.fromkeys(reasons))
    sound = {name: shape for name, shape in shapes.items() if name not in reasons}
    ops = []
    for op in graph.ops:
        node = nodes[op.name]
        pairs = tuple(
            (output, source)
            for output, source in op.in_place
            if sizes[output] is not None and sizes[output] == sizes[source]
        )
        placements = op.placements
        accessed = {name for placement in placements for name in placement[:2]}
        if not all(isinstance(sizes[name], int) for name in accessed):
            placements = () if path else _placements(reading, graph, op, node, sound)
        bodies = tuple(
            _body(reading, op, body, node, k, sound, path) for k, body in enumerate(op.bodies)
        )
        # Axes hold at the upper bounds only.
        ops.append(replace(op, in_place=pairs, placements=placements, bodies=bodies, axes=()))
    symbols = Symbols(dims=reading.ranges, lost=reasons)
    return Graph(graph.name, tuple(tensors), tuple(ops), symbols)


def _body(
    reading: Reading,
    op: Op,
    body: Graph,
    node: onnx.NodeProto,
    k: int,
    outside: Mapping[str, Shape],
    path: tuple[str, ...],
) -> Graph:
    """A body of an op with symbolic shapes; its boundary has the sizes of the tensors outside.

    When the graph was made, names that exist outside got a number.
    """
    here = (*path, node.name, str(k))
    facts = reading.inner.get(here, {})
    shapes: dict[str, Shape] = {}
    lost: dict[str, str] = {}
    for tensor in body.tensors:
        name = tensor.name
        if name in op.tensors and tensor.kind in ("input", "output"):
            shape = outside.get(name)
        else:
            fact = facts.get(name, facts.get(name.rpartition(".")[0]))
            shape = fact.shape if isinstance(fact, Fact) else None
        if shape is None and not facts:
            shape = tensor.shape  # no tensor that the op reads depends on a variable
        if shape is None or tuple(_value(e, reading.most) for e in shape) != tensor.shape:
            lost[name] = f"its shape in a body of op {op.name!r} is not known"
        else:
            shapes[name] = shape
    nodes = {inner.name: inner for inner in bodies_of(node)[k].node}
    return _sized(reading, body, nodes, shapes, lost, here)


def _placements(
    reading: Reading, graph: Graph, op: Op, node: onnx.NodeProto, shapes: Mapping[str, Shape]
) -> tuple[Placement, ...]:
    """Placements of an op that are in one piece at every size."""
    inputs = [reading.known[name] if name else None for name in node.input]
    call = Call(node, inputs, reading.opsets, reading.ranges)
    own = {name: shapes[name] for name in op.tensors if name in shapes}
    dtypes = {name: graph.tensor[name].dtype for name in op.tensors}
    offsets = symbolic_offsets(call, own, dtypes)
    kept = []
    for part, whole, offset in op.placements:
        same = [at for p, w, at in offsets if (p, w) == (part, whole)]
        here: Any = next((at for at in same if _value(at, reading.most) == offset), None)
        if here is not None:
            kept.append(Placement(part, whole, here))
    return tuple(kept)


def _size(tensor: Tensor, shapes: Mapping[str, Shape]) -> int | Dim | None:
    """Expression for a tensor's bytes at every size; ``None`` if it is lost."""
    shape = shapes.get(tensor.name)
    if shape is None or tensor.dtype is None:
        return None
    return tensor_bytes(shape, tensor.dtype)


def _keeps_order(node: onnx.NodeProto, shape: Shape | None) -> bool:
    """True if a Transpose leaves the axes that may be longer than one in their order."""
    if shape is None:
        return False
    order = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
    order = list(range(len(shape)))[::-1] if order is None else order
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


def _value(extent: int | Dim, most: Mapping[str, int]) -> int:
    return extent if isinstance(extent, int) else extent.evaluate(most)


Box: TypeAlias = tuple[str, str, Shape, Shape]  # part, whole, start, extent


def symbolic_offsets(
    call: Call, shapes: Mapping[str, Shape], dtypes: Mapping[str, str | None]
) -> list[tuple[str, str, Extent]]:
    """``(part, whole, byte offset)`` of every copy that a node makes in one piece at every size."""
    found = []
    for part, whole, start, extent in _boxes(call, shapes):
        dtype = dtypes.get(part)
        if dtype is None or dtype != dtypes.get(whole) or BITS[dtype] < 8:
            continue
        offset = _offset(shapes[whole], start, extent)
        if offset is not None:
            found.append((part, whole, offset * (BITS[dtype] // 8)))
    return found


def _offset(shape: Shape, start: Shape, extent: Shape) -> Extent | None:
    """Elements before a box; an extent counts as longer than 1 unless it is provably 1."""
    long = next((axis for axis, count in enumerate(extent) if count != 1), len(shape))
    if extent[long + 1 :] != shape[long + 1 :]:
        return None
    total: Extent = 0
    for axis, at in enumerate(start):
        total = total + at * math.prod(shape[axis + 1 :])
    return total


def _boxes(call: Call, shapes: Mapping[str, Shape]) -> Iterator[Box]:
    node, kind = call.node, call.node.op_type
    if any(name and name not in shapes for name in (*node.input[:1], *node.output[:1])):
        return
    try:
        if kind == "Concat":
            yield from _in_turn(call, shapes, list(node.input), node.output[0], 1)
        elif kind == "Split":
            given = dict(zip(node.output, split(call), strict=True))
            yield from _in_turn(call, {**shapes, **given}, list(node.output), node.input[0], 0)
        elif kind in ("Expand", "Tile"):
            yield _first_copy(shapes, node.input[0], node.output[0])
        elif kind == "Slice":
            yield from _cut(call, shapes)
        elif kind == "Gather":
            yield from _gathered(call, shapes)
        elif kind == "Pad":
            yield from _padded(call, shapes)
    except Lost:
        return  # no placement holds at every size


def _in_turn(
    call: Call, shapes: Mapping[str, Shape], parts: list[str], whole: str, default: int
) -> Iterator[Box]:
    rank = len(shapes[whole])
    axis = call.axis(default, rank)
    at: Extent = 0
    for part in parts:
        if not part or part not in shapes:
            return
        yield part, whole, _along(axis, at, rank), shapes[part]
        at = at + shapes[part][axis]


def _along(axis: int, at: Extent, rank: int) -> Shape:
    return tuple(at if k == axis else 0 for k in range(rank))


def _first_copy(shapes: Mapping[str, Shape], inner: str, outer: str) -> Box:
    rank = len(shapes[outer])
    return inner, outer, (0,) * rank, (1,) * (rank - len(shapes[inner])) + shapes[inner]


def _cut(call: Call, shapes: Mapping[str, Shape]) -> Iterator[Box]:
    whole, part = call.node.input[0], call.node.output[0]
    steps = call.integers("steps", 4, (1,))
    if any(step != 1 for step in steps or ()):
        return
    start: list[Extent] = [0] * len(shapes[whole])
    for axis, (first, _) in slice_intervals(call).items():
        start[axis] = first
    yield part, whole, tuple(start), shapes[part]


def _gathered(call: Call, shapes: Mapping[str, Shape]) -> Iterator[Box]:
    whole, part = call.node.input[0], call.node.output[0]
    shape, fact = shapes[whole], call.inputs[1]
    axis = call.axis(0, len(shape))
    if not isinstance(fact, Fact) or fact.data is None or fact.data.dtype.kind not in "iu":
        return
    taken = fact.data.reshape(-1).tolist()
    if not taken or taken != list(range(taken[0], taken[0] + len(taken))):
        return
    if taken[0] < 0 <= taken[-1]:
        return
    first = shape[axis] + taken[0] if taken[0] < 0 else taken[0]
    extent = (*shape[:axis], len(taken), *shape[axis + 1 :])
    yield part, whole, _along(axis, first, len(shape)), extent


def _padded(call: Call, shapes: Mapping[str, Shape]) -> Iterator[Box]:
    inner, outer = call.node.input[0], call.node.output[0]
    rank = len(shapes[inner])
    pads = call.integers("pads", 1)
    axes = call.integers("axes", 3, range(rank))
    if pads is None or axes is None or len(pads) != 2 * len(axes):
        return
    before = [0] * rank
    for axis, count in zip(axes, pads, strict=False):
        before[axis] = count
    if min(pads, default=0) >= 0:
        yield inner, outer, tuple(before), shapes[inner]
    elif max(pads) <= 0:
        yield outer, inner, tuple(-count for count in before), shapes[outer]
