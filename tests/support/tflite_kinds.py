"""TFLite models of many kinds, each small: their outputs depend on their inputs.

Weights are random, scales such that few values clip. TFLite Micro's reference kernels run all of
them; made with ``ai-edge-litert``, whose schema packs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from support.tflite_net import INT8, INT16, Net, new_net
from support.tflite_networks import BOOL, FLOAT32, INT32, schema

_NUMPY = {FLOAT32: np.float32, INT8: np.int8, INT16: np.int16, INT32: np.int32}


def segmentation(dtype: int) -> bytes:
    """A U-Net: convolutions down, transposed ones up, joined with what they came from."""
    model, net = new_net("segmentation", dtype)
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
    model, net = new_net("keyword_stream", dtype)
    x = net.input("frame", (1, 20))
    x = net.svdf("svdf1", x, 16, 2, 5)
    x = net.svdf("svdf2", x, 8, 1, 4)
    net.output(net.softmax("scores", net.dense("dense", x, 4)))
    return model.pack()


def lstm(dtype: int) -> bytes:
    """An LSTM over six steps; the last output, through a dense layer."""
    model, net = new_net("lstm", dtype)
    x = net.input("frames", (1, 6, 10))
    x = net.lstm("lstm", x, 12)
    net.output(net.dense("scores", net.reshape("flat", x, (1, 72)), 5))
    return model.pack()


def pooled(dtype: int) -> bytes:
    """Convolutions, then the mean over all places, and the sum and maximum beside it."""
    model, net = new_net("pooled", dtype)
    x = net.relu("stem", net.conv("stem/conv", net.input("image", (1, 8, 8, 3)), 16))
    mean = net.reduce("MEAN", "mean", x, (1, 2))
    most = net.reduce("REDUCE_MAX", "most", x, (1, 2))
    rows = net.reduce("SUM", "sum", net.reduce("MEAN", "columns", x, (2,)), (1,))
    both = net.concatenate("both", [mean, most, rows])
    net.output(net.dense("scores", both, 4))
    return model.pack()


def packed_weights() -> bytes:
    """Weights of four bits, which the kernels unpack: a convolution, a depthwise one, a dense."""
    model, net = new_net("packed_weights", INT8)
    x = net.conv("stem", net.input("image", (1, 8, 8, 4)), 16, packed=True)
    x = net.relu("relu", net.depthwise("depthwise", x, packed=True))
    x = net.reshape("flat", net.pool("pool", x, "AVERAGE"), (1, 256))
    net.output(net.dense("scores", x, 6, packed=True))
    return model.pack()


def attention(dtype: int) -> bytes:
    """One head of attention over eight tokens, with a residual connection."""
    model, net = new_net("attention", dtype)
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
    model, net = new_net("ensemble", dtype)
    x = net.input("x", (1, 24))
    parts = [net.dense(f"part{k}", x, 12) for k in range(4)]
    net.output(net.relu("y", net.run("ADD_N", "sum", parts, (1, 12), schema.AddNOptionsT())))
    return model.pack()


def super_resolution(dtype: int) -> bytes:
    """Channels to places, beside the nearest neighbours."""
    model, net = new_net("super_resolution", dtype)
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
    model, net = new_net("shuffled", dtype)
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
    model, net = new_net("branching", dtype)
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
    model, net = new_net("looping", dtype)
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
    model, net = new_net("delay_line", dtype)
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
    model, net = new_net("ring", INT8)
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


def suppressed() -> bytes:
    """At most four kept boxes, with outputs that nothing reads."""
    model, net = new_net("suppressed")
    boxes, scores = (
        net.relu("boxes", net.input("b", (6, 4))),
        net.relu("scores", net.input("s", (6,))),
    )
    thresholds = [
        net.subgraph.tensor(name, [], FLOAT32, data=np.array(value, np.float32))
        for name, value in (("overlap", 0.5), ("least", 0.0), ("sigma", 0.0))
    ]
    inputs = [boxes, scores, net.numbers("most", 4), *thresholds]
    indices, count = (
        net.subgraph.tensor(n, s, INT32) for n, s in (("indices", [4]), ("count", []))
    )
    kept = net.tensor("kept", (4,))
    net.subgraph.run("NON_MAX_SUPPRESSION_V5", inputs, [indices, kept, count])
    net.output(indices, net.relu("positive", kept))
    return model.pack()


def random_network(seed: int) -> bytes:
    """A network of eight to sixteen layers that branches, of kinds with scratch memory and without.

    Every activation is an image; what nothing else reads is summed up at the end.
    """
    draw = np.random.default_rng(seed)
    model, net = new_net("random", (FLOAT32, INT8)[seed % 2])
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
    model, net = new_net(kind, dtype)
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
