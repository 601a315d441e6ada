"""TFLite subgraphs under construction: one method a layer, with random weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from support.tflite_networks import FLOAT32, INT32, Model, Subgraph, schema

INT8, INT16, INT4, INT64 = (
    getattr(schema.TensorType, name) for name in ("INT8", "INT16", "INT4", "INT64")
)
# How far int8 and int16 values reach: four standard deviations.
_SCALE = {INT8: 4 / 128, INT16: 4 / 32768}
# Versions of operators that take integers, those that differ from 2.
_VERSIONS = {
    "ADD_N": 1,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    "IF": 1,
    "READ_VARIABLE": 1,
    "RESHAPE": 1,
    "TRANSPOSE_CONV": 3,
}


class Net:
    """A subgraph under construction, whose activations are all of one type and scale."""

    def __init__(self, subgraph: Subgraph, dtype: int = FLOAT32, seed: int = 0):
        self.subgraph, self.dtype = subgraph, dtype
        self.scale = _SCALE.get(dtype)
        self.random = np.random.default_rng(seed)

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.subgraph.made.tensors[tensor].shape)

    def input(self, name: str, shape: Sequence[int]) -> int:
        return self.subgraph.input(name, list(shape), self.dtype, scale=self.scale)

    def output(self, *tensors: int) -> None:
        self.subgraph.made.outputs += tensors

    def tensor(self, name: str, shape: Sequence[int], **named: Any) -> int:
        scale = named.pop("scale", self.scale)
        return self.subgraph.tensor(name, list(shape), self.dtype, scale=scale, **named)

    def numbers(self, name: str, values: Sequence[int] | int) -> int:
        """A constant of 32-bit integers: axes, shapes, paddings."""
        data = np.array(values, np.int32)
        return self.subgraph.tensor(name, list(data.shape), INT32, data=data)

    def run(
        self,
        kind: str,
        name: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        options: Any = None,
        **named: Any,
    ) -> int:
        made = self.tensor(name, shape, **named)
        version = _VERSIONS.get(kind, 2) if self.dtype != FLOAT32 else 1
        self.subgraph.run(kind, list(inputs), [made], options, version)
        return made

    def weights(self, name: str, shape: Sequence[int], axis: int, dtype: int | None = None) -> int:
        """Random weights that keep the spread of values, one scale a channel if quantized."""
        channels = shape[axis]
        spread = math.sqrt(channels / math.prod(shape))
        if self.dtype == FLOAT32:
            data = self.random.normal(0, spread, shape).astype(np.float32)
            return self.subgraph.tensor(name, list(shape), FLOAT32, data=data)
        if dtype == INT4:
            levels = self.random.integers(-7, 8, math.prod(shape), dtype=np.int8)
            halves = np.append(levels, np.zeros(levels.size % 2, np.int8)).reshape(-1, 2) & 15
            data, step = (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8), spread / 4
        else:
            data = self.random.integers(-127, 128, shape, dtype=np.int8)
            step = spread * math.sqrt(3) / 127
        dtype = INT8 if dtype is None else dtype
        return self.subgraph.tensor(
            name, list(shape), dtype, data=data, scale=[step] * channels, axis=axis
        )

    def bias(self, name: str, weights: int, channels: int) -> int:
        if self.dtype == FLOAT32:
            data = self.random.normal(0, 0.25, channels).astype(np.float32)
            return self.subgraph.tensor(name, [channels], FLOAT32, data=data)
        assert self.scale is not None
        scales = self.subgraph.made.tensors[weights].quantization.scale
        scale = [self.scale * scales[0]] * len(scales)
        wide = self.dtype == INT16
        levels = np.round(self.random.normal(0, 0.25, channels) / scale[0])
        data = levels.astype(np.int64 if wide else np.int32)
        dtype = INT64 if wide else INT32
        return self.subgraph.tensor(name, [channels], dtype, data=data, scale=scale)

    def conv(
        self,
        name: str,
        x: int,
        channels: int,
        size: int = 3,
        stride: int = 1,
        *,
        packed: bool = False,
    ) -> int:
        batch, height, width, depth = self.shape(x)
        shape = (channels, size, size, depth)
        weights = self.weights(f"{name}/weights", shape, 0, INT4 if packed else None)
        options = schema.Conv2DOptionsT()
        options.strideH = options.strideW = stride
        options.dilationHFactor = options.dilationWFactor = 1
        inputs = (x, weights, self.bias(f"{name}/bias", weights, channels))
        extents = (batch, -(-height // stride), -(-width // stride), channels)
        return self.run("CONV_2D", name, inputs, extents, options)

    def depthwise(self, name: str, x: int, *, packed: bool = False) -> int:
        shape = self.shape(x)
        kernel = (1, 3, 3, shape[-1])
        weights = self.weights(f"{name}/weights", kernel, 3, INT4 if packed else None)
        options = schema.DepthwiseConv2DOptionsT()
        options.strideH = options.strideW = options.depthMultiplier = 1
        options.dilationHFactor = options.dilationWFactor = 1
        inputs = (x, weights, self.bias(f"{name}/bias", weights, shape[-1]))
        return self.run("DEPTHWISE_CONV_2D", name, inputs, shape, options)

    def upconv(self, name: str, x: int, channels: int, stride: int = 2) -> int:
        """A transposed convolution."""
        batch, height, width, depth = self.shape(x)
        extents = (batch, stride * height, stride * width, channels)
        weights = self.weights(f"{name}/weights", (channels, stride, stride, depth), 0)
        options = schema.TransposeConvOptionsT()
        options.strideH = options.strideW = stride
        inputs = (
            self.numbers(f"{name}/shape", extents),
            weights,
            x,
            self.bias(f"{name}/bias", weights, channels),
        )
        return self.run("TRANSPOSE_CONV", name, inputs, extents, options)

    def dense(
        self, name: str, x: int, units: int, *, packed: bool = False, keeps_axes: bool = False
    ) -> int:
        count = self.shape(x)[-1]
        # One scale for all units: per-channel scales came to this operator later.
        weights = self.weights(f"{name}/weights", (units, count), 0, INT4 if packed else None)
        quantization = self.subgraph.made.tensors[weights].quantization
        if quantization is not None:
            quantization.scale, quantization.zeroPoint = quantization.scale[:1], [0]
        inputs = (x, weights, self.bias(f"{name}/bias", weights, units))
        options = schema.FullyConnectedOptionsT()
        options.keepNumDims = keeps_axes
        rows = self.shape(x)[:-1] if keeps_axes else (math.prod(self.shape(x)) // count,)
        shape = (*rows, units)
        return self.run("FULLY_CONNECTED", name, inputs, shape, options)

    def pool(self, name: str, x: int, kind: str = "MAX") -> int:
        batch, height, width, depth = self.shape(x)
        options = schema.Pool2DOptionsT()
        options.filterHeight = options.filterWidth = options.strideH = options.strideW = 2
        shape = (batch, height // 2, width // 2, depth)
        return self.run(f"{kind}_POOL_2D", name, (x,), shape, options)

    def reduce(self, kind: str, name: str, x: int, axes: Sequence[int]) -> int:
        shape = [n for k, n in enumerate(self.shape(x)) if k not in axes]
        options = schema.ReducerOptionsT()
        return self.run(kind, name, (x, self.numbers(f"{name}/axes", axes)), shape, options)

    def add(self, name: str, one: int, other: int) -> int:
        return self.run("ADD", name, (one, other), self.shape(one), schema.AddOptionsT())

    def combine(self, kind: str, name: str, one: int, other: int) -> int:
        """Element by element; ``kind`` is ``ADD``, ``MUL`` or ``MAXIMUM``."""
        options = {"ADD": schema.AddOptionsT, "MUL": schema.MulOptionsT}
        made = options.get(kind, schema.MaximumMinimumOptionsT)()
        return self.run(kind, name, (one, other), self.shape(one), made)

    def split(self, name: str, x: int, parts: int, axis: int) -> list[int]:
        """Parts of equal extent."""
        shape = [n // parts if k == axis else n for k, n in enumerate(self.shape(x))]
        made = [self.tensor(f"{name}/{k}", shape) for k in range(parts)]
        options = schema.SplitOptionsT()
        options.numSplits = parts
        inputs = [self.numbers(f"{name}/axis", axis), x]
        version = 2 if self.dtype != FLOAT32 else 1
        self.subgraph.run("SPLIT", inputs, made, options, version)
        return made

    def relu(self, name: str, x: int) -> int:
        return self.run("RELU", name, (x,), self.shape(x))

    def reshape(self, name: str, x: int, shape: Sequence[int]) -> int:
        inputs = (x, self.numbers(f"{name}/shape", shape))
        return self.run("RESHAPE", name, inputs, shape, schema.ReshapeOptionsT())

    def concatenate(self, name: str, parts: Sequence[int], axis: int = -1) -> int:
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        options = schema.ConcatenationOptionsT()
        options.axis = axis % len(shape)
        return self.run("CONCATENATION", name, parts, shape, options)

    def matmul(self, name: str, one: int, other: int, *, transposed: bool = False) -> int:
        options = schema.BatchMatMulOptionsT()
        options.adjY = transposed
        units = self.shape(other)[-2 if transposed else -1]
        return self.run("BATCH_MATMUL", name, (one, other), (*self.shape(one)[:-1], units), options)

    def softmax(self, name: str, x: int) -> int:
        options = schema.SoftmaxOptionsT()
        options.beta = 1.0
        if self.dtype == INT8:
            return self.run("SOFTMAX", name, (x,), self.shape(x), options, scale=1 / 256, zero=-128)
        return self.run("SOFTMAX", name, (x,), self.shape(x), options)

    def svdf(self, name: str, x: int, units: int, rank: int, memory: int) -> int:
        batch, size = self.shape(x)
        filters = units * rank
        options = schema.SVDFOptionsT()
        options.rank = rank
        if self.dtype != FLOAT32:
            # LiteRT runs no other of int8.
            options.fusedActivationFunction = schema.ActivationFunctionType.RELU
        if self.dtype == FLOAT32:
            feature = self.weights(f"{name}/feature", (filters, size), 0)
            time = self.weights(f"{name}/time", (filters, memory), 0)
            bias = self.bias(f"{name}/bias", feature, units)
            state = self.tensor(f"{name}/state", (batch, memory * filters), variable=True)
            return self.run("SVDF", name, (x, feature, time, bias, state), (batch, units), options)
        feature = self.weights(f"{name}/feature", (filters, size), 0)
        self.subgraph.made.tensors[feature].quantization.scale = [1 / 512]
        self.subgraph.made.tensors[feature].quantization.zeroPoint = [0]
        data = self.random.integers(-(2**12), 2**12, (filters, memory), dtype=np.int16)
        time = self.subgraph.tensor(
            f"{name}/time", [filters, memory], INT16, data=data, scale=1 / 8192
        )
        state_scale = 1 / 2048
        levels = self.random.integers(-(2**20), 2**20, units, dtype=np.int32)
        bias = self.subgraph.tensor(
            f"{name}/bias", [units], INT32, data=levels, scale=state_scale / 8192
        )
        state = self.subgraph.tensor(
            f"{name}/state", [batch, memory * filters], INT16, variable=True, scale=state_scale
        )
        return self.run("SVDF", name, (x, feature, time, bias, state), (batch, units), options)

    def lstm(self, name: str, x: int, units: int) -> int:
        """An LSTM over the second axis, with its state in variables."""
        batch, steps, size = self.shape(x)
        inputs = [-1] * 24
        inputs[0] = x
        gates = ("input", "forget", "cell", "output")
        for k, gate in enumerate(gates):
            for start, count, what in ((1, size, "kernel"), (5, units, "recurrent")):
                number = self.weights(f"{name}/{gate}/{what}", (units, count), 0)
                quantization = self.subgraph.made.tensors[number].quantization
                if quantization is not None:
                    quantization.scale, quantization.zeroPoint = quantization.scale[:1], [0]
                inputs[start + k] = number
            inputs[12 + k] = self.bias(f"{name}/{gate}/bias", inputs[1 + k], units)
        hidden_scale = self.scale
        cell = FLOAT32 if self.dtype == FLOAT32 else INT16
        inputs[18] = self.tensor(
            f"{name}/hidden", (batch, units), variable=True, scale=hidden_scale
        )
        inputs[19] = self.subgraph.tensor(
            f"{name}/cell", [batch, units], cell, variable=True,
            scale=None if cell == FLOAT32 else 2.0**-11,
        )  # fmt: skip
        options = schema.UnidirectionalSequenceLSTMOptionsT()
        options.fusedActivationFunction = schema.ActivationFunctionType.TANH
        shape = (batch, steps, units)
        made = self.run("UNIDIRECTIONAL_SEQUENCE_LSTM", name, inputs, shape, options)
        if self.dtype != FLOAT32:
            # Scales of what the kernel holds in between, on tensors without elements.
            self.subgraph.made.operators[-1].intermediates = [
                self.tensor(f"{name}/intermediate{k}", (0,)) for k in range(5)
            ]
        return made


def new_net(name: str, dtype: int = FLOAT32) -> tuple[Model, Net]:
    """A model with one empty subgraph."""
    model = Model()
    return model, Net(model.subgraph(name), dtype, seed=len(name))
