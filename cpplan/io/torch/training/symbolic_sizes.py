"""Symbolic sizes of a traced graph, and their values in a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cpplan.io.torch.values import flatten


def hints_of(module: GraphModule) -> dict[str, int]:
    """Values that symbolic sizes had when the graph was traced, by name."""
    found: dict[str, int] = {}
    for node in module.graph.nodes:
        for size in _sizes(node.meta.get("val")):
            if isinstance(size, torch.SymInt):
                for symbol in size.node.expr.free_symbols:
                    environment = size.node.shape_env
                    hint = environment.replace(symbol).xreplace(environment.backed_var_to_val)
                    if hint.is_number:
                        found[str(symbol)] = int(hint)
    return found


def sizes_of(module: GraphModule) -> tuple[str, ...]:
    """Names of the symbolic sizes on which the bytes of the graph's tensors depend."""
    tensors = [v for node in module.graph.nodes for v in flatten(node.meta.get("val"))]
    symbols = {
        str(symbol)
        for tensor in tensors
        if isinstance(tensor, torch.Tensor)
        for size in _sizes(tensor)
        if isinstance(size, torch.SymInt)
        for symbol in size.node.expr.free_symbols
    }
    return tuple(sorted(symbols))


def at_sizes(value: Any, sizes: Mapping[str, int]) -> Any:
    """The value, a tensor or number, with its symbolic sizes replaced by theirs."""
    if isinstance(value, torch.SymInt):
        expression = value.node.expr
        return int(expression.xreplace({s: sizes[str(s)] for s in expression.free_symbols}))
    if not isinstance(value, torch.Tensor) or all(isinstance(n, int) for n in _sizes(value)):
        return value
    shape, strides = ([at_sizes(n, sizes) for n in of] for of in (value.shape, value.stride()))
    return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")


class SizeReader:
    """Reader of the values of symbolic sizes from a graph's arguments.

    Parameters
    ----------
    inputs
        Placeholders of the graph.
    names
        Names of the sizes; each is read where it stands alone, as an argument or in its shape.
    """

    def __init__(self, inputs: Iterable[Node], names: Sequence[str]):
        places: dict[str, tuple[int, int | None]] = {}
        for k, node in enumerate(inputs):
            value = node.meta.get("val", node.meta.get("example_value"))
            if isinstance(value, torch.SymInt):
                places.setdefault(str(value.node.expr), (k, None))
            elif isinstance(value, torch.Tensor):
                for dim, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt):
                        places.setdefault(str(size.node.expr), (k, dim))
        self._places = [places.get(name) for name in names]

    @property
    def tells_all(self) -> bool:
        """True if the arguments tell the value of every size."""
        return None not in self._places

    def __call__(self, arguments: Sequence[Any]) -> tuple[int | None, ...]:
        """Value of every size, ``None`` for those that the arguments do not tell."""
        return tuple(place and _read(arguments, *place) for place in self._places)

    def all(self, arguments: Sequence[Any]) -> tuple[int, ...]:
        """Value of every size, where the arguments tell all."""
        return tuple(_read(arguments, *place) for place in self._places if place is not None)


def _read(arguments: Sequence[Any], k: int, dim: int | None) -> int:
    """An argument that is a number, or its size along a dimension."""
    return int(arguments[k] if dim is None else arguments[k].shape[dim])


def _sizes(value: Any) -> list[Any]:
    """Sizes, strides and offsets of tensors, and numbers, in a nested value."""
    found: list[Any] = []
    for leaf in flatten(value):
        if isinstance(leaf, torch.Tensor):
            found += [*leaf.shape, *leaf.stride(), leaf.storage_offset()]
        elif isinstance(leaf, torch.SymInt):
            found.append(leaf)
    return found
