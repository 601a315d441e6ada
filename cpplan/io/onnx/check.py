"""Checks of an ONNX graph's nodes and constants that need no shapes.

Nodes are checked one by one, each without its bodies, so that a message names the faulty node, and
weights that were not loaded do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from cpplan.io.onnx.types import bodies_of, dtype_name
from cpplan.io.onnx.views import OF_RUNTIME
from cpplan.model.dtypes import BITS, tensor_bytes
from cpplan.model.errors import InputError
from cpplan.model.printable import quote

if TYPE_CHECKING:
    import onnx
    from onnx.checker.C import CheckerContext

DATA = (
    "raw_data",
    "float_data",
    "double_data",
    "int32_data",
    "int64_data",
    "uint64_data",
    "string_data",
)


def check_nodes(graph: onnx.GraphProto, opsets: Mapping[str, int], ir_version: int) -> None:
    """Check the arity and the attributes of every node against its operator's definition.

    Nodes of domains that ONNX does not define are not checked.
    """
    _check_nodes(graph, _context(opsets, ir_version))


def _context(opsets: Mapping[str, int], ir_version: int) -> CheckerContext:
    import onnx

    context = onnx.checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = dict(opsets)
    return context


def check_constants(graph: onnx.GraphProto) -> None:
    """Check that every constant stored in the model has as many elements as its shape says."""
    for name, tensor in _constants(graph):
        _check_data(name, tensor)
    for node in graph.node:
        for body in bodies_of(node):
            check_constants(body)


def _check_nodes(graph: onnx.GraphProto, context: CheckerContext) -> None:
    import onnx

    for node in graph.node:
        alone = onnx.NodeProto()
        alone.CopyFrom(node)
        for attribute in alone.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                attribute.g.Clear()
                attribute.g.name = "body"
        of_node = context
        if not alone.domain and alone.op_type in OF_RUNTIME:
            alone.op_type, least = OF_RUNTIME[alone.op_type]
            opset = max(least, context.opset_imports.get("", 1))
            of_node = _context({**context.opset_imports, "": opset}, context.ir_version)
        try:
            onnx.checker.check_node(alone, of_node)
        except onnx.checker.ValidationError as error:
            reason = " ".join(str(error).partition("==> Context")[0].split())
            raise InputError(f"op {node.name!r} ({node.op_type}): {reason}") from error
        if node.op_type == "Einsum" and not alone.domain:
            _check_equation(node)
        if node.op_type == "Split" and not alone.domain:
            _check_parts(node)
        for body in bodies_of(node):
            _check_nodes(body, context)


def _check_parts(node: onnx.NodeProto) -> None:
    """Check the number of parts of a Split: ONNX's inference gives a shape to each of them."""
    parts = next((a.i for a in node.attribute if a.name == "num_outputs"), len(node.output))
    if parts != len(node.output):
        raise InputError(
            f"op {node.name!r} (Split): num_outputs is {parts}, but there are {len(node.output)}"
        )


def _check_equation(node: onnx.NodeProto) -> None:
    """Check the equation of an Einsum, for ONNX's inference may run for hours on a malformed one.

    A term is made of letters and at most one ellipsis.
    """
    equation = next(a.s for a in node.attribute if a.name == "equation").decode(errors="replace")
    terms, _, result = equation.replace(" ", "").partition("->")
    for term in (*terms.split(","), result):
        letters = term.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise InputError(
                f"op {node.name!r} (Einsum): {quote(term)} is no term of letters with at most one "
                "ellipsis"
            )


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, sparse.values
        yield f"indices of {sparse.values.name}", sparse.indices
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield f"{node.name}.{attribute.name}", attribute.t


def _check_data(name: str, tensor: onnx.TensorProto) -> None:
    if any(extent < 0 for extent in tensor.dims):
        raise InputError(f"constant {name!r} has a negative extent in {list(tensor.dims)}")
    dtype = dtype_name(tensor.data_type)
    if tensor.external_data:
        return
    held = [field for field in DATA if len(getattr(tensor, field))]
    if len(held) > 1:
        raise InputError(f"constant {name!r} holds data twice: in {held[0]} and in {held[1]}")
    field = held[0] if held else "raw_data"
    count = int(np.prod(tensor.dims, dtype=object))
    if field == "raw_data" and dtype is not None:
        wanted, unit = tensor_bytes(tensor.dims, dtype), "bytes"
    elif dtype is not None and BITS[dtype] < 8:
        wanted, unit = tensor_bytes(tensor.dims, dtype), "packed entries"
    else:
        wanted, unit = count * (2 if (dtype or "").startswith("complex") else 1), "entries"
    found = len(getattr(tensor, field))
    if found != wanted:
        raise InputError(
            f"constant {name!r}: {list(tensor.dims)} elements of {dtype or 'string'} take {wanted} "
            f"{unit}, but its data has {found}"
        )
