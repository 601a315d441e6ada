"""Names of ONNX nodes and tensors: unique ones for all nodes, and new ones that none has yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
