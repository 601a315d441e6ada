"""Nodes of older opsets, restated as newer ones, which the reference kernels compute.

``onnx`` has reference kernels for the newest form of every operator, and for some older forms.
Before opset 7, an operand may be broadcast from an axis that an attribute names; before opset 13, a
softmax normalizes all elements from its axis on; and so on. (ONNX operator specifications, all
versions.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.in_place import is_affine
from cpplan.io.onnx.views import OF_RUNTIME

if TYPE_CHECKING:
    import onnx

Arrays = Sequence["Array | None"]
Run = Callable[[Arrays], Sequence[Array]]
# Results of an older node, from the kernel of the newer one and the inputs of the older.
Call = Callable[[Run, Arrays], Sequence[Array]]


# Kinds of two operands, of which the second may be broadcast from any axis on before opset 7.
PAIRS = "Add And Div Equal Greater Less Mul Or PRelu Pow Sub Xor".split()  # noqa: SIM905


class Restated(NamedTuple):
    """A node in the form of an opset.

    Attributes
    ----------
    call
        Function that computes the results of the older node; ``None`` if its inputs and results are
        those of the newer one.
    """

    node: onnx.NodeProto
    opset: int
    call: Call | None = None


def restate(node: onnx.NodeProto, opset: int) -> Restated:
    """A node of ONNX's own operators in the oldest form that a reference kernel computes."""
    newer, rule = _OLDER.get(node.op_type, (0, None))
    if opset >= newer:
        newer, rule = opset, _FORMS.get(node.op_type)
        if rule is None:
            return Restated(node, opset)
    made = type(node)()
    made.CopyFrom(node)
    _take(made, "consumed_inputs")
    return Restated(made, newer, None if rule is None else rule(made, opset))


def restated_kinds(opset: int) -> list[str]:
    """Kinds of nodes that are restated at an opset."""
    return [*_FORMS, *(kind for kind, (newer, _) in _OLDER.items() if opset < newer)]


def _take(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """Remove an attribute from a node; returns its value, or the default if it is left out."""
    import onnx

    for k, attribute in enumerate(node.attribute):
        if attribute.name == name:
            del node.attribute[k]
            return onnx.helper.get_attribute_value(attribute)
    return default


def _set(node: onnx.NodeProto, **attributes: Any) -> None:
    """Set attributes that a node leaves out."""
    import onnx

    known = {attribute.name for attribute in node.attribute}
    for name, value in attributes.items():
        if name not in known:
            node.attribute.append(onnx.helper.make_attribute(name, value))


def _without(*names: str) -> Callable[[onnx.NodeProto, int], None]:
    """Rule for nodes with attributes that say nothing of the results."""

    def rule(node: onnx.NodeProto, opset: int) -> None:
        for name in names:
            _take(node, name)

    return rule


def _simplified(node: onnx.NodeProto, opset: int) -> None:
    node.op_type = OF_RUNTIME[node.op_type][0]


def _with(**attributes: Any) -> Callable[[onnx.NodeProto, int], None]:
    """Rule for nodes whose attributes had other defaults."""
    return lambda node, opset: _set(node, **attributes)


def _aligned(node: onnx.NodeProto, opset: int) -> Call:
    """The axes of the second operand are those from ``axis`` on, or else the last ones."""
    _take(node, "broadcast")
    given = _take(node, "axis")

    def call(run: Run, inputs: Arrays) -> Sequence[Array]:
        first, second = inputs
        assert first is not None
        assert second is not None
        axis = given
        if node.op_type == "PRelu" and first.shape[1:2] == second.shape:  # channels
            axis = 1
        if axis is not None:
            after = first.ndim - axis % first.ndim - second.ndim
            second = second.reshape(*second.shape, *(1 for _ in range(after)))
        return run([first, second])

    return call


def _batch_norm(node: onnx.NodeProto, opset: int) -> Call:
    """Other outputs tell that a node trains, and statistics may be those of each position."""
    trains = not is_affine(node, opset)
    whole = not _take(node, "spatial", 1)
    _take(node, "is_test")
    _set(node, training_mode=int(trains))

    def call(run: Run, inputs: Arrays) -> Sequence[Array]:
        image, *given = (array for array in inputs if array is not None)
        shape = image.shape
        if whole:  # every position is a channel
            image = image.reshape(len(image), -1)
        found = [*run([image, *(array.reshape(-1) for array in given)])]
        if trains:
            others = tuple(k for k in range(image.ndim) if k != 1)
            found += [image.mean(others), image.var(others)]
        return [found[0].reshape(shape), *(array.reshape(given[0].shape) for array in found[1:])]

    return call


def _by_rows(node: onnx.NodeProto, opset: int) -> Call:
    """A row is all elements from ``axis`` on."""
    given = _take(node, "axis", 1)
    _set(node, axis=1)

    def call(run: Run, inputs: Arrays) -> Sequence[Array]:
        (image,) = inputs
        assert image is not None
        axis = given + image.ndim if given < 0 else given
        rows = int(np.prod(image.shape[:axis]))
        (found,) = run([image.reshape(rows, image.size // max(rows, 1))])
        return [found.reshape(image.shape)]

    return call


def _cast(node: onnx.NodeProto, opset: int) -> None:
    import onnx

    target = _take(node, "to")
    if isinstance(target, bytes):
        target = onnx.TensorProto.DataType.Value(target.decode())
    _set(node, to=target)


def _dropout(node: onnx.NodeProto, opset: int) -> Call:
    """Before opset 7 a Dropout drops unless ``is_test`` is set; afterwards it never does."""
    ratio = np.array(_take(node, "ratio", 0.5), np.float32)
    drops = not _take(node, "is_test", 0) and opset < 7
    return lambda run, inputs: run([*inputs, ratio, np.array(drops)])


def _reshape(node: onnx.NodeProto, opset: int) -> Call:
    shape = np.array(_take(node, "shape", ()), np.int64)
    return lambda run, inputs: run([*inputs, shape])


def _roi_align(node: onnx.NodeProto, opset: int) -> None:
    _set(node, coordinate_transformation_mode="output_half_pixel")


def _scan(node: onnx.NodeProto, opset: int) -> Call:
    """Every sequence of a batch is scanned by itself, over its own length."""
    directions = _take(node, "directions", ())
    if directions:
        _set(node, scan_input_directions=directions)
    count = _scanned(node)
    along = _scan_along(node, opset)

    def call(run: Run, inputs: Arrays) -> Sequence[Array]:
        lengths, *rest = inputs
        arrays = [array for array in rest if array is not None]
        states, scanned = arrays[:-count], arrays[-count:]
        batch, steps = scanned[0].shape[:2]
        found: list[list[Array]] = []
        for k in range(batch):
            length = steps if lengths is None else int(lengths[k])
            given = [*(a[k] for a in states), *(a[k, :length] for a in scanned)]
            each = list(run(given) if along is None else along(run, given))
            for number, rows in enumerate(each[len(states) :], len(states)):
                after = [(0, steps - length), *((0, 0) for _ in rows.shape[1:])]
                each[number] = np.pad(rows, after)
            found.append(each)
        return [np.stack(parts) for parts in zip(*found, strict=True)]

    return call


def _scan_along(node: onnx.NodeProto, opset: int) -> Call | None:
    """A scan along the first axes, forwards, as reference kernels compute it."""
    inputs, outputs = (
        [_take(node, f"scan_{end}_{kind}", ()) for kind in ("axes", "directions")]
        for end in ("input", "output")
    )
    if not any(map(any, (*inputs, *outputs))):
        return None
    count = _scanned(node)

    def turned(array: Array, kinds: Sequence[Sequence[int]], k: int) -> Array:
        axis, backwards = (kind[k] if k < len(kind) else 0 for kind in kinds)
        moved = np.moveaxis(array, axis, 0)
        return moved[::-1] if backwards else moved

    def turned_back(array: Array, kinds: Sequence[Sequence[int]], k: int) -> Array:
        axis, backwards = (kind[k] if k < len(kind) else 0 for kind in kinds)
        return np.moveaxis(array[::-1] if backwards else array, 0, axis)

    def call(run: Run, given: Arrays) -> Sequence[Array]:
        arrays = [array for array in given if array is not None]
        states = len(arrays) - count
        scanned = [turned(array, inputs, k) for k, array in enumerate(arrays[states:])]
        found = run([*arrays[:states], *scanned])
        rows = [turned_back(array, outputs, k) for k, array in enumerate(found[states:])]
        return [*found[:states], *rows]

    return call


def _scanned(node: onnx.NodeProto) -> int:
    """Number of inputs that a scan takes row by row."""
    return next(int(a.i) for a in node.attribute if a.name == "num_scan_inputs")


def _scatter(node: onnx.NodeProto, opset: int) -> None:
    node.op_type = "ScatterElements"


def _scaled(node: onnx.NodeProto, opset: int) -> Call:
    """A resizing by scales, from the first element on."""
    scales = _take(node, "scales")
    if node.op_type == "Upsample" and scales is None:
        sides = [_take(node, f"{side}_scale") for side in ("height", "width")]
        scales = None if None in sides else [1, 1, *sides]
    mode = _take(node, "mode", b"nearest")
    node.op_type = "Resize"
    _set(
        node,
        mode="linear" if mode == b"bilinear" else mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    stated = None if scales is None else np.array(scales, np.float32)
    return lambda run, inputs: run([inputs[0], None, inputs[1] if stated is None else stated])


def _split(node: onnx.NodeProto, opset: int) -> Call:
    sizes = _take(node, "split")
    _set(node, axis=0)

    def call(run: Run, inputs: Arrays) -> Sequence[Array]:
        given = inputs[1] if len(inputs) > 1 else None
        if given is None and sizes is not None:
            given = np.array(sizes)
        return run([inputs[0], None if given is None else given.astype(np.int64)])

    return call


def _tile(node: onnx.NodeProto, opset: int) -> Call:
    def call(run: Run, inputs: Arrays) -> Sequence[Array]:
        image, count, axis = inputs
        assert image is not None
        assert count is not None
        assert axis is not None
        repeats = np.ones(image.ndim, np.int64)
        repeats[int(axis.item())] = int(count.item())
        return run([image, repeats])

    return call


_Rule = Callable[["onnx.NodeProto", int], "Call | None"]
_CONSUMING = """
    Abs Ceil Clip Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log Max Mean Min Neg
    Reciprocal Relu Sigmoid Sqrt Sum Tanh
""".split()  # noqa: SIM905

# Kind -> the rule for forms, at any opset, that no reference kernel computes.
_FORMS: Mapping[str, _Rule] = {
    "Scan": _scan_along,
    "SimplifiedLayerNormalization": _simplified,
}
# Kind -> the first opset whose form a reference kernel computes, and the rule for older ones.
_OLDER: Mapping[str, tuple[int, _Rule | None]] = {
    **dict.fromkeys(_CONSUMING, (6, None)),
    **dict.fromkeys(PAIRS, (7, _aligned)),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (7, _without("output_sequence"))),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), (13, _by_rows)),
    "AveragePool": (7, None),
    "BatchNormalization": (14, _batch_norm),
    "Cast": (6, _cast),
    "Concat": (4, _with(axis=1)),
    "DequantizeLinear": (19, None),
    "Dropout": (12, _dropout),
    "Gemm": (7, _without("broadcast")),
    "LayerNormalization": (17, None),
    "Reshape": (5, _reshape),
    "Resize": (11, _scaled),
    "RoiAlign": (16, _roi_align),
    "Scan": (9, _scan),
    "Scatter": (11, _scatter),
    "SimplifiedLayerNormalization": (23, _simplified),
    "Selu": (6, _with(alpha=1.6732, gamma=1.0507)),
    "Split": (13, _split),
    "Tile": (6, _tile),
    "Upsample": (11, _scaled),
}
