"""Nodes as opsets of ONNX have them, with the results that the operators' definitions give.

ONNX has test cases of every operator in its newest form; :func:`lowered_cases` gives those that an
older opset takes too. :data:`OLD_FORMS` are the nodes that newer opsets write differently:
attributes that became inputs, operands that are broadcast from an axis, rows that are flattened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
from onnx import helper, numpy_helper

Array = npt.NDArray[Any]
ML = "ai.onnx.ml"


@dataclass(frozen=True)
class Case:
    """A model of one node, values of its inputs, and results, which are ``None`` if random.

    Attributes
    ----------
    name
        Operator, opset, and a label if there are several.
    """

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    results: Sequence[Array | None]

    @property
    def operator(self) -> tuple[str, str]:
        """Domain and name of the operator."""
        (node,) = self.model.graph.node
        return node.domain, node.op_type

    @property
    def opset(self) -> int:
        """Version of the operator's domain."""
        domain = self.operator[0]
        return next(o.version for o in self.model.opset_import if o.domain == domain)

    def stored(self) -> Case:
        """The case with all inputs but the first stored in the model."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        first, *others = self.inputs
        del model.graph.input[1:]
        model.graph.initializer.extend(
            numpy_helper.from_array(self.inputs[name], name) for name in others
        )
        return Case(self.name, model, {first: self.inputs[first]}, self.results)


def made_case(
    kind: str,
    opset: int,
    inputs: Sequence[Array | None],
    results: Sequence[Array | None],
    *,
    constants: Sequence[int] = (),
    label: str = "",
    domain: str = "",
    declared: Sequence[tuple[Any, tuple[int, ...]]] = (),
    **attributes: Any,
) -> Case:
    """A case of a node with these inputs; those at ``constants`` are stored in the model.

    ``declared`` are types and shapes of results that are random.
    """
    names = [f"x{k}" if value is not None else "" for k, value in enumerate(inputs)]
    outputs = [f"y{k}" for k in range(len(results))]
    node = helper.make_node(kind, names, outputs, domain=domain, **attributes)
    given = {name: value for name, value in zip(names, inputs, strict=True) if value is not None}
    stored = [names[k] for k in constants]
    forms = declared or [(r.dtype, r.shape) for r in results if r is not None]
    graph = helper.make_graph(
        [node],
        "case",
        [_info(name, v.dtype, v.shape) for name, v in given.items() if name not in stored],
        [_info(name, *form) for name, form in zip(outputs, forms, strict=True)],
        [numpy_helper.from_array(given[name], name) for name in stored],
    )
    imports = [helper.make_opsetid(domain, opset)]
    if domain:
        imports.append(helper.make_opsetid("", 17))
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    free = {name: value for name, value in given.items() if name not in stored}
    return Case(f"{kind}-{opset}{label and '-'}{label}", model, free, results)


def _info(name: str, dtype: Any, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


_RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    """Random numbers of both signs."""
    return _RNG.standard_normal(shape).astype(np.float32)


def ints(*values: Any) -> Array:
    """Whole numbers as shapes and axes have them."""
    return np.array(values[0] if len(values) == 1 else values, np.int64)


def softmax(x: Array, axis: int) -> Array:
    """Softmax along an axis."""
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _flat(function: Callable[[Array, int], Array], x: Array, axis: int) -> Array:
    """A function along rows, which are all elements from an axis on, as before opset 13."""
    return function(x.reshape(int(np.prod(x.shape[:axis])), -1), 1).reshape(x.shape)


def _greatest(x: Array, axis: int) -> Array:
    return (np.arange(x.shape[axis]) == x.argmax(axis)[..., None]).astype(x.dtype)


_PAIRS: Mapping[str, Callable[[Array, Array], Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
    "Pow": np.power, "Greater": np.greater, "Less": np.less, "Equal": np.equal,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip


def _broadcasts() -> Iterator[Case]:
    """Operands that are broadcast, from an axis on or at the end, as before opset 7."""
    for kind, function in _PAIRS.items():
        x, row, last = np.abs(floats(2, 3, 3, 4)) + 1, np.abs(floats(3)), np.abs(floats(3, 4))
        if kind in ("And", "Or", "Xor"):
            x, row, last = (each > 1 for each in (x, row, last))
        elif kind in ("Equal", "Greater", "Less"):
            dtype = np.int32 if kind == "Equal" else np.float32
            x, row, last = (np.rint(each).astype(dtype) for each in (x, row, last))
        for opset in (1, 6):
            if opset == 6 and kind in ("And", "Or", "Xor", "Equal", "Greater", "Less", "Pow"):
                continue
            wide = row[:, None, None]
            yield made_case(
                kind, opset, [x, row], [function(x, wide)], label="axis", broadcast=1, axis=1
            )
            yield made_case(kind, opset, [x, last], [function(x, last)], label="last", broadcast=1)
            one = row[:1]
            yield made_case(kind, opset, [x, one], [function(x, one)], label="one", broadcast=1)
            yield made_case(kind, opset, [x, x], [function(x, x)], label="same")


_UNARY: Mapping[str, Callable[[Array], Array]] = {
    "Abs": np.abs, "Ceil": np.ceil, "Exp": np.exp, "Floor": np.floor, "Neg": np.negative,
    "Reciprocal": np.reciprocal, "Tanh": np.tanh, "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Log": np.log, "Sqrt": np.sqrt,
    "Elu": lambda x: np.where(x < 0, np.exp(x) - 1, x),
    "LeakyRelu": lambda x: np.where(x < 0, np.float32(0.01) * x, x),
    "HardSigmoid": lambda x: np.clip(np.float32(0.2) * x + np.float32(0.5), 0, 1),
    "Selu": lambda x: 1.0507 * np.where(x < 0, 1.6732 * (np.exp(x) - 1), x),
}  # fmt: skip


def _first_opset() -> Iterator[Case]:
    """Nodes of opset 1 that say which inputs they overwrite, and other forms of opset 1 alone."""
    for kind, function in _UNARY.items():
        x = np.abs(floats(2, 5)) if kind in ("Log", "Sqrt") else floats(2, 5)
        result = function(x).astype(np.float32)
        yield made_case(kind, 1, [x], [result], label="consumed", consumed_inputs=[0])
    x, other = floats(2, 3, 4), floats(2, 3, 4)
    for kind, fold in (("Sum", np.add), ("Max", np.maximum), ("Min", np.minimum)):
        for opset in (1, 6):
            yield made_case(kind, opset, [x, other, x], [fold(fold(x, other), x)])
    yield made_case("Mean", 1, [x, other], [(x + other) / 2], consumed_inputs=[0, 0])
    yield made_case("Cast", 1, [x], [x.astype(np.int32)], to="INT32")
    yield made_case("Cast", 1, [x], [x.astype(np.float64)], to="DOUBLE", label="double")
    yield made_case("Concat", 1, [x, other], [np.concatenate([x, other], 1)])
    yield made_case("Reshape", 1, [x], [x.reshape(2, 12)], shape=[0, -1])
    tiled = np.tile(x, (1, 2, 1))
    yield made_case(
        "Tile", 1, [x, np.array(2, np.float32), np.array(1, np.float32)], [tiled], constants=[1, 2]
    )
    yield made_case("Shape", 1, [x], [ints(2, 3, 4)])
    yield made_case("Size", 1, [x], [ints(24)])
    image = floats(1, 2, 4, 4)
    deeper = image.reshape(1, 2, 2, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 2)
    yield made_case("SpaceToDepth", 1, [image], [deeper], blocksize=2)
    blocks = deeper.reshape(1, 2, 2, 2, 2, 2).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 4)
    yield made_case("DepthToSpace", 1, [deeper], [blocks], blocksize=2)
    mean, dev = image.mean((2, 3), keepdims=True), image.var((2, 3), keepdims=True)
    scale, bias = floats(2), floats(2)
    normal = (image - mean) / np.sqrt(dev + 1e-5) * scale[:, None, None] + bias[:, None, None]
    yield made_case("InstanceNormalization", 1, [image, scale, bias], [normal], consumed_inputs=[0])


def _attributes() -> Iterator[Case]:
    """Inputs that were attributes."""
    x = floats(2, 3, 4)
    for opset in (1, 6):
        bounds = {"min": -0.5, "max": 0.5}
        low, high = (np.float32(each) for each in bounds.values())
        yield made_case("Clip", opset, [x], [np.clip(x, low, high)], **bounds)
        yield made_case("Clip", opset, [x], [np.maximum(x, low)], label="min", min=-0.5)
        yield made_case("Clip", opset, [x], [np.minimum(x, high)], label="max", max=0.5)
        yield made_case("Clip", opset, [x], [x], label="none")
    padded = np.pad(x, ((0, 0), (1, 0), (2, 1)), constant_values=3)
    pads = [0, 1, 2, 0, 0, 1]
    yield made_case("Pad", 1, [x], [padded], paddings=pads, value=3.0)
    yield made_case("Pad", 2, [x], [padded], pads=pads, value=3.0)
    mirrored = np.pad(x, ((0, 0), (1, 0), (2, 1)), mode="reflect")
    yield made_case("Pad", 2, [x], [mirrored], label="reflect", pads=pads, mode="reflect")
    part = x[:, 1:3, -2:]
    yield made_case("Slice", 1, [x], [part], axes=[1, 2], starts=[1, -2], ends=[3, 1000])
    yield made_case("Slice", 1, [x], [x[:1]], label="no axes", starts=[0], ends=[1])
    for opset in (1, 11):
        wide = x[:, None, :, :, None]
        yield made_case("Unsqueeze", opset, [x], [wide], axes=[1, 4])
        yield made_case("Squeeze", opset, [wide], [x], axes=[1, 4])
        yield made_case("Squeeze", opset, [wide], [x], label="all")
    best = np.sort(x, 1)[:, ::-1][:, :2]
    places = np.argsort(-x, 1, kind="stable")[:, :2]
    yield made_case("TopK", 1, [x], [best, places], axis=1, k=2)
    yield made_case("TopK", 10, [x, ints([2])], [best, places], constants=[1], axis=1)
    yield made_case("Split", 1, [x], [x[..., :3], x[..., 3:]], axis=2, split=[3, 1])
    yield made_case(
        "Split", 1, [x, np.array([1, 2], np.float32)], [x[:, :1], x[:, 1:]],
        label="input", constants=[1], axis=1,
    )  # fmt: skip
    yield made_case("Split", 1, [x], [x[:1], x[1:]], label="equal")
    for opset in (2, 11):
        yield made_case("Split", opset, [x], [x[..., :3], x[..., 3:]], axis=2, split=[3, 1])
    for ratio, opset in ((0.5, 7), (0.25, 10)):
        yield made_case("Dropout", opset, [x], [x], ratio=ratio)
    for opset in (1, 6):
        yield made_case("Dropout", opset, [x], [x], is_test=1)
    drawn = [(np.float32, x.shape)]
    yield made_case("Dropout", 6, [x], [None], declared=drawn, label="draws")
    x = np.abs(x)
    for kind, function in _REDUCTIONS.items():
        for opset in (1, 11, 13)[: 2 if kind == "ReduceSum" else 3]:
            result = function(x, (0, 2), True)
            yield made_case(kind, opset, [x], [result], axes=[0, 2])
            yield made_case(kind, opset, [x], [function(x, (1,), False)], label="thin", axes=[1],
                            keepdims=0)  # fmt: skip
            yield made_case(kind, opset, [x], [function(x, (0, 1, 2), True)], label="all")


_REDUCTIONS: Mapping[str, Callable[[Array, tuple[int, ...], bool], Array]] = {
    "ReduceL1": lambda x, axes, keep: np.abs(x).sum(axes, keepdims=keep),
    "ReduceL2": lambda x, axes, keep: np.sqrt((x * x).sum(axes, keepdims=keep)),
    "ReduceLogSum": lambda x, axes, keep: np.log(x.sum(axes, keepdims=keep)),
    "ReduceLogSumExp": lambda x, axes, keep: np.log(np.exp(x).sum(axes, keepdims=keep)),
    "ReduceMax": lambda x, axes, keep: x.max(axes, keepdims=keep),
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keepdims=keep),
    "ReduceMin": lambda x, axes, keep: x.min(axes, keepdims=keep),
    "ReduceProd": lambda x, axes, keep: x.prod(axes, keepdims=keep),
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdims=keep),
    "ReduceSumSquare": lambda x, axes, keep: (x * x).sum(axes, keepdims=keep),
}


def _rows() -> Iterator[Case]:
    """Functions of rows, which are all elements from an axis on before opset 13."""
    x = floats(2, 3, 4)
    functions: dict[str, Callable[[Array, int], Array]] = {
        "Softmax": softmax,
        "LogSoftmax": lambda x, axis: np.log(softmax(x, axis)),
        "Hardmax": _greatest,
    }
    for kind, function in functions.items():
        for opset in (1, 11):
            yield made_case(kind, opset, [x], [_flat(function, x, 1)])
            for axis in (0, 2):
                result = _flat(function, x, axis)
                yield made_case(kind, opset, [x], [result], label=str(axis), axis=axis)
        yield made_case(kind, 11, [x], [_flat(function, x, 1)], label="-2", axis=-2)
        yield made_case(kind, 13, [x], [function(x, 2)], axis=2)


def _norms() -> Iterator[Case]:
    """Normalizations by given statistics, and others that changed."""
    x, scale, bias, mean = floats(2, 3, 4, 4), floats(3), floats(3), floats(3)
    var = np.abs(floats(3)) + 1
    columns = [each[:, None, None] for each in (scale, bias, mean, var)]

    def normal(x: Array, scale: Array, bias: Array, mean: Array, var: Array) -> Array:
        found: Array = scale * (x - mean) / np.sqrt(var + np.float32(1e-5)) + bias
        return found

    result, given = normal(x, *columns), [x, scale, bias, mean, var]
    now = x.mean((0, 2, 3)), x.var((0, 2, 3))
    trained = normal(x, *columns[:2], *(each[:, None, None] for each in now))
    running = [
        np.float32(0.9) * a + np.float32(0.1) * b for a, b in zip((mean, var), now, strict=True)
    ]
    for opset in (1, 6, 7, 9):
        more = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
        yield made_case("BatchNormalization", opset, given, [trained, *running, *now],
                        label="trains", **more)  # fmt: skip
    yield made_case("BatchNormalization", 14, given, [trained, *running], label="trains",
                    training_mode=1)  # fmt: skip
    old = {"consumed_inputs": [0, 0, 0, 1, 1], "is_test": 1}
    yield made_case("BatchNormalization", 1, given, [result], **old)
    yield made_case("BatchNormalization", 6, given, [result], is_test=1)
    for opset in (7, 9, 14, 15):
        yield made_case("BatchNormalization", opset, given, [result])
    each = [np.abs(floats(3, 4, 4)) + 1 for _ in range(4)]
    whole = normal(x, *each)
    yield made_case("BatchNormalization", 1, [x, *each], [whole], label="each", spatial=0, **old)
    yield made_case(
        "BatchNormalization", 6, [x, *each], [whole], label="each", spatial=0, is_test=1
    )
    yield made_case("BatchNormalization", 7, [x, *each], [whole], label="each", spatial=0)
    groups = floats(2, 4, 3)
    halves = groups.reshape(2, 2, 2, 3)
    middle, spread = halves.mean((2, 3), keepdims=True), halves.var((2, 3), keepdims=True)
    flat = ((halves - middle) / np.sqrt(spread + 1e-5)).reshape(groups.shape)
    scale, bias = floats(4), floats(4)
    yield made_case("GroupNormalization", 21, [groups, scale, bias],
                    [flat * scale[:, None] + bias[:, None]], num_groups=2)  # fmt: skip
    for opset in (9, 13):
        centred = x - x.mean((0, 2, 3), keepdims=True)
        steady = centred / (x.std((0, 2, 3), keepdims=True) + np.float32(1e-9))
        yield made_case("MeanVarianceNormalization", opset, [x], [steady])


def _products() -> Iterator[Case]:
    one, other, added = floats(2, 3), floats(3, 4), floats(2, 4)
    product = one @ other
    for opset in (1, 6):
        row = floats(4)
        yield made_case("Gemm", opset, [one, other, added], [product + added])
        yield made_case("Gemm", opset, [one, other, row], [product + row], label="row", broadcast=1)
        turned = np.ascontiguousarray(other.T)
        yield made_case("Gemm", opset, [one, turned, row], [2 * product + row], label="turned",
                        broadcast=1, transB=1, alpha=2.0)  # fmt: skip
    yield made_case("Gemm", 7, [one, other, added], [product + added])
    x, slope = floats(2, 3, 4), floats(3)
    for opset in (1, 6):
        leaky = np.where(x < 0, slope[:, None] * x, x)
        yield made_case("PRelu", opset, [x, slope], [leaky])
        yield made_case(
            "PRelu", opset, [x, slope[:1]], [np.where(x < 0, slope[0] * x, x)], label="one"
        )
    yield made_case("PRelu", 7, [x, slope[:, None]], [np.where(x < 0, slope[:, None] * x, x)])


def _windows() -> Iterator[Case]:
    x = floats(1, 2, 4, 4)
    tiles = x.reshape(1, 2, 2, 2, 2, 2)
    for opset in (1, 7, 10, 11, 19, 22):
        mean = tiles.mean((3, 5))
        window = {"kernel_shape": [2, 2], "strides": [2, 2]}
        yield made_case("AveragePool", opset, [x], [mean], **window)
        wide = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1))).reshape(1, 2, 5, 5)
        count = np.pad(np.ones_like(x), ((0, 0), (0, 0), (0, 1), (0, 1)))
        total, places = (sum(a[:, :, i : i + 4, j : j + 4] for i in (0, 1) for j in (0, 1))
                         for a in (wide, count))  # fmt: skip
        yield made_case("AveragePool", opset, [x], [total / places], label="same",
                        kernel_shape=[2, 2], auto_pad="SAME_UPPER")  # fmt: skip
        yield made_case("AveragePool", opset, [x], [total / places], label="pads",
                        kernel_shape=[2, 2], pads=[0, 0, 1, 1])  # fmt: skip
    for opset in (1, 8, 10, 11, 12, 22):
        yield made_case("MaxPool", opset, [x], [tiles.max((3, 5))], **window)
    places = np.arange(32).reshape(tiles.shape).transpose(0, 1, 2, 4, 3, 5).reshape(1, 2, 2, 2, 4)
    chosen = tiles.transpose(0, 1, 2, 4, 3, 5).reshape(1, 2, 2, 2, 4).argmax(-1)[..., None]
    where = np.take_along_axis(places, chosen, -1)[..., 0]
    for opset in (8, 10, 12, 22):
        yield made_case("MaxPool", opset, [x], [tiles.max((3, 5)), where], label="places", **window)
    low = np.array([[[-5, -3, -7]]], np.int8)
    high = np.array([[[-5, -3, -3, -7]]], np.int8)
    for label, pads, end in (
        ("int8", {"pads": [1, 1]}, 4),
        ("same", {"auto_pad": "SAME_LOWER"}, 3),
    ):
        yield made_case("MaxPool", 12, [low], [high[..., :end]], label=label, kernel_shape=[2],
                        **pads)  # fmt: skip
    for opset, p in ((1, 3.0), (2, 3), (11, 3), (18, 3), (22, 3)):
        powers = (np.abs(tiles) ** 3).sum((3, 5)) ** (1 / 3)
        yield made_case("LpPool", opset, [x], [powers.astype(np.float32)], p=p, **window)
    for opset, p in ((1, 3.0), (2, 3), (22, 3)):
        powers = (np.abs(x) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)
        yield made_case("GlobalLpPool", opset, [x], [powers.astype(np.float32)], p=p)
    rois = np.array([[0, 0, 0, 1, 1], [0, 0, 0, 3, 3]], np.float32)
    pooled = np.stack([x[0, :, :2, :2], tiles[0].max((2, 4))])
    for opset in (1, 22):
        yield made_case("MaxRoiPool", opset, [x, rois], [pooled], pooled_shape=[2, 2])
    twice = x.repeat(2, 2).repeat(3, 3)
    scales = np.array([1, 1, 2, 3], np.float32)
    yield made_case("Upsample", 1, [x], [twice], height_scale=2.0, width_scale=3.0)
    yield made_case("Upsample", 7, [x], [twice], scales=scales.tolist())
    yield made_case("Upsample", 9, [x, scales], [twice], constants=[1])
    yield made_case("Resize", 10, [x, scales], [twice], constants=[1])
    row = np.array([[[[1, 2]]]], np.float32)
    wider = np.array([[[[1, 1.5, 2, 2]]]], np.float32)
    scales = np.array([1, 1, 1, 2], np.float32)
    yield made_case("Upsample", 7, [row], [wider], scales=scales.tolist(), mode="linear",
                    label="linear")  # fmt: skip
    yield made_case("Upsample", 9, [row, scales], [wider], constants=[1], mode="linear",
                    label="linear")  # fmt: skip
    yield made_case("Resize", 10, [row, scales], [wider], constants=[1], mode="linear",
                    label="linear")  # fmt: skip
    half = np.array([[[[1, 1.25, 1.75, 2]]]], np.float32)
    for opset in (11, 13, 18, 19):
        # The second input is optional from opset 13 on.
        roi, stored = (np.array([], np.float32), [1, 2]) if opset == 11 else (None, [2])
        yield made_case("Resize", opset, [row, roi, scales], [half], constants=stored,
                        mode="linear")  # fmt: skip
    flat = np.ones((1, 2, 4, 4), np.float32)
    boxes, batch = np.array([[0, 0, 3, 3]], np.float32), ints([0])
    for opset in (10, 16, 22):
        ones = np.ones((1, 2, 2, 2), np.float32)
        yield made_case("RoiAlign", opset, [flat, boxes, batch], [ones],
                        output_height=2, output_width=2, sampling_ratio=2)  # fmt: skip
    ramp = np.tile(np.arange(4, dtype=np.float32), (1, 1, 4, 1))
    samples = np.array([0.375, 1.125, 1.875, 2.625], np.float32)
    by_pairs = samples.reshape(2, 2).mean(1)
    yield made_case("RoiAlign", 10, [ramp, boxes, batch], [np.tile(by_pairs, (1, 1, 2, 1))],
                    output_height=2, output_width=2, sampling_ratio=2, label="ramp")  # fmt: skip


def _recurrences() -> Iterator[Case]:
    x, weights, again = floats(3, 2, 4), floats(1, 5, 4), floats(1, 5, 5)
    state, states = np.zeros((2, 5), np.float32), []
    for step in x:
        state = np.tanh(step @ weights[0].T + state @ again[0].T)
        states.append(state)
    every, last = np.stack(states)[:, None], state[None]
    given = {"hidden_size": 5}
    for opset in (1, 7, 14, 22):
        more = {"output_sequence": 1} if opset == 1 else {}
        yield made_case("RNN", opset, [x, weights, again], [every, last], **given, **more)


def _moves() -> Iterator[Case]:
    data, places, new = floats(3, 3), ints([[1, 0, 2], [0, 2, 1]]), floats(2, 3)
    done = data.copy()
    np.put_along_axis(done, places, new, 0)
    yield made_case("Scatter", 9, [data, places, new], [done])
    for opset in (11, 13, 16, 18):
        yield made_case("ScatterElements", opset, [data, places, new], [done])


def _quantized() -> Iterator[Case]:
    x = floats(3, 4)
    for opset in (10, 13, 17, 19, 21, 23, 24, 25, 28):
        scale, zero = np.array(0.5, np.float32), np.array(10, np.uint8)
        steps = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
        back = (steps.astype(np.float32) - zero) * scale
        yield made_case("QuantizeLinear", opset, [x, scale, zero], [steps])
        yield made_case("DequantizeLinear", opset, [steps, scale, zero], [back])
        yield made_case("DequantizeLinear", opset, [steps, scale], [steps * scale], label="no zero")
        if opset < 13:
            continue
        scales, zeros = np.abs(floats(4)) + 1, np.array([-3, 0, 2, 5], np.int8)
        parts = np.clip(np.rint(x / scales) + zeros, -128, 127).astype(np.int8)
        apart = (parts.astype(np.float32) - zeros) * scales
        yield made_case("QuantizeLinear", opset, [x, scales, zeros], [parts], label="axis", axis=1)
        yield made_case(
            "DequantizeLinear", opset, [parts, scales, zeros], [apart], label="axis", axis=-1
        )


def _drawing() -> Iterator[Case]:
    """Nodes that draw random numbers: their types and shapes are known."""
    x = floats(2, 3)
    form = [(np.float32, (2, 3))]
    for opset in (1, 22):
        for kind in ("RandomNormal", "RandomUniform"):
            yield made_case(kind, opset, [], [None], declared=form, shape=[2, 3])
            yield made_case(f"{kind}Like", opset, [x], [None], declared=form)
    for opset in (7, 22):
        yield made_case(
            "Multinomial", opset, [x], [None], declared=[(np.int32, (2, 5))], sample_size=5
        )
    for opset in (15, 22):
        yield made_case("Bernoulli", opset, [np.abs(x) / 9], [None], declared=form)


def _classical() -> Iterator[Case]:
    """Operators of classical machine learning on tensors of numbers."""
    x = floats(3, 2)
    scale, offset = [2.0, 4.0], [1.0, -1.0]
    scaled = (x - np.array(offset, np.float32)) * np.array(scale, np.float32)
    yield made_case("Scaler", 1, [x], [scaled], domain=ML, scale=scale, offset=offset)
    norm = x / np.abs(x).max(1, keepdims=True)
    yield made_case("Normalizer", 1, [np.abs(x)], [np.abs(norm)], domain=ML, norm="MAX")
    yield made_case("Binarizer", 1, [x], [(x > 0).astype(np.float32)], domain=ML)
    holes = x.copy()
    holes[1, 0] = np.nan
    filled = np.where(np.isnan(holes), np.float32(7), holes)
    yield made_case("Imputer", 1, [holes], [filled], domain=ML, imputed_value_floats=[7.0],
                    replaced_value_float=float("nan"))  # fmt: skip
    coefficients = np.array([1, -2], np.float32)
    line = (x @ coefficients + 3)[:, None]
    yield made_case("LinearRegressor", 1, [x], [line], domain=ML, coefficients=[1.0, -2.0],
                    intercepts=[3.0])  # fmt: skip
    scores = np.concatenate([-line, line], 1)
    yield made_case("LinearClassifier", 1, [x], [ints((line[:, 0] > 0).tolist()), scores],
                    domain=ML, coefficients=[-1.0, 2.0, 1.0, -2.0], intercepts=[-3.0, 3.0],
                    classlabels_ints=[0, 1])  # fmt: skip
    yield made_case("FeatureVectorizer", 1, [x, x[:, :1]], [np.concatenate([x, x[:, :1]], 1)],
                    domain=ML, inputdimensions=[2, 1])  # fmt: skip
    yield made_case("ArrayFeatureExtractor", 1, [x, ints([[1]])], [x[:, 1:]], domain=ML)
    hot = np.array([[[1, 0], [0, 1]]], np.float32)
    yield made_case("OneHotEncoder", 1, [ints([[4, 7]])], [hot], domain=ML, cats_int64s=[4, 7])
    for opset in (1, 3):
        tree = {
            "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
            "nodes_values": [0.0] * 3, "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
            "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
        }  # fmt: skip
        chosen = np.where(x[:, :1] <= 0, np.float32(5), np.float32(6))
        yield made_case("TreeEnsembleRegressor", opset, [x], [chosen], domain=ML, **tree,
                        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0],
                        target_weights=[5.0, 6.0], n_targets=1)  # fmt: skip
        labels = ints((x[:, 0] > 0).astype(int).tolist())
        one_hot = np.eye(2, dtype=np.float32)[labels]
        yield made_case("TreeEnsembleClassifier", opset, [x], [labels, one_hot], domain=ML, **tree,
                        class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 1],
                        class_weights=[1.0, 1.0], classlabels_int64s=[0, 1])  # fmt: skip
    for opset in (2, 4):
        yield made_case("LabelEncoder", opset, [ints(7, 4)], [np.array([2, 1], np.float32)],
                        domain=ML, keys_int64s=[4, 7], values_floats=[1.0, 2.0])  # fmt: skip
    support = np.array([[1, 0], [0, 1]], np.float32)
    weighed = (x @ support.T @ np.array([2, 3], np.float32) + 1)[:, None]
    yield made_case("SVMRegressor", 1, [x], [weighed], domain=ML, kernel_type="LINEAR",
                    kernel_params=[0.0, 0.0, 0.0], coefficients=[2.0, 3.0], n_supports=2, rho=[1.0],
                    support_vectors=support.reshape(-1).tolist())  # fmt: skip
    sides = np.array([[2, 0], [0, 3]], np.float32)
    yield made_case("SVMClassifier", 1, [sides], [None, None], domain=ML,
                    declared=[(np.int64, (2,)), (np.float32, (2, 2))], kernel_type="LINEAR",
                    kernel_params=[0.0, 0.0, 0.0], coefficients=[1.0, -1.0], rho=[0.0],
                    support_vectors=[1.0, 0.0, 0.0, 1.0], vectors_per_class=[1, 1],
                    classlabels_ints=[0, 1])  # fmt: skip


def _bodies() -> Iterator[Case]:
    """Loops whose body has a form that changed."""
    x = floats(2, 3, 4)
    body = onnx.parser.parse_graph("""
        body (int64 turn, bool before, float[2,3,4] a) => (bool after, float[2,3,4] b) {
            after = Identity(before)
            b = Softmax <axis = 1> (a)
        }""")
    for opset in (1, 11, 13, 16, 19, 21, 23, 24, 25):
        found = x
        for _ in range(2):
            found = softmax(found, 1) if opset >= 13 else _flat(softmax, found, 1)
        yield made_case(
            "Loop", opset, [np.array(2), np.array(True), x], [found], constants=[0, 1], body=body
        )


@cache
def old_forms() -> tuple[Case, ...]:
    """Cases of nodes in forms that differ between opsets, with names of their own."""
    groups = (
        _broadcasts, _first_opset, _attributes, _rows, _norms, _products, _windows, _recurrences,
        _moves, _quantized, _drawing, _classical, _bodies,
    )  # fmt: skip
    known = onnx.defs.onnx_opset_version()
    return tuple(case for group in groups for case in group() if case.opset <= known)


# Kind -> the first opset at which a node means what it means in the newest one; random kinds too.
_MEANS_THE_SAME = {
    "BatchNormalization": 7, "Bernoulli": 1000, "Dropout": 1000, "Hardmax": 13, "LogSoftmax": 13,
    "Softmax": 13,
}  # fmt: skip


def lowered_cases() -> Iterator[Case]:
    """ONNX's own cases of single nodes, at every version of the operator that takes the node.

    Of each version there are two opsets: the first that has it, and the last.
    """
    from onnx.backend.test.case.node import collect_testcases

    versions: dict[tuple[str, str], set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        versions.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    newest = {domain: max(onnx.defs.onnx_opset_version() if not domain else 0, *(
        version for (other, _), held in versions.items() if other == domain for version in held
    )) for domain, _ in versions}  # fmt: skip
    for each in collect_testcases(None):
        if len(each.model.graph.node) != 1:
            continue
        (node,) = each.model.graph.node
        held = sorted(versions[node.domain, node.op_type])
        ends = [*(version - 1 for version in held[1:]), newest[node.domain]]
        inputs, results = map(_arrays, each.data_sets[0])
        if inputs is None or results is None:
            continue  # sequences, optional values
        names = [value.name for value in each.model.graph.input]
        for opset in sorted({*held, *ends}):
            model = onnx.ModelProto()
            model.CopyFrom(each.model)
            del model.opset_import[:]
            model.opset_import.append(helper.make_opsetid(node.domain, opset))
            if node.domain:
                model.opset_import.append(helper.make_opsetid("", newest[""]))
            model.ir_version = min(model.ir_version, 10)
            try:
                onnx.checker.check_model(model, full_check=True)
            except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
                continue
            label = f"{node.op_type}-{opset} {each.name}"
            same = opset >= _MEANS_THE_SAME.get(node.op_type, 0)
            expected = results if same else [None] * len(results)
            yield Case(label, model, dict(zip(names, inputs, strict=True)), expected)


def _arrays(values: Sequence[Any]) -> list[Array] | None:
    """Values of a case as arrays; ``None`` if one is none."""
    found = []
    for value in values:
        array = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        if not isinstance(array, (np.ndarray, np.generic, int, float)):
            return None
        found.append(np.asarray(array))
    return found
