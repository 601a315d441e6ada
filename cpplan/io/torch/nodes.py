"""Ops among the nodes of a graph module, and their names."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from torch.fx import Node

from cpplan.io.torch.values import CHECKS, tensors_in

# The name of a tensor; for a node with several results, nested lists and dictionaries of names.
Names = Any
_SIZES = ("sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "_assert_tensor_metadata")


def is_part(node: Node, values: Mapping[Node, Any]) -> bool:
    """True if a node only picks one of several results."""
    whole = node.args[0] if node.args else None
    picks = node.op == "call_function" and node.target is operator.getitem
    return picks and isinstance(whole, Node) and isinstance(values[whole], (tuple, list, dict))


def is_op(node: Node, values: Mapping[Node, Any]) -> bool:
    """True if a node accesses the bytes of tensors."""
    if node.op not in ("call_function", "call_method", "call_module") or is_part(node, values):
        return False
    if tensors_in(values[node]):
        return True
    schema = getattr(node.target, "_schema", None)
    if schema is not None and schema.name.partition("::")[2] in _SIZES:
        return False
    if node.op == "call_method" and node.target in ("size", "dim", "numel", "stride"):
        return False
    if node.target is getattr or node.target == CHECKS:
        return False
    return bool(tensors_in([values[given] for given in node.all_input_nodes]))


def names_in(names: Names) -> list[str]:
    """The names in nested lists and dictionaries, as one list."""
    if isinstance(names, dict):
        names = list(names.values())
    if isinstance(names, list):
        return [name for part in names for name in names_in(part)]
    return [] if names is None else [names]


def kind_of(node: Node) -> str:
    """The kind of a node's op: ``aten.relu.default``, ``module layer1.0``, ``getitem``."""
    target = node.target
    if isinstance(target, str):
        return f"module {target}" if node.op == "call_module" else target
    return str(target) if hasattr(target, "_schema") else getattr(target, "__name__", str(target))
