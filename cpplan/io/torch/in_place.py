"""Which torch ops may write their result over an argument.

Those that torch tags as point-wise, where an argument has the layout of the result, element for
element: element ``k`` of the result then depends on element ``k`` of that argument and on nothing
else of it. What else the op reads of the same storage must have that layout too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from cpplan.io.torch.layouts import Layouts


def in_place_pairs(
    node: Node, values: Mapping[Node, Any], names: Mapping[Node, Any], layouts: Layouts
) -> tuple[tuple[str, str], ...]:
    """``(result, argument)`` pairs: the kernel may write this result over that argument."""
    output, result = names[node], values[node]
    if torch.Tag.pointwise not in getattr(node.target, "tags", ()) or not isinstance(output, str):
        return ()
    if layouts.root_of(output) != output or not layouts.nbytes(output):
        return ()
    read = [names[given] for given in node.all_input_nodes if isinstance(names.get(given), str)]
    same = {name for name in read if _layout(layouts.value_of(name)) == _layout(result)}
    spoilt = {layouts.root_of(name) for name in read if name not in same}
    begins: dict[str, set[str]] = {}
    for name in same:
        begin = str(layouts.value_of(name).storage_offset())
        begins.setdefault(layouts.root_of(name), set()).add(begin)
    return tuple(
        (output, name)
        for name in dict.fromkeys(read)
        if name in same
        and not layouts.is_constant(name)
        and layouts.root_of(name) not in spoilt
        and len(begins[layouts.root_of(name)]) == 1
        and layouts.nbytes(name) == layouts.nbytes(output)
    )


def _layout(value: torch.Tensor) -> tuple[Any, ...]:
    """Extents and strides, as text: comparing symbolic ones would add assumptions to them."""
    return value.element_size(), str(tuple(value.shape)), str(tuple(value.stride()))
