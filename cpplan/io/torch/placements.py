"""Which torch ops only copy: where the arguments of a concatenation lie within its result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from cpplan.graph import Placement
from cpplan.io.torch.layouts import Layouts, in_order


def find_placements(
    node: Node, values: Mapping[Node, Any], names: Mapping[Node, Any], layouts: Layouts
) -> tuple[Placement, ...]:
    """What the node copies without change and in one piece, and where; at fixed sizes only.

    Constants are left out: they have no place in the arena to choose. So is what occurs twice.
    """
    if node.target is not torch.ops.aten.cat.default:
        return ()
    parts, whole = list(node.args[0]), values[node]
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    shapes = [tuple(values[part].shape) for part in parts]
    if not all(isinstance(extent, int) for shape in shapes for extent in shape):
        return ()
    before = math.prod(whole.shape[: axis % max(1, whole.dim())])
    if before != 1 or not in_order(whole):
        return ()
    found, offset = [], 0
    for part in parts:
        value, name = values[part], names[part]
        nbytes = value.numel() * value.element_size()
        copied = in_order(value) and value.dtype == whole.dtype and parts.count(part) == 1
        if copied and nbytes and not layouts.is_constant(name):
            found.append(Placement(name, names[node], offset))
        offset += value.numel() * whole.element_size()
    return tuple(found)
