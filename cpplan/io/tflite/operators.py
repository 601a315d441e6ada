"""Properties of TFLite's operators for planning: views, in-place kernels, state, subgraphs, cost.

``RESHAPE``, ``SQUEEZE`` and ``EXPAND_DIMS`` copy all bytes of their first input in order, and copy
nothing if input and output have the same address; so the output can be a view of the input.
Element-wise kernels compute each element of the output from the same element of an input (and
others that are broadcast to it), so that an output of as many bytes may be written over that input.

The cost of an operator is its operations on elements, from shapes alone. A multiply-add is two
operations. Convolutions and matrix products count every product, including products with padding.
Pools count one operation for each place in the window, reductions one for each element of the
input, softmax five for each element (compare, subtract, exponential, add up, divide). All other
operators count one operation for each element of their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cpplan.io.tflite.flat_table import Table
from cpplan.io.tflite.model import FileOperator, FileTensor
from cpplan.model.errors import InputError

_VIEWS = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})

_OF_FIRST = frozenset(
    """
    ABS CAST CEIL COS DEQUANTIZE ELU EXP FLOOR HARD_SWISH LEAKY_RELU LOG LOGICAL_NOT LOGISTIC NEG
    QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SIGN SIN SQRT SQUARE TANH
    """.split()  # noqa: SIM905
)
_OF_EACH = frozenset(
    """
    ADD DIV EQUAL FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR
    MAXIMUM MINIMUM MUL NOT_EQUAL POW PRELU SQUARED_DIFFERENCE SUB
    """.split()  # noqa: SIM905
)

# Kinds whose runs change a state that other runs of them read.
_STATEFUL = frozenset(
    """
    ASSIGN_VARIABLE BERNOULLI CALL_ONCE HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_LOOKUP
    HASHTABLE_SIZE MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM READ_VARIABLE
    STABLEHLO_RNG_BIT_GENERATOR VAR_HANDLE
    """.split()  # noqa: SIM905
)

# Kind -> fields of its options with the numbers of the subgraphs that it runs, in order.
_SUBGRAPHS = {"IF": (0, 1), "WHILE": (0, 1), "CALL": (0,), "CALL_ONCE": (0,)}
_UNSUPPORTED = frozenset(
    """
    CONCAT_EMBEDDINGS STABLEHLO_CASE STABLEHLO_COMPOSITE STABLEHLO_REDUCE STABLEHLO_REDUCE_WINDOW
    STABLEHLO_SCATTER STABLEHLO_SORT STABLEHLO_WHILE
    """.split()  # noqa: SIM905
)

# Operator that vela makes of a model: its commands contain the addresses of its tensors.
_COMPILED = "ethos-u"
_POOLS = frozenset({"AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"})
_REDUCTIONS = frozenset(
    """
    ARG_MAX ARG_MIN CUMSUM MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM
    """.split()  # noqa: SIM905
)
_SOFTMAX = {"SOFTMAX": 5, "LOG_SOFTMAX": 5}


def subgraphs_of(operator: FileOperator) -> tuple[int, ...]:
    """Numbers of the subgraphs that an operator runs within its step."""
    if operator.custom:
        if operator.kind == _COMPILED:
            raise InputError(
                f"operator {operator.kind} is compiled for fixed addresses: plan the model before "
                "it is compiled"
            )
        return ()
    if operator.kind in _UNSUPPORTED:
        raise InputError(f"operator {operator.kind} is not supported")
    fields = _SUBGRAPHS.get(operator.kind, ())
    if fields and operator.options is None:
        raise InputError(f"operator {operator.kind} does not say which subgraph it runs")
    return tuple(_signed(operator.options, field) for field in fields)


def reshaped(operator: FileOperator) -> tuple[int, int] | None:
    """Numbers of an input and an output with the same bytes in the same order; else ``None``."""
    if operator.custom or operator.kind not in _VIEWS:
        return None
    if (
        not operator.inputs
        or not operator.outputs
        or -1 in (*operator.inputs[:1], *operator.outputs)
    ):
        raise InputError(f"operator {operator.kind} lacks its input or output")
    return operator.inputs[0], operator.outputs[0]


def is_stateful(operator: FileOperator) -> bool:
    """True if runs of such operators must keep their order; assumed for custom kernels."""
    return operator.custom or operator.kind in _STATEFUL


def in_place_inputs(operator: FileOperator, tensors: Sequence[FileTensor]) -> Iterator[int]:
    """Numbers of the inputs that the operator's only output may be written over."""
    count = 0
    if not operator.custom and operator.kind in _OF_FIRST:
        count = 1
    elif not operator.custom and operator.kind in _OF_EACH:
        count = 2
    if not count or len(operator.outputs) != 1 or operator.outputs[0] < 0:
        return
    output = tensors[operator.outputs[0]]
    for number in dict.fromkeys(operator.inputs[:count]):
        if number < 0:
            continue
        source = tensors[number]
        if number in operator.inputs[count:]:
            continue
        if math.prod(source.shape) == math.prod(output.shape) and source.dtype == output.dtype:
            yield number


def _signed(options: Table | None, field: int) -> int:
    return 0 if options is None else options.number(field, "<i")


def count_operations(operator: FileOperator, tensors: Sequence[FileTensor]) -> int:
    """Operations of an operator that runs no subgraphs."""
    shapes = [tensors[number].shape if number >= 0 else () for number in operator.inputs]
    results = sum(math.prod(tensors[k].shape) for k in operator.outputs if k >= 0)
    kind = "" if operator.custom or not shapes else operator.kind
    if kind in _REDUCTIONS or kind in _SOFTMAX:
        return _SOFTMAX.get(kind, 1) * math.prod(shapes[0])
    if kind in _POOLS and operator.options is not None:
        window = [operator.options.number(field, "<i") for field in (3, 4)]
        return results * math.prod(window)
    return 2 * results * taps if (taps := _taps(kind, operator, shapes)) else results


def _taps(kind: str, operator: FileOperator, shapes: Sequence[tuple[int, ...]]) -> int:
    """Number of products that are added up for each element of the result; 0 for other kinds."""
    weights = shapes[1] if len(shapes) > 1 else ()
    if kind in ("CONV_2D", "FULLY_CONNECTED"):
        return math.prod(weights[1:])
    if kind == "DEPTHWISE_CONV_2D":
        return math.prod(weights[1:3])
    if kind == "CONV_3D":
        return math.prod(weights[:4])
    if kind == "BATCH_MATMUL" and len(shapes[0]) > 1:
        transposed = operator.options is not None and operator.options.number(0, "<B")
        return shapes[0][-2 if transposed else -1]
    if kind == "TRANSPOSE_CONV" and len(shapes) > 2 and len(weights) == 4:
        # Every element of the input is multiplied by every tap; strides spread the products over
        # the result.
        return math.prod(weights[1:])
    return 0
