"""Cost of running a TFLite operator once: its operations on elements, from shapes alone.

A multiply-add is two operations. Convolutions and matrix products count every product, including
products with padding. Pools count one operation for each place in the window, reductions one for
each element of the input, softmax five for each element (compare, subtract, exponential, add up,
divide). All other operators count one operation for each element of their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpplan.io.tflite.model import FileOperator, FileTensor

_POOLS = frozenset({"AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"})
_REDUCTIONS = frozenset(
    """
    ARG_MAX ARG_MIN CUMSUM MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM
    """.split()  # noqa: SIM905
)
_SOFTMAX = {"SOFTMAX": 5, "LOG_SOFTMAX": 5}


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
