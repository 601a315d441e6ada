"""TFLite models of many kinds, each small: their outputs depend on their inputs.

Weights are random, scales such that few values clip. TFLite Micro's reference kernels run all of
them; made with ``ai-edge-litert``, whose schema packs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from support.tflite_networks import BOOL, FLOAT32, INT32, Model, Subgraph, schema

INT8, INT16, INT4, INT64 = (
    getattr(schema.TensorType, name) for name in ("INT8", "INT16", "INT4", "INT64")
)
_NUMPY = {FLOAT32: np.float32, INT8: np.int8, INT16: np.int16, INT32: np.int32}
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

    def dense(self, name: str, x: int, units: int, *, packed: bool = False) -> int:
        count = self.shape(x)[-1]
        # One scale for all units: per-channel scales came to this operator later.
        weights = self.weights(f"{name}/weights", (units, count), 0, INT4 if packed else None)
        quantization = self.subgraph.made.tensors[weights].quantization
        if quantization is not None:
            quantization.scale, quantization.zeroPoint = quantization.scale[:1], [0]
        inputs = (x, weights, self.bias(f"{name}/bias", weights, units))
        options = schema.FullyConnectedOptionsT()
        shape = (math.prod(self.shape(x)) // count, units)
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


def _net(name: str, dtype: int = FLOAT32) -> tuple[Model, Net]:
    model = Model()
    return model, Net(model.subgraph(name), dtype, seed=len(name))


def segmentation(dtype: int) -> bytes:
    """A U-Net: convolutions down, transposed ones up, joined with what they came from."""
    model, net = _net("segmentation", dtype)
    x = net.input("image", (1, 16, 16, 2))
    high = net.relu("high", net.conv("high/conv", x, 8))
    middle = net.relu("middle", net.conv("middle/conv", net.pool("pool1", high), 12))
    low = net.relu("low", net.conv("low/conv", net.pool("pool2", middle), 16))
    up = net.concatenate("up1/both", [net.upconv("up1", low, 12), middle])
    up = net.conv("up1/conv", up, 8)
    up = net.concatenate("up2/both", [net.upconv("up2", up, 8), high])
    net.output(net.conv("classes", up, 3, size=1))
    return model.pack()


def keyword_stream(dtype: int) -> bytes:
    """Two SVDF layers, which remember the inputs before, and a classifier."""
    model, net = _net("keyword_stream", dtype)
    x = net.input("frame", (1, 20))
    x = net.svdf("svdf1", x, 16, 2, 5)
    x = net.svdf("svdf2", x, 8, 1, 4)
    net.output(net.softmax("scores", net.dense("dense", x, 4)))
    return model.pack()


def lstm(dtype: int) -> bytes:
    """An LSTM over six steps; the last output, through a dense layer."""
    model, net = _net("lstm", dtype)
    x = net.input("frames", (1, 6, 10))
    x = net.lstm("lstm", x, 12)
    net.output(net.dense("scores", net.reshape("flat", x, (1, 72)), 5))
    return model.pack()


def pooled(dtype: int) -> bytes:
    """Convolutions, then the mean over all places, and the sum and maximum beside it."""
    model, net = _net("pooled", dtype)
    x = net.relu("stem", net.conv("stem/conv", net.input("image", (1, 8, 8, 3)), 16))
    mean = net.reduce("MEAN", "mean", x, (1, 2))
    most = net.reduce("REDUCE_MAX", "most", x, (1, 2))
    rows = net.reduce("SUM", "sum", net.reduce("MEAN", "columns", x, (2,)), (1,))
    both = net.concatenate("both", [mean, most, rows])
    net.output(net.dense("scores", both, 4))
    return model.pack()


def packed_weights() -> bytes:
    """Weights of four bits, which the kernels unpack: a convolution, a depthwise one, a dense."""
    model, net = _net("packed_weights", INT8)
    x = net.conv("stem", net.input("image", (1, 8, 8, 4)), 16, packed=True)
    x = net.relu("relu", net.depthwise("depthwise", x, packed=True))
    x = net.reshape("flat", net.pool("pool", x, "AVERAGE"), (1, 256))
    net.output(net.dense("scores", x, 6, packed=True))
    return model.pack()


def attention(dtype: int) -> bytes:
    """One head of attention over eight tokens, with a residual connection."""
    model, net = _net("attention", dtype)
    x = net.input("tokens", (1, 8, 16))
    row = net.reshape("rows", x, (8, 16))
    query, key, value = (
        net.reshape(f"{name}/heads", net.dense(name, row, 16), (1, 8, 16))
        for name in ("query", "key", "value")
    )
    scores = net.softmax("weights", net.matmul("scores", query, key, transposed=True))
    net.output(net.add("sum", x, net.matmul("mixed", scores, value)))
    return model.pack()


def ensemble(dtype: int) -> bytes:
    """Four dense layers of one input, summed by one operator."""
    model, net = _net("ensemble", dtype)
    x = net.input("x", (1, 24))
    parts = [net.dense(f"part{k}", x, 12) for k in range(4)]
    net.output(net.relu("y", net.run("ADD_N", "sum", parts, (1, 12), schema.AddNOptionsT())))
    return model.pack()


def super_resolution(dtype: int) -> bytes:
    """Channels to places, beside the nearest neighbours."""
    model, net = _net("super_resolution", dtype)
    x = net.input("image", (1, 8, 8, 2))
    deep = net.conv("deep", net.relu("relu", net.conv("wide", x, 12)), 8)
    options = schema.DepthToSpaceOptionsT()
    options.blockSize = 2
    fine = net.run("DEPTH_TO_SPACE", "fine", (deep,), (1, 16, 16, 2), options)
    near = net.run(
        "RESIZE_NEAREST_NEIGHBOR", "near", (x, net.numbers("size", (16, 16))), (1, 16, 16, 2),
        schema.ResizeNearestNeighborOptionsT(),
    )  # fmt: skip
    net.output(net.add("sum", fine, near))
    return model.pack()


def shuffled(dtype: int) -> bytes:
    """Padded, cut in two, one half turned about, and joined again."""
    model, net = _net("shuffled", dtype)
    x = net.input("image", (1, 6, 6, 4))
    padded = net.run(
        "PAD", "padded", (x, net.numbers("pads", [[0, 0], [1, 1], [1, 1], [0, 0]])), (1, 8, 8, 4),
        schema.PadOptionsT(),
    )  # fmt: skip
    halves = [net.tensor(f"half{k}", (1, 8, 8, 2)) for k in range(2)]
    options = schema.SplitOptionsT()
    options.numSplits = 2
    net.subgraph.run("SPLIT", [net.numbers("axis", 3), padded], halves, options)
    turned = net.run(
        "TRANSPOSE", "turned", (halves[1], net.numbers("perm", (0, 2, 1, 3))), (1, 8, 8, 2),
        schema.TransposeOptionsT(),
    )  # fmt: skip
    joined = net.concatenate("joined", [turned, halves[0]])
    net.output(net.pool("pool", net.conv("conv", joined, 8), "AVERAGE"))
    return model.pack()


def branching(dtype: int) -> bytes:
    """An ``IF``: the mean over all places, or a convolution and then the maximum."""
    model, net = _net("branching", dtype)
    condition = net.subgraph.input("c", [1], BOOL)
    x = net.relu("stem", net.input("image", (1, 6, 6, 8)))
    options = schema.IfOptionsT()
    options.thenSubgraphIndex, options.elseSubgraphIndex = 1, 2
    chosen = net.run("IF", "chosen", (condition, x), (1, 8), options)
    net.output(net.dense("scores", chosen, 4))
    then = Net(model.subgraph("then"), dtype)
    then.output(then.reduce("MEAN", "mean", then.input("x", (1, 6, 6, 8)), (1, 2)))
    other = Net(model.subgraph("else"), dtype)
    conv = other.upconv("up", other.input("x", (1, 6, 6, 8)), 8)
    other.output(other.reduce("REDUCE_MAX", "most", conv, (1, 2)))
    return model.pack()


def looping(dtype: int) -> bytes:
    """A ``WHILE``: halves the mean that a state gets from its last, four times."""
    model, net = _net("looping", dtype)
    count = net.subgraph.input("count", [1], INT32)
    x = net.input("x", (1, 4, 4, 6))
    ends = [net.subgraph.tensor("counted", [1], INT32), net.tensor("ended", (1, 4, 4, 6))]
    options = schema.WhileOptionsT()
    options.condSubgraphIndex, options.bodySubgraphIndex = 1, 2
    net.subgraph.run("WHILE", [count, x], ends, options)
    net.output(*ends)
    condition = Net(model.subgraph("condition"), dtype)
    seen = condition.subgraph.input("count", [1], INT32)
    condition.input("x", (1, 4, 4, 6))
    less = condition.subgraph.tensor("less", [1], BOOL)
    condition.subgraph.run("LESS", [seen, condition.numbers("four", [4])], [less])
    condition.output(less)
    body = Net(model.subgraph("body"), dtype)
    seen, x = body.subgraph.input("count", [1], INT32), body.input("x", (1, 4, 4, 6))
    following = body.subgraph.tensor("following", [1], INT32)
    body.subgraph.run("ADD", [seen, body.numbers("one", [1])], [following], schema.AddOptionsT())
    mean = body.reshape("mean/places", body.reduce("MEAN", "mean", x, (1, 2)), (1, 1, 1, 6))
    body.output(following, body.add("moved", x, mean))
    return model.pack()


def delay_line(dtype: int) -> bytes:
    """A stream through a resource variable: the last frames, joined with the new, convolved."""
    model, net = _net("delay_line", dtype)
    x = net.input("frame", (1, 1, 4, 2))
    once = schema.CallOnceOptionsT()
    once.initSubgraphIndex = 1
    net.subgraph.run("CALL_ONCE", [], [], once)
    starts = Net(model.subgraph("starts"), dtype)
    zeros = np.zeros((1, 3, 4, 2), _NUMPY[dtype])
    empty = starts.tensor("zeros", (1, 3, 4, 2), data=zeros)
    handles = []
    for inner in (net, starts):
        options = schema.VarHandleOptionsT()
        options.container, options.sharedName = "", "frames"
        handles.append(inner.subgraph.tensor("handle", [1], schema.TensorType.RESOURCE))
        inner.subgraph.run("VAR_HANDLE", [], handles[-1:], options)
    starts.subgraph.run("ASSIGN_VARIABLE", [handles[1], empty], [], schema.AssignVariableOptionsT())
    before = net.run(
        "READ_VARIABLE", "before", handles[:1], (1, 3, 4, 2), schema.ReadVariableOptionsT()
    )
    frames = net.concatenate("frames", [before, x], axis=1)
    options = schema.SliceOptionsT()
    last = net.run(
        "SLICE", "last",
        (frames, net.numbers("from", (0, 1, 0, 0)), net.numbers("count", (1, 3, 4, 2))),
        (1, 3, 4, 2), options,
    )  # fmt: skip
    net.subgraph.run("ASSIGN_VARIABLE", [handles[0], last], [], schema.AssignVariableOptionsT())
    net.output(net.reduce("MEAN", "mean", net.conv("conv", frames, 6), (1, 2)))
    return model.pack()


def ring() -> bytes:
    """A stream through TFLite Micro's own operator, which keeps the last frames in a variable."""
    model, net = _net("ring", INT8)
    frame = net.conv("embedded", net.input("frame", (1, 1, 1, 12)), 8, size=1)
    frames = net.tensor("frames", (1, 4, 1, 8), variable=True)
    net.subgraph.run("CIRCULAR_BUFFER", [frame], [frames])
    built = flexbuffers.Builder()
    with built.Map():
        built.Key("cycles_max")
        built.Int(1)
    net.subgraph.made.operators[-1].customOptions = np.frombuffer(bytes(built.Finish()), np.uint8)
    net.output(net.reduce("MEAN", "mean", net.conv("conv", frames, 6), (1, 2)))
    return model.pack()


def random_network(seed: int) -> bytes:
    """A network of eight to sixteen layers that branches, of kinds with scratch memory and without.

    Every activation is an image; what nothing else reads is summed up at the end.
    """
    draw = np.random.default_rng(seed)
    model, net = _net("random", (FLOAT32, INT8)[seed % 2])
    shape = (1, 6, 6, 4)
    made, read = [net.input(f"x{k}", shape) for k in range(1 + seed % 3)], set()
    for k in range(int(draw.integers(8, 17))):
        name = f"layer{k}"
        x, other = (made[-1 - min(int(draw.geometric(0.5)) - 1, len(made) - 1)] for _ in "xy")
        kind = draw.choice(
            ["conv", "packed", "up", "mean", "most", "mirror", "add", "relu", "add_n"]
        )
        if kind in ("conv", "packed"):
            packed = kind == "packed" and net.dtype == INT8
            y = net.conv(name, x, 4, packed=packed)
        elif kind == "up":
            y = net.pool(name, net.upconv(f"{name}/up", x, 4))
        elif kind in ("mean", "most"):
            reduced = net.reduce("MEAN" if kind == "mean" else "REDUCE_MAX", name, x, (1,))
            y = net.add(f"{name}/sum", x, net.reshape(f"{name}/row", reduced, (1, 1, 6, 4)))
        elif kind == "mirror":
            pads = net.numbers(f"{name}/pads", [[0, 0], [1, 1], [1, 1], [0, 0]])
            wide = net.run("MIRROR_PAD", f"{name}/wide", (x, pads), (1, 8, 8, 4),
                           schema.MirrorPadOptionsT())  # fmt: skip
            places = (net.numbers(f"{name}/{k}", v) for k, v in enumerate(((0, 2, 0, 0), shape)))
            y = net.run("SLICE", name, (wide, *places), shape, schema.SliceOptionsT())
        elif kind == "relu":
            y = net.relu(name, x)
        elif kind == "add_n" and other != x:
            y = net.run("ADD_N", name, (x, other, x), shape, schema.AddNOptionsT())
        else:
            y = net.add(name, x, other)
        read |= {x, other} if kind in ("add", "add_n") else {x}
        made.append(y)
    ends = [y for y in made if y not in read] + [made[0]]
    total = ends[0]
    for k, y in enumerate(ends[1:]):
        total = net.add(f"total{k}", total, y)
    net.output(total)
    return model.pack()


MODELS: dict[str, Callable[[], bytes]] = {
    f"{make.__name__}_{name}": (lambda make=make, dtype=dtype: make(dtype))
    for make in (
        segmentation,
        keyword_stream,
        lstm,
        pooled,
        attention,
        ensemble,
        super_resolution,
        shuffled,
        branching,
        looping,
        delay_line,
    )
    for name, dtype in (("float", FLOAT32), ("int8", INT8))
} | {
    "segmentation_int16": lambda: segmentation(INT16),
    "packed_weights": packed_weights,
    "ring": ring,
}


def one_operator(
    kind: str,
    dtype: int,
    shapes: Sequence[Sequence[int]],
    results: Sequence[Sequence[int]],
    numbers: Sequence[Any] = (),
    options: dict[str, Any] | None = None,
    result: int | None = None,
) -> bytes:
    """One operator: inputs of these shapes, then constants, to results of these shapes.

    ``options`` names its table, without the ``OptionsT``, and its fields.
    """
    model, net = _net(kind, dtype)
    inputs = [net.input(f"x{k}", shape) for k, shape in enumerate(shapes)]
    inputs += [net.numbers(f"number{k}", values) for k, values in enumerate(numbers)]
    if result is None:
        scale = None if net.scale is None else 1 / 128 if kind in _UNIT else net.scale
        zero = 127 if kind == "LOG_SOFTMAX" and net.scale else 0
        scale = 16 / 256 if zero else scale
        outputs = [net.tensor(f"y{k}", s, scale=scale, zero=zero) for k, s in enumerate(results)]
    else:
        outputs = [net.subgraph.tensor(f"y{k}", list(s), result) for k, s in enumerate(results)]
    made = None
    if options is not None:
        made = getattr(schema, f"{options['table']}OptionsT")()
        for field, value in options.items():
            setattr(made, field, value)
    net.subgraph.run(kind, inputs, outputs, made, 1 if dtype == FLOAT32 else 2)
    net.output(*outputs)
    return model.pack()


# Kinds whose results lie between -1 and 1.
_UNIT = ("L2_NORMALIZATION",)
_COMPARISONS = "EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL".split()  # noqa: SIM905
# Kind, shapes of inputs and results, constants, options, type of the results if another.
OPERATORS: list[tuple[Any, ...]] = [
    *((kind, [(1, 8)] * 2, [(1, 8)], (), None, BOOL) for kind in _COMPARISONS),
    ("ARG_MAX", [(1, 4, 8)], [(1, 4)], [2], {"table": "ArgMax", "outputType": INT32}, INT32),
    ("ARG_MIN", [(1, 4, 8)], [(1, 4)], [2], {"table": "ArgMin", "outputType": INT32}, INT32),
    ("BATCH_TO_SPACE_ND", [(4, 2, 2, 3)], [(1, 4, 4, 3)], [[2, 2], [[0, 0], [0, 0]]],
     {"table": "BatchToSpaceND"}),
    ("BROADCAST_ARGS", [], [(3,)], [[1, 3, 4], [1, 1, 4]], None, INT32),
    ("BROADCAST_TO", [(1, 1, 4)], [(1, 3, 4)], [[1, 3, 4]], {"table": "BroadcastTo"}),
    ("CUMSUM", [(1, 4, 8)], [(1, 4, 8)], [2], {"table": "Cumsum"}),
    ("DYNAMIC_UPDATE_SLICE", [(4, 8), (2, 8)], [(4, 8)], [[1, 0]]),
    ("EXPAND_DIMS", [(4, 8)], [(1, 4, 8)], [0], {"table": "ExpandDims"}),
    ("FILL", [], [(3, 4)], [[3, 4], 7], None, INT32),
    ("GATHER", [(4, 8)], [(2, 8)], [[0, 2]], {"table": "Gather"}),
    ("GATHER_ND", [(4, 8)], [(2, 8)], [[[0], [2]]], {"table": "GatherNd"}),
    ("L2_NORMALIZATION", [(1, 8)], [(1, 8)], (), {"table": "L2Norm"}),
    ("LOG_SOFTMAX", [(1, 8)], [(1, 8)]),
    ("MEAN", [(2, 4, 4, 8)], [(2, 1, 1, 8)], [[1, 2]], {"table": "Reducer", "keepDims": True}),
    ("MIRROR_PAD", [(4, 8)], [(6, 10)], [[[1, 1], [1, 1]]], {"table": "MirrorPad"}),
    ("MIRROR_PAD", [(1, 2, 4, 4, 8)], [(1, 2, 6, 6, 8)],
     [[[0, 0], [0, 0], [1, 1], [1, 1], [0, 0]]], {"table": "MirrorPad"}),
    ("PACK", [(4, 8)] * 2, [(2, 4, 8)], (), {"table": "Pack", "valuesCount": 2}),
    ("REDUCE_MIN", [(1, 4, 8)], [(1, 4)], [[2]], {"table": "Reducer"}),
    ("RESIZE_BILINEAR", [(1, 4, 4, 2)], [(1, 8, 8, 2)], [[8, 8]], {"table": "ResizeBilinear"}),
    ("REVERSE_V2", [(4, 8)], [(4, 8)], [[1]], {"table": "ReverseV2"}),
    ("SHAPE", [(4, 8)], [(2,)], (), {"table": "Shape", "outType": INT32}, INT32),
    ("SPACE_TO_BATCH_ND", [(1, 4, 4, 3)], [(4, 2, 2, 3)], [[2, 2], [[0, 0], [0, 0]]],
     {"table": "SpaceToBatchND"}),
    ("SPACE_TO_DEPTH", [(1, 4, 4, 3)], [(1, 2, 2, 12)], (),
     {"table": "SpaceToDepth", "blockSize": 2}),
    ("SPLIT_V", [(1, 8)], [(1, 4)] * 2, [[4, 4], 1], {"table": "SplitV", "numSplits": 2}),
    ("SQUEEZE", [(1, 8)], [(8,)], (), {"table": "Squeeze", "squeezeDims": [0]}),
    ("STRIDED_SLICE", [(4, 8)], [(2, 4)], [[0, 0], [4, 8], [2, 2]], {"table": "StridedSlice"}),
    ("TRANSPOSE", [(4, 8)], [(8, 4)], [[1, 0]]),
    ("UNPACK", [(2, 8)], [(8,)] * 2, (), {"table": "Unpack", "num": 2}),
    ("ZEROS_LIKE", [(4, 8)], [(4, 8)]),
]  # fmt: skip
