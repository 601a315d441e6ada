"""Random image networks in ONNX, with weights, whose ops can run in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 20


class OnnxNetwork:
    """A network in the making: each method adds a node, and returns the name of its result."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
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
        return self._node("Resize", [x, "", scales], mode=mode, nearest_mode="floor")

    def transposed(self, x: str, channels: int) -> str:
        weights = self.rng.standard_normal((self.shape[x][1], channels, 2, 2)).astype(np.float32)
        return self._node("ConvTranspose", [x, self._constant(weights)], strides=[2, 2])

    def op(self, kind: str, inputs: Sequence[str], **given: Any) -> str:
        return self._node(kind, list(inputs), **given)

    def quantize(self, x: str) -> str:
        return self._node("QuantizeLinear", [x, self.scale, self.zero_point])

    def dequantize(self, x: str) -> str:
        return self._node("DequantizeLinear", [x, self.scale, self.zero_point])

    def model(self, *outputs: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.shape["x"])]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", inputs, results, self.constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
        return onnx.shape_inference.infer_shapes(model)

    def _constant(self, value: np.ndarray) -> str:  # type: ignore[type-arg]
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        self.shape[name] = value.shape
        return name

    def _node(self, kind: str, inputs: list[str], **given: Any) -> str:
        name = f"t{len(self.nodes)}"
        node = helper.make_node(
            kind, inputs, [name], name=f"{kind.lower()}{len(self.nodes)}", **given
        )
        self.nodes.append(node)
        model = self.model(name)
        (output,) = model.graph.output
        self.shape[name] = tuple(d.dim_value for d in output.type.tensor_type.shape.dim)
        return name


def random_network(seed: int) -> onnx.ModelProto:
    """Two to seven layers, in floats or partly quantized, with branches."""
    net = OnnxNetwork(seed)
    rng = net.rng

    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    x = net.image(1, draw(1, 4), draw(6, 14), draw(6, 12))
    quantized = bool(draw(0, 3) == 0)
    if quantized:
        x = net.quantize(x)
    ends = [x]
    for _ in range(draw(2, 7)):
        x = ends[-1 if draw(0, 3) else -min(2, len(ends))]
        rows = min(net.shape[x][2:])
        kind = draw(0, 9)
        others = [y for y in ends if net.shape[y] == net.shape[x] and y != x]
        if quantized or kind < 4 or rows < 3:
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
            made = net.op("Relu", [x])
        elif kind == 5 and others:
            made = net.op("Add", [x, others[draw(0, len(others) - 1)]])
        elif kind == 6 and others:
            made = net.op("Concat", [x, others[0]], axis=1)
        elif kind == 7:
            pool = ["MaxPool", "AveragePool"][draw(0, 1)]
            made = net.op(pool, [x], kernel_shape=[2, 2], strides=[2, 1], pads=[1, 0, 0, 1])
        elif kind == 8:
            made = [net.norm, net.pad, net.resize][draw(0, 2)](x)
        else:
            made = net.transposed(x, draw(1, 3)) if draw(0, 1) else net.op("Sigmoid", [x])
        ends.append(made)
    last = net.dequantize(ends[-1]) if quantized else ends[-1]
    outputs = [net.dense(last, 5)] if draw(0, 1) else [last]
    read = {name for node in net.nodes for name in node.input}
    loose = [y for y in ends[1:] if y not in read and y not in outputs]
    return net.model(*outputs, *loose)
