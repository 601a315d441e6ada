"""ONNX nodes that compute one piece of a node, from the parts of its inputs that it accesses.

Most nodes compute a piece unchanged. Others need changed attributes, or changed inputs of numbers:
padding is only at true borders, a reshape has the piece's shape. A resizing that takes the nearest
positions reads them through a Gather. If no node computes a piece from a part of the input alone
(a resizing that interpolates), there is no node for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.axes.operation import Array, Operation
from cpplan.io.onnx.bytes import numpy_dtype
from cpplan.io.onnx.window_axes import CONVOLUTIONS, transposed_slides, window_slides
from cpplan.io.pieces import Box, PieceWork

if TYPE_CHECKING:
    import onnx

_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class PieceNode:
    """A node, and the constants that it reads in addition to the whole node's tensors.

    The node uses the names of the whole node's tensors, but reads and writes parts of them.

    Attributes
    ----------
    takes
        Axis of the part of the first input -> positions that the node reads along it, in order,
        instead of all.
    """

    node: onnx.NodeProto
    constants: Mapping[str, Array] = field(default_factory=dict)
    takes: Mapping[int, Sequence[int]] = field(default_factory=dict)


def piece_node(node: onnx.NodeProto, operation: Operation, work: PieceWork) -> PieceNode | None:
    """The node that computes a piece; ``None`` if no single node does.

    If pieces add up, only the first one adds the bias.
    """
    names = {axis.name for axis, _ in work.cut}
    rule = _RULES.get(operation.kind)
    if not names:
        return PieceNode(node)
    return PieceNode(_copy(node)) if rule is None else rule(_Piece(node, operation, work))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A node in the form that the rules read, and the work of its piece."""

    node: onnx.NodeProto
    operation: Operation
    work: PieceWork

    def box(self, name: str) -> Box:
        return self.work.boxes[name]

    def output(self, number: int = 0) -> Box:
        return self.work.boxes[self.node.output[number]]

    def is_cut(self, name: str, axis: int) -> bool:
        """True if an axis of the op that is cut has a window along this axis of a tensor."""
        windows = (cut.window.get(name) for cut, _ in self.work.cut)
        return any(window is not None and window.axis == axis for window in windows)


_Rule = Callable[[_Piece], "PieceNode | None"]


def _copy(
    node: onnx.NodeProto,
    but: Sequence[str] = (),
    inputs: Sequence[str] | None = None,
    kind: str | None = None,
    **attributes: Any,
) -> onnx.NodeProto:
    """A copy of a node without some attributes, and with new values of others."""
    import onnx

    kept = [a for a in node.attribute if a.name not in but and a.name not in attributes]
    made = onnx.helper.make_node(
        kind or node.op_type,
        list(node.input) if inputs is None else list(inputs),
        list(node.output),
        name=node.name,
        domain=node.domain,
    )
    made.attribute.extend(kept if kind is None else [])
    made.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in attributes.items())
    return made


def _with_numbers(
    piece: _Piece, kind: str, keep: Sequence[int], **numbers: Sequence[int]
) -> PieceNode:
    """A node of another kind on some of the inputs and on constants of integers."""
    label = piece.node.output[0]
    constants = {f"{label}/{k}": np.array(v, np.int64) for k, v in numbers.items()}
    given = [piece.node.input[k] for k in keep]
    return PieceNode(_copy(piece.node, kind=kind, inputs=[*given, *constants]), constants)


def _window(piece: _Piece) -> PieceNode | None:
    """Convolutions and pools: padding at true borders, fewer groups."""
    node, work = piece.node, piece.work
    attributes: dict[str, Any] = {}
    slides, image = window_slides(piece.operation), node.input[0]
    shape = piece.operation.shape()
    # A convolution's padding is always given in numbers; a pool's may decide what it counts.
    pool = piece.operation.kind not in CONVOLUTIONS
    given, rounds_up = piece.operation.attributes, False
    own = given.get("pads") or [0] * 2 * len(slides)
    may_round = given.get("ceil_mode") and not given.get("auto_pad", "").startswith("SAME")
    if not pool or any(piece.is_cut(node.output[0], 2 + k) for k in range(len(slides))):
        before, after = [], []
        for k, slide in enumerate(slides):
            start, stop = piece.output()[2 + k]
            before.append(max(0, slide.before - start * slide.stride))
            past = (stop - 1) * slide.stride - slide.before + slide.reach
            after.append(max(0, past - shape[2 + k]))
            if may_round and after[-1] >= slide.taps > own[len(slides) + k]:
                # The last window begins behind the image. A pool that rounds up may say so, but
                # runtimes refuse padding as large as a window.
                after[-1], rounds_up = slide.taps - 1, True
                low, high = piece.box(image)[2 + k]
                if high - low + before[-1] + after[-1] < slide.reach:
                    return None
        attributes["pads"] = before + after
    groups = given.get("group", 1)
    span = work.interval("channels")
    if groups > 1 and span is not None:
        attributes["group"] = span[1] - span[0]
    inputs = list(node.input)
    if node.op_type == "Conv" and not work.begins:
        inputs = inputs[:2]
    but = ("auto_pad", *(() if rounds_up else ("ceil_mode",))) if "pads" in attributes else ()
    assert image in work.boxes
    return PieceNode(_copy(node, but, inputs, **attributes))


def _transposed(piece: _Piece) -> PieceNode | None:
    node, image = piece.node, piece.node.input[0]
    before, after, added = [], [], []
    for k, slide in enumerate(transposed_slides(piece.operation)):
        start, stop = piece.output()[2 + k]
        low, high = piece.box(image)[2 + k]
        first = start - low * slide.stride + slide.before
        last = (high - 1) * slide.stride - slide.before + slide.reach - stop
        if first < 0:
            return None
        before.append(first)
        after.append(max(0, last))
        added.append(max(0, -last))
    but = ("auto_pad", "output_shape")
    pads = before + after
    return PieceNode(_copy(node, but, pads=pads, output_padding=added))


def _pad(piece: _Piece) -> PieceNode | None:
    """A Pad of the piece; for a piece of padding only, its value repeated."""
    node, output = piece.node, piece.output()
    image = node.input[0]
    if image not in piece.work.boxes:
        return _padding_alone(piece)
    pads: list[int] = []
    ends: list[int] = []
    for axis, ((start, stop), (low, high)) in enumerate(zip(output, piece.box(image), strict=True)):
        window = (
            next(
                w
                for cut in piece.work.op.axes
                if (w := cut.window.get(image)) is not None and w.axis == axis
            )
            if piece.is_cut(image, axis)
            else None
        )
        if window is None:
            own = _own_pads(piece, axis)
            pads.append(own[0])
            ends.append(own[1])
        else:
            pads.append(low - window.offset - start)
            ends.append(stop - (high - window.offset))
    attribute = _pads_attribute(piece.operation)
    if attribute is not None:
        named: dict[str, Any] = {attribute: pads + ends}
        return PieceNode(_copy(node, **named))
    label = node.output[0]
    constants = {f"{label}/pads": np.array(pads + ends, np.int64)}
    inputs = [image, *constants, *list(node.input)[2:3]]
    return PieceNode(_copy(node, inputs=inputs), constants)


def _padding_alone(piece: _Piece) -> PieceNode | None:
    """The padding's value repeated: the value given, else zero."""
    node, operation, dtype = piece.node, piece.operation, piece.operation.input().dtype
    shape = [stop - start for start, stop in piece.output()]
    if operation.has(2):
        return _with_numbers(piece, "Expand", (2,), shape=shape)
    if dtype is None or operation.attributes["opset"] < 8:  # there is no Expand
        return None
    label, value = node.output[0], operation.attributes.get("value", 0)
    constants = {
        f"{label}/value": np.array(value, numpy_dtype(dtype)),
        f"{label}/shape": np.array(shape, np.int64),
    }
    return PieceNode(_copy(node, kind="Expand", inputs=list(constants)), constants)


def _pads_attribute(operation: Operation) -> str | None:
    """Name of the attribute that holds a padding's extents before opset 11."""
    return next((name for name in ("pads", "paddings") if name in operation.attributes), None)


def _own_pads(piece: _Piece, axis: int) -> tuple[int, int]:
    """The padding of the whole node in front of and behind an axis."""
    operation = piece.operation
    attribute = _pads_attribute(operation)
    pads = operation.attributes[attribute] if attribute else operation.integers(1)
    axes = operation.integers(3) if operation.has(3) else None
    rank = len(operation.shape())
    listed = list(range(rank)) if axes is None else [a % rank for a in axes]
    assert pads is not None
    if axis not in listed:
        return 0, 0
    at = listed.index(axis)
    return pads[at], pads[at + len(listed)]


def _slice(piece: _Piece) -> PieceNode | None:
    """A Slice of the piece: along cut axes, positions count from the begin of the piece's input."""
    operation, given = piece.operation, piece.operation.attributes
    shape = operation.shape()
    old = given["opset"] < 10  # bounds are attributes
    starts = list(given["starts"]) if old else operation.integers(1)
    ends = list(given["ends"]) if old else operation.integers(2)
    if starts is None or ends is None:
        return None
    axes = given.get("axes") if old else operation.integers(3) if operation.has(3) else None
    axes = list(range(len(starts))) if axes is None else axes
    steps = operation.integers(4) if operation.has(4) else [1] * len(starts)
    if steps is None:
        return None
    image = piece.node.input[0]
    axes = [axis % len(shape) for axis in axes]
    for k, axis in enumerate(axes):
        if piece.is_cut(image, axis):
            starts[k], ends[k] = 0, _END
    if old:
        return PieceNode(_copy(piece.node, starts=starts, ends=ends, axes=axes))
    return _with_numbers(piece, "Slice", (0,), starts=starts, ends=ends, axes=axes, steps=steps)


def _concat(piece: _Piece) -> PieceNode:
    accessed = [name for name in piece.node.input if name in piece.work.boxes]
    return PieceNode(_copy(piece.node, inputs=accessed))


def _quantized_concat(piece: _Piece) -> PieceNode:
    """A concatenation of the tensors that are accessed, each with its scale and zero point."""
    inputs = list(piece.node.input[:2])
    for k in range(2, len(piece.node.input), 3):
        if piece.node.input[k] in piece.work.boxes:
            inputs += piece.node.input[k : k + 3]
    return PieceNode(_copy(piece.node, inputs=inputs))


def _split(piece: _Piece) -> PieceNode | None:
    """A split into the parts that the piece accesses."""
    node, operation = piece.node, piece.operation
    there = [k for k, name in enumerate(node.output) if name in piece.work.boxes]
    axis = operation.attributes.get("axis", 0) % len(operation.shape())
    made = _copy(node, but=("split", "num_outputs"), inputs=node.input[:1])
    for k in reversed(range(len(node.output))):
        if k not in there:
            del made.output[k]
    if len(there) == 1:
        made.op_type = "Identity"
        del made.attribute[:]
        return PieceNode(made)
    sizes = [stop - start for start, stop in (piece.output(k)[axis] for k in there)]
    if operation.attributes["opset"] < 13:
        import onnx

        made.attribute.append(onnx.helper.make_attribute("split", sizes))
        return PieceNode(made)
    constants = {f"{node.output[0]}/split": np.array(sizes, np.int64)}
    made.input.extend(constants)
    return PieceNode(made, constants)


def _shaped(kind: str) -> _Rule:
    """A node that gives its first input the piece's shape."""

    def rule(piece: _Piece) -> PieceNode | None:
        if piece.operation.attributes["opset"] < (8 if kind == "Expand" else 5):
            return None
        shape = [stop - start for start, stop in piece.output()]
        return _with_numbers(piece, kind, (0,), shape=shape)

    return rule


def _gemm(piece: _Piece) -> PieceNode:
    inputs = list(piece.node.input)
    return PieceNode(_copy(piece.node, inputs=inputs if piece.work.begins else inputs[:2]))


def _resize(piece: _Piece) -> PieceNode | None:
    """A Resize of the positions taken along cut axes; ``None`` if one of these interpolates."""
    image, inputs, label = piece.node.input[0], list(piece.node.input), piece.node.output[0]
    takes: dict[int, list[int]] = {}
    for cut, (start, stop) in piece.work.cut:
        window = cut.window.get(image)
        if window is None or window.table is None:
            continue
        places = window.table[start:stop]
        if any(high - low > 1 for low, high in places):
            return None
        first = piece.box(image)[window.axis][0]
        takes[window.axis] = [low - first for low, _ in places]
    axes = piece.operation.attributes.get("axes") or range(len(piece.output()))
    if len(inputs) > 3:
        sizes = [piece.output()[axis][1] - piece.output()[axis][0] for axis in axes]
        constants = {f"{label}/sizes": np.array(sizes, np.int64)}
        return PieceNode(_copy(piece.node, inputs=[*inputs[:3], *constants]), constants, takes)
    number = len(inputs) - 1
    scales = piece.operation.value(number) if number else None
    if not takes or scales is None:
        return None if takes else PieceNode(_copy(piece.node))
    kept = [1.0 if axis in takes else scale for axis, scale in zip(axes, scales, strict=True)]
    inputs[number] = f"{label}/scales"
    constants = {inputs[number]: np.array(kept, np.float32)}
    return PieceNode(_copy(piece.node, inputs=inputs), constants, takes)


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(
        ("AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "QLinearConv"), _window
    ),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _shaped("Reshape")),
    "Concat": _concat,
    "ConvTranspose": _transposed,
    "Expand": _shaped("Expand"),
    "Gemm": _gemm,
    "Pad": _pad,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Upsample": _resize,
    "com.microsoft.FusedConv": _window,
    "com.microsoft.QLinearAveragePool": _window,
    "com.microsoft.QLinearConcat": _quantized_concat,
}
