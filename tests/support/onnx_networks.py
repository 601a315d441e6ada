"""Random image networks in ONNX, with weights, whose ops can run in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class OnnxNetwork:
    """A network in the making: each method adds a node, and returns the name of its result."""

    def __init__(self, seed: int, opset: int = 20):
        self.rng, self.opset = np.random.default_rng(seed), opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape: dict[str, tuple[int, ...]] = {}
        self.zero_point = self._constant(np.array(3, np.int8))
        self.scale = self._constant(np.array(0.05, np.float32))

    def image(self, *shape: int) -> str:
        self.shape["x"] = shape
        return "x"

    def conv(
        self,
        x: str,
        channels: int,
        *,
        taps: Sequence[int] = (3, 3),
        groups: int = 1,
        quantized: bool = False,
        **given: Any,
    ) -> str:
        read = self.shape[x][1]
        weights = self.rng.standard_normal((channels, read // groups, *taps))
        weights /= np.sqrt(weights[0].size)
        attributes = {"group": groups, **given}
        if not quantized:
            bias = self._constant(self.rng.standard_normal(channels).astype(np.float32))
            w = self._constant(weights.astype(np.float32))
            return self._node("Conv", [x, w, bias], **attributes)
        w = self._constant(np.clip(weights * 60, -127, 127).astype(np.int8))
        scales = self._constant(np.full(channels, 1 / 60, np.float32))
        zeros = self._constant(np.zeros(channels, np.int8))
        bias = self._constant(self.rng.integers(-40, 40, channels).astype(np.int32))
        scale, zero = self.scale, self.zero_point
        names = [x, scale, zero, w, scales, zeros, scale, zero, bias]
        return self._node("QLinearConv", names, **attributes)

    def norm(self, x: str) -> str:
        channels = self.shape[x][1]
        vectors = [self.rng.random(channels).astype(np.float32) + np.float32(0.5) for _ in range(4)]
        return self._node("BatchNormalization", [x, *map(self._constant, vectors)])

    def dense(self, x: str, channels: int) -> str:
        flat = self._node("Flatten", [self._node("GlobalAveragePool", [x])])
        weights = self.rng.standard_normal((self.shape[flat][1], channels)).astype(np.float32)
        return self._node("Gemm", [flat, self._constant(weights)])

    def pad(self, x: str, value: float | None = None) -> str:
        given = [] if value is None else [self._constant(np.array(value, np.float32))]
        pads = self._constant(np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64))
        return self._node("Pad", [x, pads, *given])

    def resize(self, x: str, mode: str = "nearest") -> str:
        scales = self._constant(np.array([1, 1, 2, 2], np.float32))
        # Old versions need a region, even if none is used.
        region = "" if self.opset > 11 else self._constant(np.zeros(0, np.float32))
        return self._node("Resize", [x, region, scales], mode=mode, nearest_mode="floor")

    def transposed(self, x: str, channels: int) -> str:
        weights = self.rng.standard_normal((self.shape[x][1], channels, 2, 2)).astype(np.float32)
        return self._node("ConvTranspose", [x, self._constant(weights)], strides=[2, 2])

    def op(self, kind: str, inputs: Sequence[str], **given: Any) -> str:
        return self._node(kind, list(inputs), **given)

    def split(self, x: str, axis: int) -> tuple[str, str]:
        """The first positions along an axis, at most half of them, and the others."""
        extent = self.shape[x][axis]
        sizes = [max(1, extent // 2), extent - max(1, extent // 2)]
        if self.opset < 13:
            first, second = self._nodes("Split", [x], 2, axis=axis, split=sizes)
        else:
            first, second = self._nodes("Split", [x, self._constant(np.array(sizes))], 2, axis=axis)
        return first, second

    def pool_and_places(self, x: str) -> tuple[str, str]:
        """A pool, and the positions of the elements that it chose."""
        y, places = self._nodes("MaxPool", [x], 2, kernel_shape=[2, 2])
        return y, places

    def largest(self, x: str) -> tuple[str, str]:
        """Half of the columns, the largest values of each row, and their positions."""
        count = self._constant(np.array([-(-self.shape[x][3] // 2)]))
        values, places = self._nodes("TopK", [x, count], 2)
        return values, places

    def view(self, x: str, kind: int) -> str:
        """The bytes of a tensor in another shape of four axes; columns are kept, or all axes."""
        batch, channels, rows, columns = self.shape[x]
        if kind == 0:
            return self._node("Identity", [x])
        if kind == 1 and rows % 2 == 0:
            shape = self._constant(np.array([batch, 2 * channels, rows // 2, columns]))
            return self._node("Reshape", [x, shape])
        flat = self._node("Flatten", [x], axis=3)
        shape = self._constant(np.array([batch, channels, rows, columns]))
        return self._node("Reshape", [flat, shape])

    def gelu(self, x: str) -> str:
        """``x (1 + erf(x)) x``: it reads its input several times."""
        one = self._constant(np.array(1, np.float32))
        return self._node(
            "Mul", [self._node("Mul", [x, self._node("Add", [self._node("Erf", [x]), one])]), x]
        )

    def rms_norm(self, x: str) -> str:
        """Rows divided by the root of their mean square."""
        square = self._node("Mul", [x, x])
        if self.opset < 18:
            mean = self._node("ReduceMean", [square], axes=[3])
        else:
            mean = self._node("ReduceMean", [square, self._constant(np.array([3]))])
        small = self._constant(np.array(1e-3, np.float32))
        return self._node("Div", [x, self._node("Sqrt", [self._node("Add", [mean, small])])])

    def quantize(self, x: str) -> str:
        return self._node("QuantizeLinear", [x, self.scale, self.zero_point])

    def dequantize(self, x: str) -> str:
        return self._node("DequantizeLinear", [x, self.scale, self.zero_point])

    def model(self, *outputs: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.shape["x"])]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", inputs, results, self.constants)
        opset = helper.make_opsetid("", self.opset)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
        return onnx.shape_inference.infer_shapes(model)

    def _constant(self, value: np.ndarray) -> str:  # type: ignore[type-arg]
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        self.shape[name] = value.shape
        return name

    def _node(self, kind: str, inputs: list[str], **given: Any) -> str:
        (name,) = self._nodes(kind, inputs, 1, **given)
        return name

    def _nodes(self, kind: str, inputs: list[str], count: int, **given: Any) -> list[str]:
        """Add a node with some outputs; returns their names."""
        names = [f"t{len(self.nodes)}{'abc'[k] if k else ''}" for k in range(count)]
        node = helper.make_node(
            kind, inputs, names, name=f"{kind.lower()}{len(self.nodes)}", **given
        )
        self.nodes.append(node)
        for output in self.model(*names).graph.output:
            shape = output.type.tensor_type.shape.dim
            self.shape[output.name] = tuple(extent.dim_value for extent in shape)
        return names


def random_network(seed: int) -> onnx.ModelProto:
    """Two to nine layers, in floats or partly quantized, with branches, views and results unread.

    A layer may read one tensor twice, and have several outputs. Outputs of the model may be read,
    too.
    """
    quantized = seed % 4 == 0
    net = OnnxNetwork(seed, 20 if quantized else (20, 21, 18, 13, 11)[seed % 5])
    rng = net.rng

    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    x = net.image(1, draw(1, 4), draw(6, 14), draw(6, 12))
    if quantized:
        x = net.quantize(x)
    ends, others = [x], []
    for _ in range(draw(2, 9)):
        x = ends[-1 if draw(0, 3) else -min(2, len(ends))]
        rows = min(net.shape[x][2:])
        alike = [y for y in ends if net.shape[y] == net.shape[x]]
        other = alike[draw(0, len(alike) - 1)]
        kind = draw(0, 13)
        if kind < 4 or (quantized and kind > 6):
            groups = net.shape[x][1] if draw(0, 2) == 0 else 1
            taps = (draw(1, min(3, rows)), draw(1, min(3, rows)))
            given: dict[str, Any] = {"strides": [draw(1, 2), draw(1, 2)]}
            if draw(0, 1):
                given["pads"] = [draw(0, t - 1) for t in taps * 2]
            else:
                given["auto_pad"] = ["SAME_UPPER", "SAME_LOWER"][draw(0, 1)]
            channels = groups * draw(1, 2) if groups > 1 else draw(2, 6)
            made = net.conv(x, channels, taps=taps, groups=groups, quantized=quantized, **given)
        elif kind == 4:
            made = net.op("Concat", [x, other, x][: draw(2, 3)], axis=draw(1, 3))
        elif kind == 5:
            made, unread = net.split(x, draw(1, 3))
            others.append(unread)
        elif kind == 6:
            made = net.view(x, draw(0, 2))
        elif kind < 9:
            made = net.op(["Add", "Mul", "Max", "Sum"][draw(0, 3)], [x, other])
        elif kind == 9:
            made = [net.gelu, net.rms_norm, net.norm][draw(0, 2)](x)
        elif kind == 10 and rows > 1:
            pool = ["MaxPool", "AveragePool"][draw(0, 1)]
            made = net.op(pool, [x], kernel_shape=[2, 2], strides=[2, 1], pads=[1, 0, 0, 1])
        elif kind == 11:
            made, unread = net.pool_and_places(x) if rows > 1 and draw(0, 1) else net.largest(x)
            others.append(unread)
        elif kind == 12:
            made = [net.pad, net.resize][draw(0, 1)](x)
        elif kind == 13 and draw(0, 1):
            made = net.transposed(x, draw(1, 3))
        else:
            made = net.op(["Relu", "Sigmoid", "Neg"][draw(0, 2)], [x])
        ends.append(made)
    last = net.dequantize(ends[-1]) if quantized else ends[-1]
    outputs = [net.dense(last, 5)] if draw(0, 1) else [last]
    read = {name for node in net.nodes for name in node.input}
    loose = [y for y in (*ends[1:], *others) if y not in outputs]
    loose = [y for y in dict.fromkeys(loose) if draw(0, 4 if y in read else 1) == 0]
    return net.model(*outputs, *loose)
