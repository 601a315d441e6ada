"""Random ONNX nodes of the kinds that can run in pieces, with values of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

Array = npt.NDArray[Any]
OPSET = 20


@dataclass
class Drawn:
    """One node: values of its inputs, and names of those that are constants."""

    node: onnx.NodeProto
    values: dict[str, Array]
    constants: tuple[str, ...] = ()
    opset: int = OPSET
    outputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        """A model of the node alone; its inputs are constants where the node needs them."""
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in self.values.items()
            if name not in self.constants
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.node.output if name]
        constants = [onnx.numpy_helper.from_array(self.values[n], n) for n in self.constants]
        graph = helper.make_graph([self.node], "g", inputs, outputs, constants)
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9)


class Draw:
    """A source of random shapes, attributes and values."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def number(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self) -> bool:
        return bool(self.rng.integers(2))

    def shape(self, rank: int, low: int = 2, high: int = 6) -> list[int]:
        return [self.number(low, high) for _ in range(rank)]

    def floats(self, shape: Any) -> Array:
        """Whole numbers, so that sums are exact in any order."""
        return self.rng.integers(-4, 5, shape).astype(np.float32)

    def integers(self, shape: Any, dtype: Any = np.int8) -> Array:
        return self.rng.integers(0 if dtype == np.uint8 else -20, 20, shape).astype(dtype)


def _geometry(draw: Draw, extents: list[int]) -> tuple[dict[str, Any], list[int]]:
    """Attributes of a window that fits, and its taps."""
    rank = len(extents)
    dilations = [draw.number(1, 2) for _ in range(rank)]
    taps = []
    for extent, dilation in zip(extents, dilations, strict=True):
        most = (extent - 1) // dilation + 1
        taps.append(draw.number(min(dilation, most), min(3, most)))
    given: dict[str, Any] = {"strides": [draw.number(1, 3) for _ in range(rank)]}
    reach = [d * (t - 1) + 1 for d, t in zip(dilations, taps, strict=True)]
    if draw.number(0, 3):
        given["pads"] = [draw.number(0, r - 1) for r in reach * 2]
    else:
        given["auto_pad"] = ["SAME_UPPER", "SAME_LOWER", "VALID"][draw.number(0, 2)]
        # Of longer strides, the reference kernels of pools take padding to be negative.
        given["strides"] = [min(s, r) for s, r in zip(given["strides"], reach, strict=True)]
    given["dilations"] = dilations
    return given, taps


def _conv(draw: Draw) -> Drawn:
    rank = draw.number(1, 2)
    groups, each, made = draw.number(1, 3), draw.number(1, 3), draw.number(1, 3)
    extents = [draw.number(3, 9) for _ in range(rank)]
    given, taps = _geometry(draw, extents)
    values = {
        "x": draw.floats((draw.number(1, 2), groups * each, *extents)),
        "w": draw.floats((groups * made, each, *taps)),
    }
    if draw.chance():
        values["b"] = draw.floats(groups * made)
    node = helper.make_node("Conv", list(values), ["y"], group=groups, **given)
    return Drawn(node, values)


def _conv_integer(draw: Draw) -> Drawn:
    extents = [draw.number(3, 8) for _ in range(2)]
    given, taps = _geometry(draw, extents)
    channels = draw.number(2, 4)
    values = {
        "x": draw.integers((1, channels, *extents), np.uint8),
        "w": draw.integers((draw.number(2, 4), channels, *taps), np.uint8),
        "xz": np.array(3, np.uint8),
        "wz": np.array(2, np.uint8),
    }
    return Drawn(helper.make_node("ConvInteger", list(values), ["y"], **given), values)


def _qlinear_conv(draw: Draw) -> Drawn:
    extents = [draw.number(3, 8) for _ in range(2)]
    given, taps = _geometry(draw, extents)
    groups = draw.number(1, 3)
    made = groups * draw.number(1, 2)
    values = {
        "x": draw.integers((1, groups * 2, *extents)),
        "xs": np.array(0.5, np.float32),
        "xz": np.array(2, np.int8),
        "w": draw.integers((made, 2, *taps)),
        "ws": draw.rng.random(made).astype(np.float32) + np.float32(0.1),
        "wz": np.zeros(made, np.int8),
        "ys": np.array(7.0, np.float32),
        "yz": np.array(-1, np.int8),
        "b": draw.integers(made, np.int32),
    }
    node = helper.make_node("QLinearConv", list(values), ["y"], group=groups, **given)
    return Drawn(node, values)


def _conv_transpose(draw: Draw) -> Drawn:
    extents = [draw.number(2, 6) for _ in range(2)]
    taps = [draw.number(1, 4) for _ in range(2)]
    strides = [draw.number(1, t) for t in taps]
    given: dict[str, Any] = {"strides": strides}
    if draw.chance():
        given["pads"] = [draw.number(0, t - 1) for t in taps * 2]
        given["output_padding"] = [draw.number(0, s - 1) for s in strides]
    values = {
        "x": draw.floats((1, draw.number(1, 3), *extents)),
        "b": draw.floats(draw.number(2, 4)),
    }
    values["w"] = draw.floats((values["x"].shape[1], len(values["b"]), *taps))
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **given)
    return Drawn(node, values)


def _pool(kind: str) -> Callable[[Draw], Drawn]:
    def make(draw: Draw) -> Drawn:
        extents = [draw.number(3, 9) for _ in range(2)]
        given, taps = _geometry(draw, extents)
        if kind == "AveragePool" and draw.chance():
            given["count_include_pad"] = 1
        if "auto_pad" in given:
            given["auto_pad"] = "VALID"  # the reference kernels pad wrongly
        if "auto_pad" not in given and draw.chance():
            given["ceil_mode"] = 1
        if kind != "MaxPool":
            given.pop("dilations")
            taps = [min(t, e) for t, e in zip(taps, extents, strict=True)]
            if "pads" in given:
                given["pads"] = [
                    min(p, t - 1) for p, t in zip(given["pads"], taps * 2, strict=True)
                ]
        values = {"x": draw.floats((draw.number(1, 2), draw.number(2, 3), *extents))}
        return Drawn(helper.make_node(kind, ["x"], ["y"], kernel_shape=taps, **given), values)

    return make


def _broadcast(kind: str) -> Callable[[Draw], Drawn]:
    def make(draw: Draw) -> Drawn:
        shape = draw.shape(draw.number(1, 4))
        other = [1 if draw.chance() else extent for extent in shape][draw.number(0, len(shape)) :]
        values = {"a": draw.floats(shape), "b": draw.floats(other)}
        names = ["a", "b"] if draw.chance() else ["b", "a"]
        return Drawn(helper.make_node(kind, names, ["y"]), values)

    return make


def _unary(kind: str, **given: Any) -> Callable[[Draw], Drawn]:
    def make(draw: Draw) -> Drawn:
        values = {"x": draw.floats(draw.shape(draw.number(1, 4)))}
        return Drawn(helper.make_node(kind, ["x"], ["y"], **given), values)

    return make


def _twice(draw: Draw) -> Drawn:
    """A tensor multiplied by itself, and by itself transposed."""
    side = draw.number(2, 5)
    kind = "Mul" if draw.chance() else "MatMul"
    return Drawn(helper.make_node(kind, ["x", "x"], ["y"]), {"x": draw.floats((side, side))})


def _where(draw: Draw) -> Drawn:
    shape = draw.shape(3)
    values = {"c": draw.floats(shape[1:]) > 0, "a": draw.floats(shape), "b": draw.floats((1,))}
    return Drawn(helper.make_node("Where", list(values), ["y"]), values)


def _clip(draw: Draw) -> Drawn:
    values = {"x": draw.floats(draw.shape(4)), "lo": np.float32(-1), "hi": np.float32(2)}
    values = {k: np.asarray(v) for k, v in values.items()}
    return Drawn(helper.make_node("Clip", list(values), ["y"]), values)


def _batch_norm(draw: Draw) -> Drawn:
    shape = draw.shape(draw.number(2, 4))
    values = {"x": draw.floats(shape)}
    values |= {name: draw.rng.random(shape[1]).astype(np.float32) for name in "sbmv"}
    return Drawn(helper.make_node("BatchNormalization", list(values), ["y"]), values)


def _instance_norm(draw: Draw) -> Drawn:
    shape = draw.shape(4)
    values = {"x": draw.floats(shape), "s": draw.floats(shape[1]), "b": draw.floats(shape[1])}
    return Drawn(helper.make_node("InstanceNormalization", list(values), ["y"]), values)


def _layer_norm(draw: Draw) -> Drawn:
    shape = draw.shape(3)
    axis = draw.number(1, 2)
    values = {
        "x": draw.floats(shape),
        "s": draw.floats(shape[axis:]),
        "b": draw.floats(shape[axis:]),
    }
    return Drawn(helper.make_node("LayerNormalization", list(values), ["y"], axis=axis), values)


def _softmax(draw: Draw) -> Drawn:
    rank = draw.number(2, 4)
    values = {"x": draw.floats(draw.shape(rank))}
    kind = ["Softmax", "LogSoftmax"][draw.number(0, 1)]
    return Drawn(helper.make_node(kind, ["x"], ["y"], axis=draw.number(0, rank - 1)), values)


def _old_softmax(draw: Draw) -> Drawn:
    values = {"x": draw.floats(draw.shape(4))}
    node = helper.make_node("Softmax", ["x"], ["y"], axis=draw.number(1, 3))
    return Drawn(node, values, opset=11)


def _quantize(draw: Draw) -> Drawn:
    shape, axis = draw.shape(3), draw.number(0, 2)
    along = shape[axis] if draw.chance() else ()
    scale = np.asarray(draw.rng.random(along) + 0.5, np.float32)
    zero = np.asarray(draw.integers(along, np.uint8))
    if draw.chance():
        values = {"x": draw.floats(shape), "s": scale, "z": zero}
        return Drawn(helper.make_node("QuantizeLinear", list(values), ["y"], axis=axis), values)
    values = {"x": draw.integers(shape, np.uint8), "s": scale, "z": zero}
    return Drawn(helper.make_node("DequantizeLinear", list(values), ["y"], axis=axis), values)


def _concat(draw: Draw) -> Drawn:
    shape = draw.shape(draw.number(1, 4))
    axis = draw.number(0, len(shape) - 1)
    values = {}
    for name in "abc"[: draw.number(2, 3)]:
        shape[axis] = draw.number(1, 4)
        values[name] = draw.floats(shape)
    return Drawn(helper.make_node("Concat", list(values), ["y"], axis=axis), values)


def _split(draw: Draw) -> Drawn:
    shape = draw.shape(3)
    axis = draw.number(0, 2)
    sizes = [draw.number(1, 3) for _ in range(3)]
    shape[axis] = sum(sizes)
    values = {"x": draw.floats(shape), "s": np.array(sizes, np.int64)}
    node = helper.make_node("Split", list(values), ["a", "b", "c"], axis=axis)
    return Drawn(node, values, ("s",))


def _slice(draw: Draw) -> Drawn:
    shape = draw.shape(3, 3, 9)
    axes = [a for a in range(3) if draw.chance()] or [1]
    starts = [draw.number(-shape[a], shape[a] - 2) for a in axes]
    steps = [draw.number(1, 3) for _ in axes]
    ends = [draw.number(shape[a] - 1, shape[a] + 3) for a in axes]
    values = {"x": draw.floats(shape)}
    for name, listed in zip(("st", "en", "ax", "sp"), (starts, ends, axes, steps), strict=True):
        values[name] = np.array(listed, np.int64)
    return Drawn(helper.make_node("Slice", list(values), ["y"]), values, ("st", "en", "ax", "sp"))


def _pad(draw: Draw) -> Drawn:
    shape = draw.shape(3, 2, 5)
    mode = ["constant", "constant", "reflect", "edge"][draw.number(0, 3)]
    most = 1 if mode == "reflect" else 3
    axes = [a for a in range(3) if draw.chance()] or [1]
    pads = [draw.number(0, most) for _ in axes * 2]
    values = {
        "x": draw.floats(shape),
        "p": np.array(pads, np.int64),
        "v": np.array(3, np.float32),
        "a": np.array(axes, np.int64),
    }
    node = helper.make_node("Pad", list(values), ["y"], mode=mode)
    return Drawn(node, values, ("p", "a"))


def _resize(draw: Draw) -> Drawn:
    shape = [1, 2, draw.number(2, 6), draw.number(2, 6)]
    mode = ["nearest", "linear"][draw.number(0, 1)]
    form = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"][draw.number(0, 3)]
    given: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": form}
    if mode == "nearest":
        listed = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        given["nearest_mode"] = listed[draw.number(0, 3)]
    values = {"x": draw.floats(shape)}
    if draw.chance():
        values["s"] = np.array([*shape[:2], draw.number(2, 11), draw.number(2, 11)], np.int64)
        return Drawn(helper.make_node("Resize", ["x", "", "", "s"], ["y"], **given), values, ("s",))
    scales = [1, 1, draw.number(1, 6) / 2, draw.number(1, 6) / 2]
    scales = [max(s, 0.5) for s in scales]
    values["s"] = np.array(scales, np.float32)
    return Drawn(helper.make_node("Resize", ["x", "", "s"], ["y"], **given), values, ("s",))


def _transpose(draw: Draw) -> Drawn:
    rank = draw.number(2, 4)
    order = [int(k) for k in draw.rng.permutation(rank)]
    values = {"x": draw.floats(draw.shape(rank))}
    return Drawn(helper.make_node("Transpose", ["x"], ["y"], perm=order), values)


def _reshape(draw: Draw) -> Drawn:
    a, b, c, d = draw.shape(4, 2, 4)
    forms = [
        ([a, b, c * d], [a, b, c, d]),
        ([a, b, c, d], [a * b, c, d]),
        ([a, b, c, d], [a, b * c * d]),
        ([a, b * c, d], [a, b, c, d]),
        ([a * b, c], [a, b * c]),
    ]
    before, after = forms[draw.number(0, len(forms) - 1)]
    values = {"x": draw.floats(before), "s": np.array(after, np.int64)}
    return Drawn(helper.make_node("Reshape", ["x", "s"], ["y"]), values, ("s",))


def _expand(draw: Draw) -> Drawn:
    shape = draw.shape(3)
    own = [1 if draw.chance() else extent for extent in shape]
    values = {"x": draw.floats(own), "s": np.array(shape, np.int64)}
    return Drawn(helper.make_node("Expand", ["x", "s"], ["y"]), values, ("s",))


def _matmul(draw: Draw) -> Drawn:
    batch = [draw.number(1, 3) for _ in range(draw.number(0, 2))]
    rows, inner, columns = draw.shape(3)
    left = [1 if draw.chance() else b for b in batch]
    values = {"a": draw.floats((*batch, rows, inner)), "b": draw.floats((*left, inner, columns))}
    return Drawn(helper.make_node("MatMul", ["a", "b"], ["y"]), values)


def _matmul_integer(draw: Draw) -> Drawn:
    rows, inner, columns = draw.shape(3)
    values = {
        "a": draw.integers((rows, inner), np.uint8),
        "b": draw.integers((inner, columns), np.uint8),
        "az": np.array(3, np.uint8),
    }
    return Drawn(helper.make_node("MatMulInteger", list(values), ["y"]), values)


def _gemm(draw: Draw) -> Drawn:
    rows, inner, columns = draw.shape(3)
    given = {"transA": draw.number(0, 1), "transB": draw.number(0, 1), "alpha": 0.5, "beta": 2.0}
    added = [(columns,), (rows, 1), (rows, columns), (1, columns)][draw.number(0, 3)]
    values = {
        "a": draw.floats((inner, rows) if given["transA"] else (rows, inner)),
        "b": draw.floats((columns, inner) if given["transB"] else (inner, columns)),
        "c": draw.floats(added),
    }
    return Drawn(helper.make_node("Gemm", ["a", "b", "c"], ["y"], **given), values)


def _einsum(draw: Draw) -> Drawn:
    sizes = dict(zip("bijk", draw.shape(4), strict=True))
    equation = ["bij,bjk->bik", "ij,kj->ik", "bij->bj", "bi,bj->bij"][draw.number(0, 3)]
    operands = equation.split("->")[0].split(",")
    values = {
        f"x{n}": draw.floats([sizes[label] for label in labels])
        for n, labels in enumerate(operands)
    }
    return Drawn(helper.make_node("Einsum", list(values), ["y"], equation=equation), values)


def _reduce(kind: str) -> Callable[[Draw], Drawn]:
    def make(draw: Draw) -> Drawn:
        shape = draw.shape(draw.number(2, 4))
        axes = [a for a in range(len(shape)) if draw.chance()] or [0]
        values = {"x": draw.floats(shape), "a": np.array(axes, np.int64)}
        node = helper.make_node(kind, ["x", "a"], ["y"], keepdims=draw.number(0, 1))
        return Drawn(node, values, ("a",))

    return make


def _global_pool(draw: Draw) -> Drawn:
    kind = ["GlobalAveragePool", "GlobalMaxPool"][draw.number(0, 1)]
    return Drawn(helper.make_node(kind, ["x"], ["y"]), {"x": draw.floats(draw.shape(4))})


def _gather(draw: Draw) -> Drawn:
    shape = draw.shape(3)
    axis = draw.number(0, 2)
    picked = draw.rng.integers(0, shape[axis], draw.shape(draw.number(1, 2)))
    values = {"x": draw.floats(shape), "i": picked.astype(np.int64)}
    return Drawn(helper.make_node("Gather", ["x", "i"], ["y"], axis=axis), values)


def _blocks(draw: Draw) -> Drawn:
    block = draw.number(2, 3)
    if draw.chance():
        values = {"x": draw.floats((1, 2 * block * block, draw.number(2, 4), draw.number(2, 4)))}
        mode = ["DCR", "CRD"][draw.number(0, 1)]
        node = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=block, mode=mode)
        return Drawn(node, values)
    values = {"x": draw.floats((1, 2, block * draw.number(2, 4), block * draw.number(2, 4)))}
    return Drawn(helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=block), values)


KINDS: dict[str, Callable[[Draw], Drawn]] = {
    "Add": _broadcast("Add"),
    "AveragePool": _pool("AveragePool"),
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "DepthToSpace": _blocks,
    "Einsum": _einsum,
    "Expand": _expand,
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "HardSigmoid": _unary("HardSigmoid"),
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": _unary("LeakyRelu", alpha=0.5),
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
    "Max": _broadcast("Max"),
    "MaxPool": _pool("MaxPool"),
    "Mul": _broadcast("Mul"),
    "Pad": _pad,
    "QLinearConv": _qlinear_conv,
    "QuantizeLinear": _quantize,
    "ReduceMax": _reduce("ReduceMax"),
    "ReduceMean": _reduce("ReduceMean"),
    "ReduceSum": _reduce("ReduceSum"),
    "Relu": _unary("Relu"),
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Softmax": _softmax,
    "Softmax of opset 11": _old_softmax,
    "Split": _split,
    "Transpose": _transpose,
    "Where": _where,
    "an operand twice": _twice,
}
