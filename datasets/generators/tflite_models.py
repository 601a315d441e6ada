"""Small int8 networks as TFLite files: ``python datasets/generators/tflite_models.py``.

Run by hand, in an environment with ``ai-edge-litert==2.3.0``, whose schema writes the files;
running it twice changes nothing. Weights are random. Scales follow from how far values spread,
layer by layer, as if inputs were standard normal, so that outputs depend on inputs: a network whose
values all clip would not notice that its tensors overwrite one another.

``branches``: a residual block, then two blocks of four branches each, wide before narrow, that are
listed breadth first and concatenated. ``separable``: a chain of depthwise separable convolutions.
``two_inputs``: an image and a vector, each through layers of its own, then both together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

FOLDER = Path(__file__).resolve().parents[1] / "tflite"
# The first version of each operator that takes int8.
_VERSION = {
    "ADD": 2,
    "AVERAGE_POOL_2D": 2,
    "CONCATENATION": 2,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    "LOGISTIC": 2,
    "MAX_POOL_2D": 2,
    "MUL": 2,
    "RESHAPE": 1,
    "SOFTMAX": 2,
}
_RELU = schema.ActivationFunctionType.RELU
_REACH = 4.0  # standard deviations that a scale covers


class Network:
    """A model with one subgraph, and for each tensor the mean square of its values."""

    def __init__(self, name: str, seed: int):
        self.random = np.random.default_rng(seed)
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = name
        self.model.buffers = [schema.BufferT()]  # by convention the first is empty
        self.model.operatorCodes = []
        self.graph = schema.SubGraphT()
        self.graph.name = name
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs = [self.graph]
        self.square: dict[int, float] = {}

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.graph.tensors[tensor].shape)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        scale: Sequence[float],
        zero: int = 0,
        *,
        dtype: int = schema.TensorType.INT8,
        data: np.ndarray | None = None,
    ) -> int:
        made = schema.TensorT()
        made.name, made.shape, made.type = name, [int(extent) for extent in shape], dtype
        made.quantization = schema.QuantizationParametersT()
        made.quantization.scale = [float(value) for value in scale]
        made.quantization.zeroPoint = [zero] * len(scale)
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            made.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def input(self, name: str, shape: Sequence[int]) -> int:
        tensor = self.tensor(name, shape, [_REACH / 127])
        self.square[tensor] = 1.0
        self.graph.inputs.append(tensor)
        return tensor

    def output(self, tensor: int) -> None:
        self.graph.outputs.append(tensor)

    def values(self, name: str, shape: Sequence[int], square: float, *, relu: bool) -> int:
        """A tensor of activations, scaled to hold them; ``square`` before the activation."""
        reach = _REACH * math.sqrt(square)
        tensor = self.tensor(name, shape, [reach / (255 if relu else 127)], -128 if relu else 0)
        self.square[tensor] = square / 2 if relu else square
        return tensor

    def run(self, kind: str, inputs: Sequence[int], output: int, options: Any = None) -> int:
        code = getattr(schema.BuiltinOperator, kind)
        codes = [entry.builtinCode for entry in self.model.operatorCodes]
        if code not in codes:
            entry = schema.OperatorCodeT()
            entry.builtinCode = code
            entry.deprecatedBuiltinCode = min(code, 127)
            entry.version = _VERSION[kind]
            self.model.operatorCodes.append(entry)
            codes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = codes.index(code)
        operator.inputs, operator.outputs = list(inputs), [output]
        if options is not None:
            operator.builtinOptionsType = getattr(
                schema.BuiltinOptions, type(options).__name__.removesuffix("T")
            )
            operator.builtinOptions = options
        self.graph.operators.append(operator)
        return output

    def weights(self, name: str, shape: Sequence[int], axis: int, source: int) -> tuple[int, int]:
        """Weights of one scale a channel and biases that go with them; they keep mean squares."""
        channels = shape[axis]
        taps = math.prod(shape) // channels
        levels = self.random.integers(-127, 128, shape, dtype=np.int8)
        spread = self.random.uniform(0.7, 1.4, channels)
        scale = spread / (127 / math.sqrt(3) * math.sqrt(taps))
        made = self.tensor(f"{name}/weights", shape, scale, data=levels)
        self.graph.tensors[made].quantization.quantizedDimension = axis
        incoming = self.graph.tensors[source].quantization.scale[0]
        reach = math.sqrt(self.square[source]) / 4
        steps = np.round(self.random.normal(0, reach, channels) / (incoming * scale))
        bias = self.tensor(
            f"{name}/bias",
            [channels],
            incoming * scale,
            dtype=schema.TensorType.INT32,
            data=steps.astype(np.int32),
        )
        return made, bias

    def conv(
        self,
        name: str,
        source: int,
        channels: int,
        size: int = 1,
        stride: int = 1,
        relu: bool = True,
    ) -> int:
        _, height, width, depth = self.shape(source)
        parameters = self.weights(name, (channels, size, size, depth), 0, source)
        options = schema.Conv2DOptionsT()
        options.strideH = options.strideW = stride
        options.dilationHFactor = options.dilationWFactor = 1
        options.fusedActivationFunction = _RELU if relu else 0
        shape = (1, -(-height // stride), -(-width // stride), channels)
        square = 1.1 * self.square[source]
        target = self.values(name, shape, square, relu=relu)
        return self.run("CONV_2D", (source, *parameters), target, options)

    def depthwise(self, name: str, source: int, stride: int = 1) -> int:
        _, height, width, depth = self.shape(source)
        parameters = self.weights(name, (1, 3, 3, depth), 3, source)
        options = schema.DepthwiseConv2DOptionsT()
        options.strideH = options.strideW = stride
        options.depthMultiplier = 1
        options.dilationHFactor = options.dilationWFactor = 1
        options.fusedActivationFunction = _RELU
        shape = (1, -(-height // stride), -(-width // stride), depth)
        target = self.values(name, shape, 1.1 * self.square[source], relu=True)
        return self.run("DEPTHWISE_CONV_2D", (source, *parameters), target, options)

    def dense(self, name: str, source: int, units: int, *, relu: bool = False) -> int:
        # One scale for all units: per-channel scales came to this operator later.
        count = self.shape(source)[-1]
        levels = self.random.integers(-127, 128, (units, count), dtype=np.int8)
        scale = math.sqrt(3 / count) / 127
        matrix = self.tensor(f"{name}/weights", levels.shape, [scale], data=levels)
        incoming = self.graph.tensors[source].quantization.scale[0]
        zeros = np.zeros(units, np.int32)
        bias = self.tensor(
            f"{name}/bias", [units], [incoming * scale], dtype=schema.TensorType.INT32, data=zeros
        )
        options = schema.FullyConnectedOptionsT()
        options.fusedActivationFunction = _RELU if relu else 0
        target = self.values(name, (1, units), self.square[source], relu=relu)
        return self.run("FULLY_CONNECTED", (source, matrix, bias), target, options)

    def pool(self, name: str, source: int, size: int, stride: int, *, kind: str = "MAX") -> int:
        _, height, width, depth = self.shape(source)
        same = stride == 1
        options = schema.Pool2DOptionsT()
        options.filterHeight = options.filterWidth = size
        options.strideH = options.strideW = stride
        options.padding = schema.Padding.SAME if same else schema.Padding.VALID
        extents = (height, width) if same else (height // size, width // size)
        target = self._alike(name, source, (1, *extents, depth))
        return self.run(f"{kind}_POOL_2D", (source,), target, options)

    def add(self, name: str, one: int, other: int) -> int:
        options = schema.AddOptionsT()
        options.fusedActivationFunction = _RELU
        square = self.square[one] + self.square[other]
        target = self.values(name, self.shape(one), square, relu=True)
        return self.run("ADD", (one, other), target, options)

    def multiply(self, name: str, one: int, other: int) -> int:
        square = self.square[one] * self.square[other]
        target = self.values(name, self.shape(one), square, relu=False)
        return self.run("MUL", (one, other), target, schema.MulOptionsT())

    def concatenate(self, name: str, parts: Sequence[int]) -> int:
        """Along the last axis; for int8, parts and result have one scale: the widest of them."""
        tensors = [self.graph.tensors[part] for part in parts]
        scale = max(tensor.quantization.scale[0] for tensor in tensors)
        for tensor in tensors:
            tensor.quantization.scale = [scale]
        options = schema.ConcatenationOptionsT()
        options.axis = len(tensors[0].shape) - 1
        depth = sum(tensor.shape[-1] for tensor in tensors)
        target = self._alike(name, parts[0], (*tensors[0].shape[:-1], depth))
        return self.run("CONCATENATION", parts, target, options)

    def flatten(self, name: str, source: int) -> int:
        shape = np.array([1, math.prod(self.shape(source))], np.int32)
        extents = self.tensor(f"{name}/shape", [2], [], dtype=schema.TensorType.INT32, data=shape)
        target = self._alike(name, source, shape)
        options = schema.ReshapeOptionsT()
        options.newShape = shape.tolist()
        return self.run("RESHAPE", (source, extents), target, options)

    def softmax(self, name: str, source: int) -> int:
        options = schema.SoftmaxOptionsT()
        options.beta = 2 / math.sqrt(self.square[source])
        target = self.tensor(name, self.shape(source), [1 / 256], -128)
        return self.run("SOFTMAX", (source,), target, options)

    def logistic(self, name: str, source: int) -> int:
        target = self.tensor(name, self.shape(source), [1 / 256], -128)
        self.square[target] = 0.3
        return self.run("LOGISTIC", (source,), target)

    def _alike(self, name: str, source: int, shape: Sequence[int]) -> int:
        quantization = self.graph.tensors[source].quantization
        target = self.tensor(name, shape, quantization.scale, quantization.zeroPoint[0])
        self.square[target] = self.square[source]
        return target

    def pack(self) -> bytes:
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def branches() -> Network:
    net = Network("branches", seed=1)
    stem = net.conv("stem", net.input("image", (1, 32, 32, 3)), 16, size=3, stride=2)
    wide = net.conv("block1/conv1", stem, 24, size=3)
    last = net.add("block1/add", stem, net.conv("block1/conv2", wide, 16, size=3, relu=False))
    for block in ("block2", "block3"):
        wide = [net.conv(f"{block}/branch{k}/wide", last, 32 + 8 * k) for k in range(3)]
        parts = [net.conv(f"{block}/branch{k}/narrow", w, 12, size=3) for k, w in enumerate(wide)]
        pooled = net.pool(f"{block}/pool", last, 3, 1)
        parts.append(net.conv(f"{block}/projection", pooled, 12))
        last = net.concatenate(f"{block}/concat", parts)
    last = net.pool("pool", last, 4, 4, kind="AVERAGE")
    scores = net.dense("scores", net.flatten("flat", last), 10)
    net.output(net.softmax("probabilities", scores))
    return net


def separable() -> Network:
    net = Network("separable", seed=2)
    last = net.conv("stem", net.input("image", (1, 64, 64, 1)), 8, size=3, stride=2)
    for block, (channels, stride) in enumerate([(16, 1), (32, 2), (32, 1), (64, 2), (64, 1)]):
        last = net.depthwise(f"block{block}/depthwise", last, stride)
        last = net.conv(f"block{block}/pointwise", last, channels)
    last = net.pool("pool", last, 4, 4, kind="AVERAGE")
    scores = net.dense("scores", net.flatten("flat", last), 4)
    net.output(net.softmax("probabilities", scores))
    return net


def two_inputs() -> Network:
    net = Network("two_inputs", seed=3)
    image, vector = net.input("image", (1, 16, 16, 2)), net.input("vector", (1, 24))
    seen = net.conv("image/conv", image, 8, size=3, stride=2)
    seen = net.dense("image/dense", net.flatten("image/flat", seen), 32, relu=True)
    gate = net.logistic("vector/gate", net.dense("vector/dense", vector, 32))
    gated = net.multiply("gated", seen, gate)
    both = net.concatenate("both", [gated, net.dense("vector/side", vector, 16)])
    net.output(net.dense("estimate", both, 3))
    net.output(gate)
    return net


MODELS = (branches, separable, two_inputs)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for make in MODELS:
        (FOLDER / f"{make.__name__}.tflite").write_bytes(make().pack())


if __name__ == "__main__":
    main()
