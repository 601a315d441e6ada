"""New storages that are larger than the tensors that ops return in them.

Two kinds of op make eager torch allocate them. Ops that write into a copy of a view copy the whole
storage of the view, which so keeps its strides. Some losses add up their terms and return the sum
in the storage of the terms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from cpplan.io.torch.effects import Call, Effects, storage_of

_COPIES = frozenset(
    ("copy", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter")
)
_LOSSES = frozenset(("mse_loss", "smooth_l1_loss", "soft_margin_loss", "binary_cross_entropy"))


def larger_storages(effects: Effects, known: Mapping[int, Any]) -> dict[int, Any]:
    """New storage (see :func:`storage_of`) -> its bytes, if these do not follow from its tensor."""
    found: dict[int, Any] = {}
    for call in effects.calls:
        nbytes = _nbytes(call, {**known, **found})
        if nbytes is not None:
            found[storage_of(call.result)] = nbytes
    return found


def _nbytes(call: Call, known: Mapping[int, Any]) -> Any:
    """Bytes of the storage of an op's result if it is larger than the result, else ``None``."""
    name = call.op._overloadpacket.__name__
    if name in _COPIES and call.op._overloadname == "default":
        source = call.args["self"]
        if not _repeats_elements(source):
            return known.get(storage_of(source), source.untyped_storage().nbytes())
    if name in _LOSSES and call.args["reduction"]:
        terms = torch.broadcast_shapes(call.args["self"].shape, call.args["target"].shape)
        return max(1, math.prod(terms)) * call.result.element_size()
    return None


def _repeats_elements(tensor: torch.Tensor) -> bool:
    """True if elements share bytes because a stride is 0, as in an expanded view."""
    extents = zip(tensor.shape, tensor.stride(), strict=True)
    return any(str(stride) == "0" and str(extent) != "1" for extent, stride in extents)
