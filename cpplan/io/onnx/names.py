"""Names of ONNX nodes and tensors: what is read, and in which order; renaming, unique new names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from cpplan.io.onnx.types import bodies_of

if TYPE_CHECKING:
    import onnx


def unique_names(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """Unique names for nodes: their own, or type and position, numbered if already taken."""
    listed = list(nodes)
    given = {node.name for node in listed}
    last: dict[str, int] = {}
    names: dict[str, None] = {}
    for k, node in enumerate(listed):
        name = base = node.name or f"{node.op_type}_{k}"
        while name in names or (name in given and name != node.name):
            last[base] = last.get(base, 0) + 1
            name = f"{base}_{last[base]}"
        names[name] = None
    return list(names)


def name_nodes(proto: onnx.GraphProto) -> None:
    """Give every node a unique name, in place, for use in messages and plans."""
    for node, name in zip(proto.node, unique_names(proto.node), strict=True):
        node.name = name
        for body in bodies_of(node):
            name_nodes(body)


def tensor_names(proto: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Names that tensors of a graph with these nodes have, those of bodies too; some twice."""
    for value in (*proto.input, *proto.output, *proto.value_info, *proto.initializer):
        yield value.name
    for sparse in proto.sparse_initializer:
        yield sparse.values.name
    for node in nodes:
        yield from (*node.input, *node.output)
        for body in bodies_of(node):
            yield from tensor_names(body, body.node)


class FreshNames:
    """A supply of names, each given once and none already taken."""

    def __init__(self, taken: Iterable[str]):
        self._taken = set(taken)

    def name(self, wanted: str, number: int | None = None) -> str:
        """The wanted name, or ``wanted~number``; if it is taken, the next free number."""
        found = wanted if number is None else f"{wanted}~{number}"
        number = number or 0
        while found in self._taken:
            number += 1
            found = f"{wanted}~{number}"
        self._taken.add(found)
        return found


def reads_of(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads: its inputs, then those its bodies capture; some names twice."""
    yield from node.input
    for body in bodies_of(node):
        inside = set(_given(body))
        for inner in body.node:
            yield from (name for name in reads_of(inner) if name not in inside)
            inside.update(inner.output)
        yield from (value.name for value in body.output if value.name not in inside)


def sort_nodes(graph: onnx.GraphProto) -> None:
    """List nodes, in place, after those that write what they read, if the file does not.

    ONNX demands it, but converters append casts, and runtimes sort nodes themselves. Of the nodes
    that can run, the first in the file is next. Nodes that wait for each other stay as they are.
    O(n log n) for n reads.
    """
    nodes = list(graph.node)
    writer = {name: k for k, node in enumerate(nodes) for name in node.output if name}
    waiting, readers = [0] * len(nodes), [list[int]() for _ in nodes]
    late = False
    for k, node in enumerate(nodes):
        for body in bodies_of(node):
            sort_nodes(body)
        for before in {writer[name] for name in reads_of(node) if name in writer}:
            late |= before > k
            waiting[k] += 1
            readers[before].append(k)
    ready = [k for k, count in enumerate(waiting) if count == 0]
    heapify(ready)
    order = []
    while late and ready:
        order.append(heappop(ready))
        for reader in readers[order[-1]]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heappush(ready, reader)
    if late and len(order) == len(nodes):
        graph.node.extend(nodes[k] for k in order)
        del graph.node[: len(nodes)]


def rebind(
    node: onnx.NodeProto, names: Mapping[str, str], rename: Callable[[str], str] = str
) -> None:
    """Rename, in place, the tensors that the node and its bodies take from outside."""
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
