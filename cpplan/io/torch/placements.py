"""Placements of torch ops that only copy: the arguments of a concatenation in its result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from cpplan.io.torch.effects import Effects, only_kernel, storage_of
from cpplan.io.torch.layouts import Layouts, in_order
from cpplan.model.graph import Placement

_JOINING = (torch.ops.aten.cat.default, torch.ops.aten.stack.default)


def find_placements(
    effects: Effects,
    reads: Sequence[tuple[torch.Tensor, str]],
    outputs: Sequence[str],
    layouts: Layouts,
) -> tuple[Placement, ...]:
    """Placements of the tensors that a node copies whole and unchanged, at fixed sizes.

    Constants are left out, because the plan does not choose their place. Arguments that occur twice
    are left out, too.

    Parameters
    ----------
    reads
        The tensors that the node reads, and their names.
    outputs
        Names of its results.
    """
    call = only_kernel(effects, {storage_of(tensor) for tensor, _ in reads})
    if call is None or call.op not in _JOINING or len(outputs) != 1:
        return ()
    [output] = outputs
    parts, axis = call.args["tensors"], call.args["dim"]
    whole = layouts.value_of(output)
    shapes = [tuple(part.shape) for part in parts]
    if not all(isinstance(extent, int) for shape in shapes for extent in shape):
        return ()
    before = math.prod(whole.shape[: axis % max(1, whole.dim())])
    if before != 1 or not in_order(whole) or layouts.root_of(output) != output:
        return ()
    named = {_place(tensor): name for tensor, name in reversed(reads)}
    times = Counter(map(_place, parts))
    found, offset = [], 0
    for part in parts:
        name = named.get(_place(part))
        nbytes = part.numel() * part.element_size()
        copied = in_order(part) and part.dtype == whole.dtype and times[_place(part)] == 1
        if name is not None and copied and nbytes and not layouts.is_constant(name):
            found.append(Placement(name, output, offset))
        offset += part.numel() * whole.element_size()
    return tuple(found)


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Key that is equal for tensors of the same bytes; text, since symbolic sizes have no hash."""
    return storage_of(tensor), str((tensor.storage_offset(), tuple(tensor.shape), tensor.stride()))
