"""Scratch memory that TFLite Micro's kernels request from the arena.

A kernel requests *scratch buffers* while it is prepared, and uses them while it runs. Model files
do not have their sizes. The sizes here follow the reference kernels
(``tensorflow/lite/micro/kernels`` in the sources of TFLite Micro), and are checked against the
recording allocator of October 2026. Sizes for CMSIS-NN are in :mod:`cpplan.io.tflite.cmsis_nn`;
``kernels`` of ``cpplan.load`` selects them. Kernels of other vendors request other sizes, which the
caller states (``workspaces``).

The runtime places scratch buffers itself, the largest first, each into the first gap between the
tensors live at the same time. So all scratch buffers of one op are planned as one block: they
always fit, since the runtime fills the block from its start.

==========================  ==================================================================
kind                        bytes of each buffer
==========================  ==================================================================
``TRANSPOSE_CONV``          int8: 4 for each element of the output; int16: 8, and 8 for each
                            bias of 16 bits
``MEAN``, ``SUM``           4 for each axis of the input, 4 for each one reduced; int8, int16 and
                            uint8: 4 for each element of the output
``REDUCE_ALL``, ``_MAX``,   4 for each axis of the input, 4 for each one reduced
``_MIN``
``MIRROR_PAD``              twice 4 for each axis of the input
``SVDF``                    4 for each filter of each batch; int8: 4 for each unit as well
``UNIDIRECTIONAL_SEQ...``   four buffers of one element of the cell's type for each unit
``ADD_N``                   a pointer of 8 for each input
convolutions, dense         weights of 4 bits: 1 for each of them
==========================  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from cpplan.io.tflite.cmsis_nn import TARGETS, cmsis_nn_sizes, has_kernel
from cpplan.io.tflite.model import FileOperator, FileTensor
from cpplan.model.dtypes import BITS
from cpplan.model.names import not_understood

# Names of the kernels that may run.
REFERENCE = "reference"
KERNELS = (REFERENCE, *TARGETS)

# Alignment of buffers in the arena, bytes; sizes are rounded up to it.
ALIGNMENT = 16

# Kinds whose reference kernels request no scratch memory.
_NONE = frozenset(
    """
    ABS ADD ARG_MAX ARG_MIN ASSIGN_VARIABLE AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND
    BROADCAST_ARGS BROADCAST_TO CALL_ONCE CAST CEIL CONCATENATION COS CUMSUM DEPTH_TO_SPACE
    DEQUANTIZE DIV DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FILL FLOOR
    FLOOR_DIV FLOOR_MOD GATHER GATHER_ND GREATER GREATER_EQUAL HARD_SWISH IF L2_NORMALIZATION
    L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC
    LOG_SOFTMAX MAXIMUM MAX_POOL_2D MINIMUM MUL NEG NOT_EQUAL PACK PAD PADV2 PRELU
    QUANTIZE READ_VARIABLE RELU RELU6 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_V2
    ROUND RSQRT SELECT_V2 SHAPE SIN SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V
    SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB TANH TRANSPOSE UNPACK VAR_HANDLE WHILE
    ZEROS_LIKE
    """.split()  # noqa: SIM905
)

# Such kinds that only TFLite Micro has; files hold them as custom operators.
_NONE_CUSTOM = frozenset({"CIRCULAR_BUFFER"})

# Weights that kernels of convolutions and dense layers unpack into one byte an element.
_PACKED = "int4"
_LSTM_CELL = 19


def rounded(size: int) -> int:
    """Bytes that a buffer takes in the arena."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def scratch_bytes(
    operator: FileOperator, tensors: Sequence[FileTensor], kernels: str = REFERENCE
) -> int | None:
    """Bytes of the block that holds all scratch buffers of an operator; ``None`` if not known."""
    sizes = scratch_sizes(operator, tensors, kernels)
    return None if sizes is None else sum(map(rounded, sizes))


def scratch_sizes(
    operator: FileOperator, tensors: Sequence[FileTensor], kernels: str = REFERENCE
) -> tuple[int, ...] | None:
    """Bytes of each scratch buffer that an operator's kernel requests; ``None`` if not known."""
    if kernels != REFERENCE and has_kernel(operator, tensors):
        return cmsis_nn_sizes(operator, tensors, kernels)
    if operator.kind in (_NONE_CUSTOM if operator.custom else _NONE):
        return ()
    if operator.custom:
        return None
    if operator.kind not in _RULES:
        return None
    needed, rule = _RULES[operator.kind]
    numbers = (*operator.outputs[:1], *operator.inputs)
    if not operator.outputs or any(k >= len(numbers) or numbers[k] < 0 for k in (0, *needed)):
        return None  # the kernel refuses it
    try:
        return tuple(rule(_Tensors(operator, tensors)))
    except (IndexError, ZeroDivisionError):
        return None  # the shapes do not fit the kind


def check_kernels(kernels: str) -> None:
    """Raise unless this is a known name of TFLite Micro's kernels."""
    if kernels not in KERNELS:
        raise not_understood(f"kernels={kernels!r}", kernels, KERNELS)


def unknown_scratch(ops: Mapping[str, str], stated: Container[str]) -> str | None:
    """Line that names the kinds of op with unknown scratch memory; ``None`` if all is known.

    Parameters
    ----------
    ops
        Op -> kind, for ops whose scratch memory is not known.
    stated
        Kinds or names of ops whose scratch memory the caller states.
    """
    kinds = dict.fromkeys(
        kind for name, kind in ops.items() if name not in stated and kind not in stated
    )
    if not kinds:
        return None
    options = " ".join(f"--workspace '{kind}=BYTES'" for kind in kinds)
    return (
        f"scratch memory of {', '.join(kinds)} is not known, none is planned: state it with "
        f"workspaces, or {options}"
    )


class _Tensors:
    """An operator's tensors, by the positions that the rules use."""

    def __init__(self, operator: FileOperator, tensors: Sequence[FileTensor]):
        self.inputs = [tensors[k] if k >= 0 else None for k in operator.inputs]
        self.output = tensors[operator.outputs[0]]

    def input(self, number: int) -> FileTensor:
        found = self.inputs[number]
        assert found is not None
        return found

    def elements(self, number: int) -> int:
        return math.prod(self.input(number).shape)


def _transposed(of: _Tensors) -> Iterator[int]:
    dtype, count = of.input(2).dtype, math.prod(of.output.shape)
    if dtype == "int8":
        yield 4 * count
    elif dtype == "int16":
        yield 8 * count
        bias = of.inputs[3] if len(of.inputs) > 3 else None
        if bias is not None and bias.dtype == "int16":
            yield 8 * math.prod(bias.shape)


def _axes(of: _Tensors) -> Iterator[int]:
    yield 4 * len(of.input(0).shape)
    yield 4 * of.elements(1)


def _strides(of: _Tensors) -> Iterator[int]:
    yield from [4 * len(of.input(0).shape)] * 2


def _mean(of: _Tensors) -> Iterator[int]:
    yield from _axes(of)
    if of.input(0).dtype in ("int8", "int16", "uint8"):
        yield 4 * math.prod(of.output.shape)


def _svdf(of: _Tensors) -> Iterator[int]:
    batch = of.input(0).shape[0] if of.input(0).shape else 1
    filters = of.input(1).shape[0] if of.input(1).shape else 1
    yield 4 * batch * filters
    if of.input(0).dtype == "int8":
        yield 4 * math.prod(of.output.shape)


def _lstm(of: _Tensors) -> Iterator[int]:
    cell = of.input(_LSTM_CELL)
    yield from [math.prod(cell.shape) * BITS.get(cell.dtype, 32) // 8] * 4


def _pointers(of: _Tensors) -> Iterator[int]:
    yield 8 * len(of.inputs)


def _unpacked(of: _Tensors) -> Iterator[int]:
    if of.input(1).dtype == _PACKED:
        yield of.elements(1)


# Kind -> positions that its rule needs (0 is the output, inputs count from 1), and the rule.
_RULES: dict[str, tuple[tuple[int, ...], Callable[[_Tensors], Iterator[int]]]] = {
    "ADD_N": ((), _pointers),
    "CONV_2D": ((1, 2), _unpacked),
    "DEPTHWISE_CONV_2D": ((1, 2), _unpacked),
    "FULLY_CONNECTED": ((1, 2), _unpacked),
    "MEAN": ((1, 2), _mean),
    "MIRROR_PAD": ((1,), _strides),
    "REDUCE_ALL": ((1, 2), _axes),
    "REDUCE_MAX": ((1, 2), _axes),
    "REDUCE_MIN": ((1, 2), _axes),
    "SUM": ((1, 2), _mean),
    "SVDF": ((1, 2), _svdf),
    "TRANSPOSE_CONV": ((2, 3), _transposed),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ((1, _LSTM_CELL + 1), _lstm),
}
