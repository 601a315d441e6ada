"""Operators whose values decide how many results they have: NonZero, NonMaxSuppression and others.

Their number is given by name, as ``op[count]``, like the turns of a loop, or as ``[count]`` for all
of them, of which each takes what it can give at most. Given the most that there may be, a plan also
serves when there are fewer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cpplan.io.onnx.dims import COUNTED, count_name
from cpplan.io.onnx.types import static_shape
from cpplan.io.onnx.views import is_standard
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx


def most_results(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> int | None:
    """The most results that an operator of these may have; ``None`` for others, or if unknown."""
    if not is_standard(node) or node.op_type not in COUNTED:
        return None
    shapes = [static_shape(types.get(name)) for name in node.input if name]
    if not shapes or None in shapes:
        return None
    first = shapes[0] or ()
    if node.op_type == "NonMaxSuppression":
        scores = shapes[1] if len(shapes) > 1 else None
        return None if scores is None else math.prod(scores)
    axis = _axis(node, len(first))
    return math.prod(first) if axis is None else first[axis]


def counted_types(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], count: int
) -> dict[str, onnx.TypeProto]:
    """Types of the outputs of such an operator with a number of results.

    Raises
    ------
    InputError
        If it cannot have so many.
    """
    import onnx

    most = most_results(node, types)
    if most is None:
        return {}
    if count > most:
        raise InputError(
            f"dimension {count_name(node)!r} must be at most {most}, which is all that the op can "
            f"give, not {count}"
        )
    found: list[tuple[int, tuple[int, ...]]]
    given = types[node.input[0]].tensor_type
    whole = static_shape(types[node.input[0]]) or ()
    integers = onnx.TensorProto.INT64
    if node.op_type == "NonZero":
        found = [(integers, (len(whole), count))]
    elif node.op_type == "NonMaxSuppression":
        found = [(integers, (count, 3))]
    else:
        axis = _axis(node, len(whole))
        cut = (count,) if axis is None else (*whole[:axis], count, *whole[axis + 1 :])
        # Of Unique: first places, the place of each element among the results, and their numbers.
        found = [(given.elem_type, cut), *((integers, (n,)) for n in (count, most, count))]
    return {
        name: onnx.helper.make_tensor_type_proto(element, shape)
        for name, (element, shape) in zip(node.output, found, strict=False)
        if name
    }


def _axis(node: onnx.NodeProto, rank: int) -> int | None:
    """The axis along which results are counted; ``None`` if elements are."""
    axis = next((a.i for a in node.attribute if a.name == "axis"), None)
    return None if axis is None or not -rank <= axis < rank else axis % rank
