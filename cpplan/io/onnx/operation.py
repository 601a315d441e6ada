"""Nodes of ONNX graphs in the form that the rules of axes read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cpplan.io.axes.operation import Array, Operation, checked_axis
from cpplan.model.tensor import Tensor

if TYPE_CHECKING:
    import onnx

# Element types of integers, whose sums are the same in any order.
INTEGERS = ("int32", "int64")
# Element types of products that may be added up in parts.
SUMMED = ("float32", "float64", "float16", "bfloat16", *INTEGERS)


def operation_of(
    node: onnx.NodeProto,
    tensors: Mapping[str, Tensor | None],
    value: Callable[[str], Array | None],
    opset: int,
) -> Operation:
    """A node in the form that the rules read; ``opset`` is among its attributes."""
    import onnx

    given: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}
    names = tuple(node.input)
    return Operation(
        f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
        tuple(tensors.get(name) if name else None for name in names),
        tuple(tensors.get(name) if name else None for name in node.output),
        {**attributes, "opset": opset},
        lambda k: value(names[k]) if k < len(names) and names[k] else None,
    )


def axis_of(operation: Operation, rank: int, default: int) -> int:
    """The attribute ``axis``, counted from the first axis."""
    return checked_axis(operation.attributes.get("axis", default), rank)
