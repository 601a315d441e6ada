"""Unique names for all ONNX nodes, which the format does not require."""

from __future__ import annotations

from collections.abc import Iterable
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
