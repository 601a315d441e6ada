"""Binding the symbolic dimensions of an ONNX model's inputs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.kernels import to_numpy
from cpplan.io.onnx.types import bodies_of, dtype_name, static_shape
from cpplan.model.dtypes import tensor_bytes
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx

# Operators whose values decide how many results they have.
COUNTED = frozenset(["Compress", "NonMaxSuppression", "NonZero", "Unique"])
# The name of all their counts at once.
EVERY_COUNT = "[count]"
HIGHEST = 2**62  # bytes: above this, an address plus a size would not fit into 64 bits


class OpenDimsError(InputError):
    """Error for dimensions that have no extent yet.

    Attributes
    ----------
    names
        Names of all these dimensions, in the order of the model's inputs.
    extents
        An extent for each that may be tried.
    """

    def __init__(self, names: Sequence[str], extents: Mapping[str, int]):
        self.names, self.extents = tuple(names), dict(extents)
        listed = ", ".join(map(repr, names))
        options = " ".join(f"--dim {shlex.quote(f'{name}={extents[name]}')}" for name in names)
        super().__init__(
            f"{f'dimension {listed} is' if len(names) == 1 else f'dimensions {listed} are'} "
            f"unbound: give extents, e.g. {options} (dims={ {n: extents[n] for n in names} }), or "
            f"bounds, e.g. --dim {shlex.quote(f'{self.names[0]}=1..128')}"
        )


def name_open_axes(graph: onnx.GraphProto) -> None:
    """Name every axis of the model's inputs that has neither extent nor name, in place.

    The name is ``input[axis]``. Exporters write -1, an empty field or a question mark for such an
    axis.
    """
    for value in model_inputs(graph):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            unknown = not dim.HasField("dim_value") or dim.dim_value < 0
            if dim.dim_param in ("", "?") and unknown:
                dim.dim_param = axis_name(value.name, axis)


def axis_name(tensor: str, axis: int) -> str:
    """The name for an axis that the model does not name: ``input[axis]``."""
    return f"{tensor}[{axis}]"


def bind_dims(model: onnx.ModelProto, dims: Mapping[str, int]) -> dict[str, dict[int, str]]:
    """Give the open dimensions of the model's inputs their values, in place.

    Returns the axes of the model's outputs that it declares by names, with these names.

    Inference loses symbols, so they must be bound before it. Declared extents of other tensors are
    bound too. An axis stored as 0 has no elements unless it is bound. An input of one integer can
    be given a value (which may decide the branch of an If); it is then a constant of the model.

    Raises
    ------
    OpenDimsError
        If dimensions stay unbound; names all of them.
    InputError
        If ``dims`` names a dimension that the model does not have, or gives it a value that is not
        an extent, or if an input has no shape.
    """
    graph = model.graph
    inputs = model_inputs(graph)
    symbols = open_dims(graph)
    empty = {
        axis_name(value.name, axis)
        for value in inputs
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.HasField("dim_value") and dim.dim_value == 0
    }
    scalars = {value.name: value for value in inputs if _is_count(value)}
    others = {*empty, *scalars, *run_time_names(graph)}
    for symbol, extent in dims.items():
        if symbol not in symbols and symbol not in others:
            known = f"it has {', '.join(symbols)}" if symbols else "it has none"
            raise InputError(f"the model has no symbolic dimension {symbol!r}: {known}")
        if not isinstance(extent, int) or isinstance(extent, bool) or extent < 0:
            raise InputError(f"dimension {symbol!r} must be a non-negative integer, not {extent!r}")
        if extent >= HIGHEST:
            raise InputError(f"dimension {symbol!r} must be less than 2**62, not {extent}")
    for value in inputs:
        form = value.type
        if form.HasField("tensor_type") and not form.tensor_type.HasField("shape"):
            raise InputError(f"input {value.name!r} has no shape: expected one in the model")
    unbound = [symbol for symbol in symbols if symbol not in dims]
    if unbound:
        raise OpenDimsError(unbound, dict.fromkeys(unbound, 1))
    for value in inputs:
        bind_input(value, dims)
        _check_size(value)
    for name in scalars.keys() & dims.keys() - symbols.keys():
        graph.initializer.append(_stored(scalars[name], dims[name]))
    labelled = {
        value.name: {
            k: d.dim_param for k, d in enumerate(value.type.tensor_type.shape.dim) if d.dim_param
        }
        for value in graph.output
    }
    _bind_inner(graph, dims)
    return labelled


def bound_value(value: onnx.ValueInfoProto, dims: Mapping[str, int]) -> Array | None:
    """The value given to an input of one integer, as an array; ``None`` for other inputs."""
    if value.name not in dims or not _is_count(value):
        return None
    return to_numpy(_stored(value, dims[value.name]))


def _is_count(value: onnx.ValueInfoProto) -> bool:
    shape = static_shape(value.type)
    if shape not in ((), (1,)):
        return False
    return (dtype_name(value.type.tensor_type.elem_type) or "").startswith(("int", "uint"))


def _stored(value: onnx.ValueInfoProto, number: int) -> onnx.TensorProto:
    import onnx

    element = value.type.tensor_type.elem_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    shape = static_shape(value.type) or ()
    try:
        return onnx.helper.make_tensor(value.name, element, shape, np.full(shape, number, dtype))
    except (OverflowError, ValueError) as error:
        raise InputError(f"input {value.name!r} is of {dtype}: {number} does not fit") from error


def open_dims(graph: onnx.GraphProto) -> dict[str, list[tuple[onnx.ValueInfoProto, int]]]:
    """Names of the open dimensions of the model's inputs -> the inputs and axes that have them."""
    places: dict[str, list[tuple[onnx.ValueInfoProto, int]]] = {}
    for value in model_inputs(graph):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                places.setdefault(dim.dim_param, []).append((value, axis))
    return places


def bind_input(value: onnx.ValueInfoProto, dims: Mapping[str, int]) -> None:
    """Give the open axes of one input of the model their values, named or not, in place."""
    bind_value(value, dims)
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        name = axis_name(value.name, axis)
        if name in dims and dim.dim_param in ("", "?") and dim.dim_value <= 0:
            dim.dim_value = dims[name]


def run_time_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Names of numbers that only values decide: turns of loops, and counts of results."""
    for node in graph.node:
        if node.op_type == "Loop":
            yield turns_name(node)
        elif node.op_type in COUNTED:
            yield from (count_name(node), EVERY_COUNT)
        for body in bodies_of(node):
            yield from run_time_names(body)


def turns_name(loop: onnx.NodeProto) -> str:
    """The name of the number of turns of a Loop: ``op[turns]``."""
    return f"{loop.name}[turns]"


def count_name(node: onnx.NodeProto) -> str:
    """The name of the number of an operator's results: ``op[count]``."""
    return node.name + EVERY_COUNT


def model_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The declared inputs of a model that the caller gives: all except its constants."""
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {tensor.values.name for tensor in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in constants]


def bind_value(value: onnx.ValueInfoProto, dims: Mapping[str, int]) -> None:
    """Give the symbolic dimensions of one declared tensor their values, in place."""
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_param in dims:
            dim.dim_value = dims[dim.dim_param]


def _bind_inner(graph: onnx.GraphProto, dims: Mapping[str, int]) -> None:
    """Bind the declared extents of tensors other than the model's inputs, in bodies too."""
    for value in (*graph.value_info, *graph.output):
        bind_value(value, dims)
    for node in graph.node:
        for body in bodies_of(node):
            for value in body.input:
                bind_value(value, dims)
            _bind_inner(body, dims)


def _check_size(value: onnx.ValueInfoProto) -> None:
    """Raise if an input takes 2**62 bytes or more: inference would overflow silently."""
    shape = static_shape(value.type)
    dtype = None if shape is None else dtype_name(value.type.tensor_type.elem_type)
    if shape is not None and dtype is not None and tensor_bytes(shape, dtype) >= HIGHEST:
        raise InputError(
            f"input {value.name!r}: {dtype}{list(shape)} takes {tensor_bytes(shape, dtype)} B: "
            "expected less than 2**62"
        )
