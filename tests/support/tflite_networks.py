"""Tiny TFLite models made to measure; needs ``ai-edge-litert``, whose schema packs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

FLOAT32, INT32, BOOL = (getattr(schema.TensorType, name) for name in ("FLOAT32", "INT32", "BOOL"))

# Those that TFLite Micro has for floats, or for truth values.
UNARY = """
    ABS CAST CEIL COS ELU EXP FLOOR HARD_SWISH LEAKY_RELU LOG LOGICAL_NOT LOGISTIC NEG RELU RELU6
    ROUND RSQRT SIN SQRT SQUARE TANH
""".split()  # noqa: SIM905
BINARY = """
    ADD DIV FLOOR_DIV FLOOR_MOD LOGICAL_AND LOGICAL_OR MAXIMUM MINIMUM MUL PRELU SQUARED_DIFFERENCE
    SUB
""".split()  # noqa: SIM905
ELEMENT_WISE = [(kind, 1) for kind in UNARY] + [(kind, 2) for kind in BINARY]


class Subgraph:
    """Tensors are named by numbers, in the order in which they are added."""

    def __init__(self, model: Model, name: str):
        self.model, self.made = model, schema.SubGraphT()
        self.made.name, self.made.tensors, self.made.operators = name, [], []
        self.made.inputs, self.made.outputs = [], []

    def tensor(
        self,
        name: str,
        shape: list[int],
        dtype: int = FLOAT32,
        *,
        data: np.ndarray | None = None,
        variable: bool = False,
        signature: list[int] | None = None,
        scale: float | list[float] | None = None,
        zero: int = 0,
        axis: int = 0,
    ) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name, shape, dtype
        tensor.isVariable, tensor.shapeSignature = variable, signature
        if scale is not None:
            scales = [scale] if isinstance(scale, float) else scale
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.quantizedDimension = scales, axis
            tensor.quantization.zeroPoint = [zero] * len(scales)
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            tensor.buffer = len(self.model.made.buffers)
            self.model.made.buffers.append(buffer)
        self.made.tensors.append(tensor)
        return len(self.made.tensors) - 1

    def input(self, *arguments: Any, **named: Any) -> int:
        self.made.inputs.append(self.tensor(*arguments, **named))
        return self.made.inputs[-1]

    def run(
        self,
        kind: str,
        inputs: list[int],
        outputs: list[int],
        options: Any = None,
        version: int = 1,
    ) -> None:
        operator = schema.OperatorT()
        operator.opcodeIndex = self.model.code(kind, version)
        operator.inputs, operator.outputs = inputs, outputs
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            operator.builtinOptions = options
        self.made.operators.append(operator)


class Model:
    """A TFLite file in the making: subgraphs, operator codes, and their packing."""

    def __init__(self) -> None:
        self.made = schema.ModelT()
        self.made.version, self.made.description = 3, "made to measure"
        self.made.buffers, self.made.operatorCodes, self.made.subgraphs = [schema.BufferT()], [], []

    def subgraph(self, name: str) -> Subgraph:
        added = Subgraph(self, name)
        self.made.subgraphs.append(added.made)
        return added

    def code(self, kind: str, version: int) -> int:
        number = getattr(schema.BuiltinOperator, kind, None)
        entry = schema.OperatorCodeT()
        entry.builtinCode = schema.BuiltinOperator.CUSTOM if number is None else number
        entry.customCode = kind if number is None else None
        entry.deprecatedBuiltinCode, entry.version = min(entry.builtinCode, 127), version
        self.made.operatorCodes.append(entry)
        return len(self.made.operatorCodes) - 1

    def pack(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.made.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def conditional(open_batch: bool = False) -> bytes:
    """``y = relu(where(c, (x + x) * x, x * x))``, by an ``IF`` with two subgraphs."""
    model = Model()
    main = model.subgraph("main")
    rows: Any = ([1, 24], FLOAT32)
    named = {"signature": [-1, 24] if open_batch else None}
    condition, x = main.input("c", [1], BOOL), main.input("x", *rows, **named)
    chosen, y = main.tensor("chosen", *rows, **named), main.tensor("y", *rows, **named)
    options = schema.IfOptionsT()
    options.thenSubgraphIndex, options.elseSubgraphIndex = 1, 2
    main.run("IF", [condition, x], [chosen], options)
    main.run("RELU", [chosen], [y])
    main.made.outputs.append(y)
    then = model.subgraph("then")
    x, twice, y = (
        then.input("x", *rows, **named),
        *(then.tensor(name, *rows, **named) for name in ("twice", "y")),
    )
    then.run("ADD", [x, x], [twice], schema.AddOptionsT())
    then.run("MUL", [twice, x], [y], schema.MulOptionsT())
    then.made.outputs.append(y)
    other = model.subgraph("else")
    x, y = other.input("x", *rows, **named), other.tensor("y", *rows, **named)
    other.run("MUL", [x, x], [y], schema.MulOptionsT())
    other.made.outputs.append(y)
    return model.pack()


def counting() -> bytes:
    """Doubles ``x`` while a counter is below three: a ``WHILE``."""
    model = Model()
    main = model.subgraph("main")
    count, x = main.input("count", [1], INT32), main.input("x", [1, 24])
    ends = [main.tensor("counted", [1], INT32), main.tensor("doubled", [1, 24])]
    options = schema.WhileOptionsT()
    options.condSubgraphIndex, options.bodySubgraphIndex = 1, 2
    main.run("WHILE", [count, x], ends, options)
    main.made.outputs += ends
    condition = model.subgraph("condition")
    count, _ = condition.input("count", [1], INT32), condition.input("x", [1, 24])
    three = condition.tensor("three", [1], INT32, data=np.array([3], np.int32))
    less = condition.tensor("less", [1], BOOL)
    condition.run("LESS", [count, three], [less])
    condition.made.outputs.append(less)
    body = model.subgraph("body")
    count, x = body.input("count", [1], INT32), body.input("x", [1, 24])
    one = body.tensor("one", [1], INT32, data=np.array([1], np.int32))
    following, twice = body.tensor("following", [1], INT32), body.tensor("twice", [1, 24])
    body.run("ADD", [count, one], [following], schema.AddOptionsT())
    body.run("ADD", [x, x], [twice], schema.AddOptionsT())
    body.made.outputs += [following, twice]
    return model.pack()


def lacking(kind: str, inputs: int, outputs: int, *, inner: bool) -> bytes:
    """An operator with only some of its operands and results, perhaps in a branch."""
    model = Model()
    main = model.subgraph("main")
    x, y = (main.tensor(name, [1, 6], signature=[-1, 6]) for name in "xy")
    main.made.inputs.append(x)
    held = main
    if inner:
        options = schema.IfOptionsT()
        options.thenSubgraphIndex, options.elseSubgraphIndex = 1, 1
        main.run("IF", [main.input("condition", [], BOOL), x], [y], options)
        main.made.outputs.append(y)
        held = model.subgraph("branch")
        x, y = (held.tensor(name, [1, 6], signature=[-1, 6]) for name in "xy")
        held.made.inputs.append(x)
    held.run(kind, [x][:inputs], [y][:outputs])
    held.made.outputs.append(y)
    return model.pack()


def collecting() -> bytes:
    """Each turn of a loop doubles a row of ``x``, between the rows before and those behind it.

    So converters write a list of tensors. Nothing reads how often the loop turned.
    """
    model = Model()
    main = model.subgraph("main")
    x, zero = main.input("x", [4, 3]), main.tensor("zero", [1], INT32, data=np.zeros(1, np.int32))
    count, rows = main.tensor("counted", [1], INT32), main.tensor("rows", [4, 3])
    y = main.tensor("y", [4, 3])
    options = schema.WhileOptionsT()
    options.condSubgraphIndex, options.bodySubgraphIndex = 1, 2
    main.run("WHILE", [zero, x], [count, rows], options)
    main.run("TANH", [rows], [y])
    main.made.outputs.append(y)
    condition = model.subgraph("condition")
    count, _ = condition.input("count", [1], INT32), condition.input("x", [4, 3])
    four = condition.tensor("four", [1], INT32, data=np.array([4], np.int32))
    less = condition.tensor("less", [1], BOOL)
    condition.run("LESS", [count, four], [less])
    condition.made.outputs.append(less)
    body = model.subgraph("body")
    count, x = body.input("count", [1], INT32), body.input("x", [4, 3])

    def numbers(name: str, *values: int) -> int:
        return body.tensor(name, [len(values)], INT32, data=np.array(values, np.int32))

    def joined(name: str, parts: list[int]) -> int:
        made = body.tensor(name, [2], INT32)
        body.run("CONCATENATION", parts, [made], schema.ConcatenationOptionsT())
        return made

    zero, one, all_ = numbers("zero", 0), numbers("one", 1), numbers("all", -1)
    origin, row, rest = numbers("origin", 0, 0), numbers("row", 1, 3), numbers("rest", -1, -1)
    following = body.tensor("following", [1], INT32)
    body.run("ADD", [count, one], [following], schema.AddOptionsT())
    here = joined("here", [count, zero])
    slices = (
        ("before", origin, joined("many", [count, all_]), [-1, -1]),
        ("taken", here, row, None),
        ("behind", joined("there", [following, zero]), rest, [-1, 3]),
    )
    parts = []
    for name, begin, size, signature in slices:
        parts.append(body.tensor(name, [1, 3], signature=signature))
        body.run("SLICE", [x, begin, size], [parts[-1]], schema.SliceOptionsT())
    twice, after = body.tensor("twice", [1, 3]), body.tensor("after", [4, 3])
    body.run("ADD", [parts[1], parts[1]], [twice], schema.AddOptionsT())
    body.run("CONCATENATION", [parts[0], twice, parts[2]], [after], schema.ConcatenationOptionsT())
    body.made.outputs += [following, after]
    return model.pack()


def open_batch() -> bytes:
    """``y = tanh(x + x)`` for any batch, and ``flat``, ``y`` in one row."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 4], signature=[-1, 4])
    twice = main.tensor("twice", [1, 4], signature=[-1, 4])
    y = main.tensor("y", [1, 4], signature=[-1, 4])
    row = main.tensor("row", [2], INT32, data=np.array([1, -1], np.int32))
    flat = main.tensor("flat", [1, 4], signature=[1, -1])
    main.run("ADD", [x, x], [twice], schema.AddOptionsT())
    main.run("TANH", [twice], [y])
    main.run("RESHAPE", [y, row], [flat])
    main.made.outputs += [y, flat]
    return model.pack()


def open_image() -> bytes:
    """The largest of every two by two pixels of images of any number and size."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 4, 4, 1], signature=[-1, -1, -1, 1])
    y = main.tensor("y", [1, 2, 2, 1], signature=[-1, -1, -1, 1])
    options = schema.Pool2DOptionsT()
    options.strideH = options.strideW = options.filterHeight = options.filterWidth = 2
    main.run("MAX_POOL_2D", [x], [y], options)
    main.made.outputs.append(y)
    return model.pack()


def open_frames(*, by_values: bool = False) -> bytes:
    """Rows of six in frames of three pairs, by numbers computed from the shape, or from an input.

    The file stores 1 for every extent that its writer did not know.
    """
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 6], signature=[-1, 6])
    if by_values:
        extents = main.input("extents", [2], INT32)
    else:
        extents = main.tensor("extents", [2], INT32)
        options = schema.ShapeOptionsT()
        options.outType = INT32
        main.run("SHAPE", [x], [extents], options)
    pair, two = (
        main.tensor(name, [len(data)], INT32, data=np.array(data, np.int32))
        for name, data in (("pair", [1, 2]), ("two", [2]))
    )
    half, shape = main.tensor("half", [2], INT32), main.tensor("shape", [3], INT32)
    frames = main.tensor("frames", [1, 1, 1], signature=[-1, -1, -1])
    y = main.tensor("y", [1, 1, 1], signature=[-1, -1, -1])
    main.run("FLOOR_DIV", [extents, pair], [half])
    main.run("CONCATENATION", [half, two], [shape], schema.ConcatenationOptionsT())
    main.run("RESHAPE", [x, shape], [frames], schema.ReshapeOptionsT())
    main.run("TANH", [frames], [y])
    main.made.outputs.append(y)
    return model.pack()


def open_square(times: int) -> bytes:
    """Ones in as many rows and columns as those of ``x``, times a number."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 6], signature=[-1, 6])
    extents, large = main.tensor("extents", [2], INT32), main.tensor("large", [2], INT32)
    factors = main.tensor("factors", [2], INT32, data=np.array([times, times], np.int32))
    one = main.tensor("one", [], data=np.ones((), np.float32))
    y = main.tensor("y", [1, 1], signature=[-1, -1])
    options = schema.ShapeOptionsT()
    options.outType = INT32
    main.run("SHAPE", [x], [extents], options)
    main.run("MUL", [extents, factors], [large], schema.MulOptionsT())
    main.run("FILL", [large, one], [y], schema.FillOptionsT())
    main.made.outputs.append(y)
    return model.pack()


def open_samples() -> bytes:
    """Samples as rows: their number is one of the input's extents, as a tensor without axes."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 2, 3], signature=[-1, 2, 3])
    extents, batch = main.tensor("extents", [3], INT32), main.tensor("batch", [], INT32)
    first, last, rest = (
        main.tensor(name, np.shape(data), INT32, data=np.array(data, np.int32))
        for name, data in (("first", [0]), ("last", [1]), ("rest", 6))
    )
    shape, y = main.tensor("shape", [2], INT32), main.tensor("y", [1, 6], signature=[-1, 6])
    options = schema.ShapeOptionsT()
    options.outType = INT32
    main.run("SHAPE", [x], [extents], options)
    taken = schema.StridedSliceOptionsT()
    taken.shrinkAxisMask = 1
    main.run("STRIDED_SLICE", [extents, first, last, last], [batch], taken)
    packed = schema.PackOptionsT()
    packed.valuesCount = 2
    main.run("PACK", [batch, rest], [shape], packed)
    main.run("RESHAPE", [x, shape], [y], schema.ReshapeOptionsT())
    main.made.outputs.append(y)
    return model.pack()


def dilated() -> bytes:
    """A sequence as two samples, of its even and its odd positions, which the file stores as one.

    So do converters of models with open batches.
    """
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 6, 4], signature=[-1, 6, 4])
    block, pads = (
        main.tensor(name, np.shape(data), INT32, data=np.array(data, np.int32))
        for name, data in (("block", [2]), ("pads", [[2, 0]]))
    )
    apart = main.tensor("apart", [1, 4, 4], signature=[-1, 4, 4])
    main.run("SPACE_TO_BATCH_ND", [x, block, pads], [apart], schema.SpaceToBatchNDOptionsT())
    main.made.outputs.append(apart)
    return model.pack()


def open_where() -> bytes:
    """A model that lists the indices of true elements, for a batch of any size."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 4], BOOL, signature=[-1, 4])
    rows = main.tensor("rows", [1, 2], INT32, signature=[-1, 2])
    main.run("WHERE", [x], [rows])
    main.made.outputs.append(rows)
    return model.pack()


def remembering() -> bytes:
    """Two operators update one variable tensor, a third a variable of its own."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 4])
    memory, other = (main.tensor(f"memory{k}", [1, 4], variable=True) for k in range(2))
    made = [main.tensor(f"y{k}", [1, 4]) for k in range(3)]
    for state, y in zip((memory, other, memory), made, strict=True):
        main.run("SVDF", [x, -1, -1, -1, state], [y])
    main.made.outputs += made
    return model.pack()


def single(kind: str) -> bytes:
    """One operator of a kind, custom if TFLite has none of that name."""
    model = Model()
    main = model.subgraph("main")
    x, y = main.input("x", [1, 4]), main.tensor("y", [1, 4])
    main.run(kind, [x], [y])
    main.made.outputs.append(y)
    return model.pack()


def namesakes() -> bytes:
    """Tensors without names, and two of one name, in a chain of element-wise operators."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("", [1, 4])
    for name in ("a", "a", ""):
        x, before = main.tensor(name, [1, 4]), x
        main.run("RELU", [before], [x])
    main.made.outputs.append(x)
    return model.pack()


def crossing() -> bytes:
    """A reshape of the input, and a sum that needs both: a view where it lies at one place."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [4, 4])
    row = main.tensor("row", [2], INT32, data=np.array([1, 16], np.int32))
    flat, y = main.tensor("flat", [1, 16]), main.tensor("y", [1, 16])
    main.run("RESHAPE", [x, row], [flat])
    main.run("TANH", [flat], [y])
    main.made.outputs.append(y)
    return model.pack()


def joined() -> bytes:
    """Two parts, one after another in a row of 24 numbers, then summed with it."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 12])
    parts = [main.tensor(f"part{k}", [1, 12]) for k in range(2)]
    for part, kind in zip(parts, ("TANH", "EXP"), strict=True):
        main.run(kind, [x], [part])
    whole, y = main.tensor("whole", [1, 24]), main.tensor("y", [1, 24])
    options = schema.ConcatenationOptionsT()
    options.axis = 1
    main.run("CONCATENATION", parts, [whole], options)
    main.run("NEG", [whole], [y])
    main.made.outputs.append(y)
    return model.pack()


def summing(names: Sequence[str] = ("sum",), *, late: bool = False) -> bytes:
    """Adds ``x`` to resource variables, which start at ones, and then up all of the sums so far.

    The variables are read before any is written; if ``late``, before they get their first values.
    """
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [1, 4])
    once = schema.CallOnceOptionsT()
    once.initSubgraphIndex = 1
    if not late:
        main.run("CALL_ONCE", [], [], once)
    starts = model.subgraph("starts")
    ones = starts.tensor("ones", [1, 4], data=np.ones(4, np.float32))
    suffix = [""] if len(names) == 1 else [f" {name}" for name in names]
    handles: dict[Subgraph, list[int]] = {}
    for inner in (main, starts):
        for name, end in zip(names, suffix, strict=True):
            options = schema.VarHandleOptionsT()
            options.container, options.sharedName = "", name
            handle = inner.tensor(f"handle{end}", [1], schema.TensorType.RESOURCE)
            handles.setdefault(inner, []).append(handle)
            inner.run("VAR_HANDLE", [], [handle], options)
    for handle in handles[starts]:
        starts.run("ASSIGN_VARIABLE", [handle, ones], [], schema.AssignVariableOptionsT())
    befores = [main.tensor(f"before{end}", [1, 4]) for end in suffix]
    for handle, before in zip(handles[main], befores, strict=True):
        main.run("READ_VARIABLE", [handle], [before], schema.ReadVariableOptionsT())
    if late:
        main.run("CALL_ONCE", [], [], once)
    total = None
    for handle, before, end in zip(handles[main], befores, suffix, strict=True):
        after = main.tensor(f"after{end}", [1, 4])
        main.run("ADD", [before, x], [after], schema.AddOptionsT())
        main.run("ASSIGN_VARIABLE", [handle, after], [], schema.AssignVariableOptionsT())
        if total is not None:
            both = main.tensor(f"total{end}", [1, 4])
            main.run("ADD", [total, after], [both], schema.AddOptionsT())
            after = both
        total = after
    main.made.outputs.append(total)
    return model.pack()


def element_wise(kind: str, shapes: list[list[int]]) -> bytes:
    """One operator on numbers, or on truth values if it is a logical one."""
    model = Model()
    main = model.subgraph("main")
    dtype = BOOL if kind.startswith("LOGICAL") else FLOAT32
    inputs = [main.input(f"x{k}", shape, dtype) for k, shape in enumerate(shapes)]
    y = main.tensor("y", max(shapes, key=np.prod), dtype)
    named = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "LEAKY_RELU": "LeakyRelu"}
    options = getattr(schema, f"{named[kind]}OptionsT")() if kind in named else None
    main.run(kind, inputs, [y], options)
    main.made.outputs.append(y)
    return model.pack()


def reshaping() -> bytes:
    """The input under four names, one after another, then its negation."""
    model = Model()
    main = model.subgraph("main")
    x = main.input("x", [4, 6])
    axis = main.tensor("axis", [1], INT32, data=np.array([1], np.int32))
    row = main.tensor("row", [2], INT32, data=np.array([1, 24], np.int32))
    wider, narrow = main.tensor("wider", [4, 1, 6]), main.tensor("narrow", [4, 6])
    flat, y = main.tensor("flat", [1, 24]), main.tensor("y", [1, 24])
    squeeze = schema.SqueezeOptionsT()
    squeeze.squeezeDims = [1]
    main.run("EXPAND_DIMS", [x, axis], [wider])
    main.run("SQUEEZE", [wider], [narrow], squeeze)
    main.run("RESHAPE", [narrow, row], [flat])
    main.run("NEG", [flat], [y])
    main.made.outputs.append(y)
    return model.pack()
