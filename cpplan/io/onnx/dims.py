"""Binding the symbolic dimensions of an ONNX model's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cpplan.dtypes import tensor_bytes
from cpplan.errors import InputError
from cpplan.io.onnx.types import bodies_of, dtype_name, static_shape

if TYPE_CHECKING:
    import onnx

HIGHEST = 2**62  # bytes: beyond it an address plus a size would no longer fit into 64 bits


def bind_dims(model: onnx.ModelProto, dims: Mapping[str, int]) -> None:
    """Give the symbolic dimensions of the model's inputs their values, in place.

    Inference loses symbols on its way, so that they must be bound before. What is declared of other
    tensors is bound too.

    Raises
    ------
    InputError
        If a symbol stays unbound, ``dims`` names one that the model does not have or gives it no
        extent, or an input has an unknown extent without a name.
    """
    graph = model.graph
    inputs = model_inputs(graph)
    symbols = {
        dim.dim_param: None
        for value in inputs
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    }
    for symbol, extent in dims.items():
        if symbol not in symbols:
            known = f"it has {', '.join(symbols)}" if symbols else "it has none"
            raise InputError(f"the model has no symbolic dimension {symbol!r}: {known}")
        if not isinstance(extent, int) or isinstance(extent, bool) or extent < 0:
            raise InputError(f"dimension {symbol!r} must be a non-negative integer, not {extent!r}")
        if extent >= HIGHEST:
            raise InputError(f"dimension {symbol!r} must be less than 2**62, not {extent}")
    for value in inputs:
        bind_value(value, dims)
        _check_bound(value)
        _check_size(value)
    _bind_inner(graph, dims)


def model_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """What a model is given when it runs: what it declares as inputs, but for its constants."""
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {tensor.values.name for tensor in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in constants]


def bind_value(value: onnx.ValueInfoProto, dims: Mapping[str, int]) -> None:
    """Give the symbolic dimensions of one declared tensor their values, in place."""
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_param in dims:
            dim.dim_value = dims[dim.dim_param]


def _bind_inner(graph: onnx.GraphProto, dims: Mapping[str, int]) -> None:
    """Bind what is declared of tensors that are no inputs of the model, in bodies too."""
    for value in (*graph.value_info, *graph.output):
        bind_value(value, dims)
    for node in graph.node:
        for body in bodies_of(node):
            for value in body.input:
                bind_value(value, dims)
            _bind_inner(body, dims)


def _check_bound(value: onnx.ValueInfoProto) -> None:
    if not value.type.HasField("tensor_type"):
        return
    if not value.type.tensor_type.HasField("shape"):
        raise InputError(f"input {value.name!r} has no shape: expected one in the model")
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if dim.dim_param:
            raise InputError(
                f"input {value.name!r}: dimension {dim.dim_param!r} is unbound: give it an extent, "
                f"dims={{{dim.dim_param!r}: ...}} or --dim {dim.dim_param}=..., or bounds, "
                f"--dim {dim.dim_param}=1..128"
            )
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            raise InputError(
                f"input {value.name!r}: the extent of axis {axis} is unknown and has no name: "
                "expected a number or a symbol in the model"
            )


def _check_size(value: onnx.ValueInfoProto) -> None:
    """Inference multiplies extents in 64 bits, and does not notice when they overflow."""
    shape = static_shape(value.type)
    dtype = None if shape is None else dtype_name(value.type.tensor_type.elem_type)
    if shape is not None and dtype is not None and tensor_bytes(shape, dtype) >= HIGHEST:
        raise InputError(
            f"input {value.name!r}: {dtype}{list(shape)} takes {tensor_bytes(shape, dtype)} B: "
            "expected less than 2**62"
        )
