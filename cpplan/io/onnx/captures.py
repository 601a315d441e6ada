"""Names that an ONNX node and its bodies read, and their renaming."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from cpplan.io.onnx.types import bodies_of

if TYPE_CHECKING:
    import onnx


def reads_of(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads: its inputs, then those its bodies capture; some names twice."""
    yield from node.input
    for body in bodies_of(node):
        inside = set(_given(body))
        for inner in body.node:
            yield from (name for name in reads_of(inner) if name not in inside)
            inside.update(inner.output)
        yield from (value.name for value in body.output if value.name not in inside)


def rebind(
    node: onnx.NodeProto, names: Mapping[str, str], rename: Callable[[str], str] = str
) -> None:
    """Rename, in place, the tensors that the node and its bodies take from outside.

    Parameters
    ----------
    names
        Old name -> new name; others keep their names.
    rename
        Function from the name of a tensor that a body defines to its new name, called once for
        each. If left out, these tensors keep their names.
    """
    node.input[:] = [names.get(name, name) for name in node.input]
    for body in bodies_of(node):
        scope = {**names, **{name: rename(name) for name in _given(body)}}
        for inner in body.node:
            rebind(inner, scope, rename)
            scope.update({name: rename(name) for name in inner.output if name})
            inner.output[:] = [scope.get(name, name) for name in inner.output]
        sparse = (tensor.values for tensor in body.sparse_initializer)
        values = (*body.input, *body.output, *body.value_info)
        for named in (*values, *body.initializer, *sparse):
            named.name = scope.get(named.name, named.name)
        for note in body.quantization_annotation:
            note.tensor_name = scope.get(note.tensor_name, note.tensor_name)


def _given(body: onnx.GraphProto) -> dict[str, None]:
    """Names of the tensors that a body has from its start: inputs and constants."""
    sparse = (tensor.values for tensor in body.sparse_initializer)
    return dict.fromkeys(named.name for named in (*body.input, *body.initializer, *sparse))
