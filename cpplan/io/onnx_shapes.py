"""Shapes of every tensor of an ONNX model: bound dimensions, inference, folded shape arithmetic.

ONNX's own inference does most of it. Where it stops, two things carry it on: shape arithmetic has
small constant operands and can be computed, and most loops keep the shapes of what they carry.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

import numpy as np

from cpplan.errors import InputError
from cpplan.io.onnx_kernels import Array, make_kernel, to_numpy
from cpplan.io.onnx_loops import settle_loop
from cpplan.io.onnx_types import bodies_of, static_shape, types_of
from cpplan.io.onnx_views import RANDOM, is_standard

if TYPE_CHECKING:
    import onnx

    Types = MutableMapping[str, onnx.TypeProto]
    Values = MutableMapping[str, Array]

SMALL = 4096  # elements: what shape arithmetic works on is far below, weights are far above


def bind_dims(model: onnx.ModelProto, dims: Mapping[str, int]) -> None:
    """Give the symbolic dimensions of the model's inputs their values, in place.

    Inference loses symbols on its way, so that they must be bound before. Shapes recorded for other
    tensors are bound too where that leaves no symbol, else forgotten: inference finds them again.

    Raises
    ------
    InputError
        If a symbol stays unbound, ``dims`` names one that the model does not have or gives it no
        extent, or an input has an unknown extent without a name.
    """
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {tensor.values.name for tensor in graph.sparse_initializer}
    inputs = [value for value in graph.input if value.name not in constants]
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
    for value in inputs:
        bind_value(value, dims)
        _check_bound(value)
    for value in [*graph.value_info, *graph.output]:
        bind_value(value, dims)
        tensor_type = value.type.tensor_type
        if value.type.HasField("tensor_type") and static_shape(value.type) is None:
            tensor_type.ClearField("shape")


def infer_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the types of its tensors filled in, as far as they can be known.

    Raises
    ------
    InputError
        If ONNX's inference rejects the model, or a loop carries a tensor whose shape changes.
    """
    import onnx
    from onnx.shape_inference import InferenceError

    opsets = {entry.domain: entry.version for entry in model.opset_import}
    settled: set[tuple[str, str]] = set()
    while True:
        try:
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except (InferenceError, RuntimeError, ValueError, TypeError) as error:
            raise InputError(f"not a valid ONNX model: {' '.join(str(error).split())}") from error
        _answer_shapes(model.graph, ChainMap())
        if _all_known(model.graph):
            return model
        if not _complete(model.graph, ChainMap(), ChainMap(), opsets, settled):
            return model


def bind_value(value: onnx.ValueInfoProto, dims: Mapping[str, int]) -> None:
    """Give the symbolic dimensions of one declared tensor their values, in place."""
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_param in dims:
            dim.dim_value = dims[dim.dim_param]


def _check_bound(value: onnx.ValueInfoProto) -> None:
    if not value.type.HasField("tensor_type"):
        return
    if not value.type.tensor_type.HasField("shape"):
        raise InputError(f"input {value.name!r} has no shape: expected one in the model")
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if dim.dim_param:
            raise InputError(
                f"input {value.name!r}: dimension {dim.dim_param!r} is unbound: give it an extent, "
                f"dims={{{dim.dim_param!r}: ...}} or --dim {dim.dim_param}=..."
            )
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            raise InputError(
                f"input {value.name!r}: the extent of axis {axis} is unknown and has no name: "
                "expected a number or a symbol in the model"
            )


def _answer_shapes(graph: onnx.GraphProto, types: ChainMap[str, onnx.TypeProto]) -> None:
    """Put constants where nodes only ask for a tensor's shape: it need not be kept for that."""
    import onnx

    types.update(types_of(graph))
    for node in graph.node:
        for body in bodies_of(node):
            _answer_shapes(body, types.new_child())
        shape = static_shape(types.get(node.input[0])) if len(node.input) == 1 else None
        if shape is None or not is_standard(node) or len(node.output) != 1:
            continue
        if node.op_type == "Shape":
            bounds = {a.name: a.i for a in node.attribute}
            answer = np.array(shape[bounds.get("start") : bounds.get("end")], np.int64)
        elif node.op_type == "Size":
            answer = np.array(math.prod(shape), np.int64)
        else:
            continue
        value = onnx.numpy_helper.from_array(answer)
        node.CopyFrom(onnx.helper.make_node("Constant", [], node.output, node.name, value=value))


def _all_known(graph: onnx.GraphProto) -> bool:
    types = types_of(graph)
    return all(
        all(static_shape(types.get(name)) is not None for name in node.output if name)
        and all(_all_known(body) for body in bodies_of(node))
        for node in graph.node
    )


def _complete(
    graph: onnx.GraphProto,
    values: ChainMap[str, Array],
    types: ChainMap[str, onnx.TypeProto],
    opsets: Mapping[str, int],
    settled: set[tuple[str, str]],
) -> bool:
    """One pass over the nodes; whether it found anything that inference did not know."""
    import onnx

    types.update(types_of(graph))
    for tensor in graph.initializer:
        if np.prod(tensor.dims, dtype=float) <= SMALL and not tensor.external_data:
            values[tensor.name] = to_numpy(tensor)
    progress, nodes = False, []
    for node in graph.node:
        for body in bodies_of(node):
            progress |= _complete(body, values.new_child(), types.new_child(), opsets, settled)
        if is_standard(node) and node.op_type == "Loop":
            progress |= settle_loop(graph, node, values, types, settled)
        results = _small_results(node, values, types, opsets)
        values.update(results)
        if results and node.op_type != "Constant":
            progress = True
            for name, value in results.items():
                tensor = onnx.numpy_helper.from_array(value, name)
                nodes.append(onnx.helper.make_node("Constant", [], [name], node.name, value=tensor))
        else:
            nodes.append(node)
    if progress:
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(nodes)
    return progress


def _small_results(
    node: onnx.NodeProto, values: Values, types: Types, opsets: Mapping[str, int]
) -> dict[str, Array]:
    """What the node computes, if that is known now and small; else nothing."""
    if not is_standard(node) or node.op_type in RANDOM or bodies_of(node):
        return {}
    inputs = [name for name in node.input if name]
    if any(name not in values for name in inputs):
        return {}
    for name in node.output:
        shape = static_shape(types.get(name))
        if shape is not None and np.prod(shape, dtype=float) > SMALL:
            return {}
    try:
        results = make_kernel(node, {}, opsets)({name: values[name] for name in inputs})
    except InputError:
        return {}  # no kernel, no value: whether one was needed is seen by the shapes left unknown
    numbers = all(a.dtype.kind != "O" and a.size <= SMALL for a in results.values())
    return results if numbers else {}
