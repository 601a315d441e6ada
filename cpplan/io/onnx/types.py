"""Element types and static shapes in ONNX's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx

_NAMES = {"float": "float32", "double": "float64"}
# onnx.AttributeProto.GRAPH: readers ask every node for its bodies many times.
_GRAPH = 5


def dtype_name(elem_type: int) -> str | None:
    """cpplan's name of an ONNX element type; ``None`` if its elements have no fixed width."""
    from onnx import TensorProto

    if elem_type not in TensorProto.DataType.values():
        raise InputError(f"element type {elem_type} is not one of ONNX's")
    name = TensorProto.DataType.Name(elem_type).lower()
    name = _NAMES.get(name, name)
    return name if name in BITS else None


def types_of(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """The type of every tensor that the graph declares or that inference found."""
    import onnx

    types: dict[str, onnx.TypeProto] = {}
    listings: Iterable[Iterable[onnx.ValueInfoProto]] = (
        graph.input,
        graph.value_info,
        graph.output,
    )
    for listing in listings:
        for value in listing:
            # The list of outputs may have a less detailed type of a tensor than inference found.
            if static_shape(types.get(value.name)) is None:
                types[value.name] = value.type
    for tensor in graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    for sparse in graph.sparse_initializer:
        types[sparse.values.name] = onnx.helper.make_tensor_type_proto(
            sparse.values.data_type, sparse.dims
        )
    return types


def static_shape(type_: onnx.TypeProto | None) -> tuple[int, ...] | None:
    """The extents of a tensor type, or ``None`` unless all of them are numbers."""
    if type_ is None or not type_.HasField("tensor_type"):
        return None
    if not type_.tensor_type.HasField("shape"):
        return None
    extents = []
    for dim in type_.tensor_type.shape.dim:
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            return None
        extents.append(dim.dim_value)
    return tuple(extents)


def bodies_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The subgraphs of a node, ``then`` before ``else``, others in the order of the file."""
    attributes = [a for a in node.attribute if a.type == _GRAPH]
    if len(attributes) > 1:
        attributes.sort(key=lambda a: a.name == "else_branch")
    return [a.g for a in attributes]


def set_types(graph: onnx.GraphProto, types: Mapping[str, onnx.TypeProto]) -> None:
    """Declare the types of tensors that nodes of the graph write, in place."""
    new = dict.fromkeys(types)
    for value in (*graph.value_info, *graph.output):
        if value.name in types:
            new.pop(value.name, None)
            value.type.CopyFrom(types[value.name])
    for name in new:
        added = graph.value_info.add()
        added.name = name
        added.type.CopyFrom(types[name])
