"""Size of the arena that TFLite Micro needs for a planned model, in bytes.

The runtime divides one arena. At its start, the *head* holds tensors and scratch buffers, which a
plan places. At its end, the *tail* holds persistent data: the runtime's own objects, a record of
every tensor and operator, data that kernels keep from their preparation, and variables. Before the
first run, the runtime also needs room on the head's side for the tables with which it plans.

The head follows from the plan. The tail and the room for planning are upper bounds, from the sizes
of the reference kernels' structures on 64-bit processors (they are smaller on 32 bits), as the
recording allocator of October 2026 reports them. A kernel that is not in the table counts as 256
bytes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike

from cpplan.io.tflite.extents import bind_extents
from cpplan.io.tflite.graph import Translation, graphs_in, translate
from cpplan.io.tflite.model import (
    FileOperator,
    FileSubgraph,
    FileTensor,
    TfliteModel,
    naming,
    parse_model,
)
from cpplan.io.tflite.offsets import AT_RUN_TIME, tensor_keys
from cpplan.io.tflite.scratch import REFERENCE, check_kernels, rounded, scratch_sizes
from cpplan.io.tflite.write import model_in_pieces, plan_offsets, plan_order
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.overhead import Overhead
from cpplan.model.plan import Plan

RUNTIME = "TFLite Micro"

# Bytes of the runtime's structures on a 64-bit processor.
_RUNTIME = 512  # allocators, planner, interpreter
_SUBGRAPH, _TENSOR, _NODE = 16, 24, 64
_BOUNDARY_TENSOR = 64 + 16  # a tensor of the model's boundary, and a pointer to it
_QUANTIZATION, _CHANNEL = 24 + 4, 4
_VARIABLE = 64
_HANDLE, _REQUEST = 8, 24
_MOST_REQUESTS = 12  # scratch buffers of one kernel
_ALLOCATION, _PLANNED = 32, 40  # entries of the tables that the runtime plans with

# Bytes of options and data that kernels keep -> kinds. Quantized convolutions also keep a
# multiplier and a shift for each output channel.
_KEPT_BYTES = {
    0: """
        BATCH_TO_SPACE_ND BROADCAST_ARGS BROADCAST_TO CEIL COS DYNAMIC_UPDATE_SLICE EXP
        EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR
        MAXIMUM MINIMUM NEG REVERSE_V2 ROUND SIN SQRT SQUARE TRANSPOSE ZEROS_LIKE
    """,
    4: """
        ARG_MAX ARG_MIN RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SELECT_V2 SHAPE
        SPACE_TO_BATCH_ND SPLIT SPLIT_V
    """,
    8: "CAST CIRCULAR_BUFFER L2_NORMALIZATION PACK RELU6 UNPACK",
    12: "GATHER_ND",
    16: "ASSIGN_VARIABLE CALL_ONCE IF LOGISTIC READ_VARIABLE SLICE TANH WHILE",
    20: "GATHER HARD_SWISH",
    24: "DEPTH_TO_SPACE SPACE_TO_DEPTH",
    28: "ABS LEAKY_RELU PRELU RELU RSQRT",
    32: """
        DEQUANTIZE DIV EMBEDDING_LOOKUP EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL
        NOT_EQUAL QUANTIZE VAR_HANDLE
    """,
    36: "RESHAPE SQUEEZE",
    38: "CUMSUM",
    40: "LOG_SOFTMAX MIRROR_PAD MUL",
    48: "ADD_N MEAN REDUCE_ALL REDUCE_MAX REDUCE_MIN SUM SVDF",
    56: "PAD PADV2",
    60: "SUB",
    68: "ADD",
    72: "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D",
    84: "SOFTMAX",
    88: "CONCATENATION",
    108: "CONV_2D STRIDED_SLICE TRANSPOSE_CONV",
    112: "BATCH_MATMUL FULLY_CONNECTED SQUARED_DIFFERENCE",
    116: "DEPTHWISE_CONV_2D",
    256: "ELU",
    736: "UNIDIRECTIONAL_SEQUENCE_LSTM",
}
_KEPT = {kind: size for size, kinds in _KEPT_BYTES.items() for kind in kinds.split()}
_UNKNOWN = 256
# Axis of the output channels of weights, the second input.
_CHANNELS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0}
# Operators that a piece usually needs beside itself: to pad, to join its operands, and to cut its
# result.
_BESIDE_A_PIECE = ("PAD", "CONCATENATION", "SLICE")
# Bytes of the tables of exponentials, for elements of 16 bits.
_TABLES = 2 * 1026 + 2 * 16


@dataclass(frozen=True, slots=True)
class MicroArena:
    """Bytes that TFLite Micro needs of an arena whose start is aligned to 16.

    Attributes
    ----------
    head
        Bytes for tensors and scratch buffers; an upper bound if the plan leaves tensors to the
        runtime.
    tail
        Upper bound on the bytes of persistent data.
    planning
        Upper bound on the bytes for planning before the first run, on the head's side.
    unknown
        Kinds of op whose scratch memory is neither known nor stated.

    Examples
    --------
    >>> arena = MicroArena(head=1024, tail=600, planning=1200)
    >>> arena.total
    1800
    >>> print(arena)
    1800 B: head 1024 B, tail up to 600 B, up to 1200 B instead of the head while it plans
    """

    head: int
    tail: int
    planning: int
    unknown: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Bytes to reserve."""
        return Overhead(RUNTIME, self.tail, self.planning).total(self.head)

    def __str__(self) -> str:
        exact = f" ({self.total} B)" if self.total >= 10240 else ""
        text = (
            f"{format_bytes(self.total)}{exact}: head {format_bytes(self.head)}, "
            f"tail up to {format_bytes(self.tail)}"
        )
        if self.planning > self.head:
            text += f", up to {format_bytes(self.planning)} instead of the head while it plans"
        if self.unknown:
            text += f"; without scratch memory of {', '.join(self.unknown)}"
        return text


def micro_arena(
    source: str | PathLike[str] | bytes,
    plan: Plan,
    dims: Mapping[str, int] | None = None,
    *,
    stated: Container[str] = (),
    kernels: str | None = None,
) -> MicroArena:
    """The arena that TFLite Micro needs for a model that carries the plan.

    Parameters
    ----------
    source, plan, dims
        As in :func:`~cpplan.io.tflite.write.planned_tflite`.
    stated
        Kinds or names of ops whose scratch memory the caller stated.
    kernels
        Kernels that were planned for, as in :func:`~cpplan.io.tflite.read_tflite`.

    Raises
    ------
    InputError
        If a TFLite file cannot hold the plan.
    MissingExtraError
        If the package ``tflite`` is missing.

    Examples
    --------
    >>> import cpplan
    >>> path = "datasets/tflite/branches.tflite"
    >>> plan = cpplan.solve(cpplan.load(path), order="search", workers=1)
    >>> plan.peak, micro_arena(path, plan).head
    (31744, 31744)
    """
    if plan.pieces:
        # A model in pieces has further operators, which gather and pad.
        return micro_arena(*model_in_pieces(source, plan, dims), stated=stated, kernels=kernels)
    with naming(source):
        model = bind_extents(parse_model(source), dims)
        kernels = kernels or REFERENCE
        check_kernels(kernels)
        translation = translate(model, plan.name, kernels=kernels)
        plan_order(translation, plan)
        offsets = dict(zip(tensor_keys(model), plan_offsets(model, translation, plan), strict=True))
        left = [
            rounded(model.subgraphs[s].tensors[k].nbytes)
            for (s, k), offset in offsets.items()
            if offset == AT_RUN_TIME and model.subgraphs[s].tensors[k].in_arena
        ]
        requests = _requests(model, kernels)
        unknown = {
            kind
            for name, kind in translation.unknown.items()
            if name not in stated and kind not in stated
        }
        return MicroArena(
            head=max(_head(plan, translation, sum(left)), _untouched(model, translation)),
            tail=_tail(model, requests),
            planning=_planning(model, requests),
            unknown=tuple(sorted(unknown)),
        )


def micro_overhead(model: TfliteModel, translation: Translation, kernels: str) -> Overhead:
    """Bytes of TFLite Micro's arena beside the tensors that a plan of a model places."""
    requests = _requests(model, kernels)
    before = max(_planning(model, requests), _untouched(model, translation))
    return Overhead(RUNTIME, _tail(model, requests), before)


def _untouched(model: TfliteModel, translation: Translation) -> int:
    """Bytes of the largest tensor that no operator accesses, which the head holds, too."""
    sizes = (model.subgraphs[s].tensors[k].nbytes for s, k in translation.untouched(model))
    return max(map(rounded, sizes), default=0)


def piece_bytes(
    source: str | PathLike[str] | bytes, dims: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Op -> bytes of the tail that one more piece of it takes: mostly an upper bound.

    They are the tail's entries for the operator, and for the operators that pad and gather its
    operands and cut its result, each with its tensor. Operators that cannot run in pieces are left
    out.

    Parameters
    ----------
    source, dims
        As in :func:`micro_arena`.

    Raises
    ------
    InputError
        If the file is not a TFLite model, or is not understood.
    MissingExtraError
        If the package ``tflite`` is missing.

    Examples
    --------
    >>> kept = piece_bytes("datasets/tflite/branches.tflite")
    >>> min(kept.values()), max(kept.values())
    (640, 1120)
    """
    with naming(source):
        model = bind_extents(parse_model(source), dims)
        translation = translate(model, "")
    main = model.subgraphs[0]
    beside = sum(rounded(_KEPT[kind] + 16) for kind in _BESIDE_A_PIECE)
    beside += (1 + len(_BESIDE_A_PIECE)) * (_NODE + _TENSOR)
    return {
        op.name: beside + _kept(main.operators[translation.operators[op.name]], main.tensors)
        for op in translation.graph.ops
        if op.axes
    }


def _head(plan: Plan, translation: Translation, left: int) -> int:
    """The peak; if the runtime places tensors, these and scratch buffers may lie above it."""
    head = rounded(plan.peak or 0)
    if not left:
        return head
    scratch = [
        inner.tensor[name].nbytes
        for _, inner in graphs_in(translation.graph)
        for op in inner.ops
        for name in op.workspaces
    ]
    return head + left + max(map(rounded, scratch), default=0)


def _requests(model: TfliteModel, kernels: str) -> int:
    """Number of scratch buffers of all operators."""
    count = 0
    for source in model.subgraphs:
        for operator in source.operators:
            sizes = scratch_sizes(operator, source.tensors, kernels)
            count += _MOST_REQUESTS if sizes is None else len(sizes)
    return count


def _tail(model: TfliteModel, requests: int) -> int:
    main = model.subgraphs[0]
    boundary = sum(
        _BOUNDARY_TENSOR + _quantization(main.tensors[k]) for k in (*main.inputs, *main.outputs)
    )
    subgraphs = len(model.subgraphs) * (_SUBGRAPH + 16 + _HANDLE * requests)
    tensors = sum(_TENSOR * len(source.tensors) for source in model.subgraphs)
    kernels = sum(
        _NODE + _kept(operator, source.tensors)
        for source in model.subgraphs
        for operator in source.operators
    )
    variables = sum(
        rounded(tensor.nbytes)
        for source in model.subgraphs
        for tensor in source.tensors
        if tensor.variable
    )
    resources = sum(_VARIABLE + size for size in _resources(model).values())
    return rounded(_RUNTIME + boundary + subgraphs + tensors + kernels + variables + resources)


def _quantization(tensor: FileTensor) -> int:
    return _QUANTIZATION + _CHANNEL * len(tensor.scales) + 8 if tensor.scales else 0


def _kept(operator: FileOperator, tensors: tuple[FileTensor, ...]) -> int:
    """Bytes that a kernel keeps, each allocation rounded up."""
    kept = _KEPT.get(operator.kind, _UNKNOWN)
    total = rounded(kept + 16 if kept else 0)
    if operator.custom:
        return total
    shapes = [tensors[k].shape if k >= 0 else () for k in operator.inputs]
    axis = _CHANNELS.get(operator.kind)
    if axis is not None and len(shapes) > 1 and axis < len(shapes[1]):
        channels = shapes[1][axis]
        if operator.kind == "FULLY_CONNECTED" and len(tensors[operator.inputs[1]].scales) < 2:
            channels = 0
        total += 2 * rounded(4 * channels + 16) if channels else 0
    output = tensors[operator.outputs[0]] if operator.outputs else None
    if operator.kind == "SOFTMAX" and output is not None and output.dtype == "int16":
        total += rounded(_TABLES)
    if operator.kind == "BATCH_MATMUL":
        flags = [operator.options.number(k, "<B") if operator.options else 0 for k in (0, 1)]
        turned = (flags[0], not flags[1])
        for number, use in zip(operator.inputs[:2], turned, strict=False):
            if use and number >= 0:
                total += rounded(tensors[number].nbytes) + 3 * 32
    return total


def _resources(model: TfliteModel) -> dict[tuple[str, str], int]:
    """Resource variable -> most bytes that it holds."""
    found: dict[tuple[str, str], int] = {}
    for source in model.subgraphs:
        names = dict(_handles(source))
        found |= {name: found.get(name, 0) for name in names.values()}
        for operator in source.operators:
            if operator.kind != "ASSIGN_VARIABLE" or len(operator.inputs) < 2:
                continue
            name = names.get(operator.inputs[0])
            if name is not None and operator.inputs[1] >= 0:
                held = rounded(source.tensors[operator.inputs[1]].nbytes)
                found[name] = max(found[name], held)
    return found


def _handles(source: FileSubgraph) -> Iterator[tuple[int, tuple[str, str]]]:
    for operator in source.operators:
        if operator.kind == "VAR_HANDLE" and operator.options is not None and operator.outputs:
            yield operator.outputs[0], (operator.options.text(0), operator.options.text(1))


def _planning(model: TfliteModel, requests: int) -> int:
    """Bytes of the tables with which the runtime plans, or with which kernels are prepared."""
    tensors = [tensor for source in model.subgraphs for tensor in source.tensors]
    planned = sum(tensor.in_arena for tensor in tensors) + requests
    asked = _REQUEST * (requests + _MOST_REQUESTS)
    tables = _ALLOCATION * (len(tensors) + requests) + 8 * len(model.subgraphs) + _PLANNED * planned
    prepared = max(
        (
            sum(
                _BOUNDARY_TENSOR + _quantization(source.tensors[k])
                for k in (*operator.inputs, *operator.outputs)
                if k >= 0
            )
            for source in model.subgraphs
            for operator in source.operators
        ),
        default=0,
    )
    return rounded(asked + max(tables, prepared) + 64)
