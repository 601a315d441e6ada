"""Cost of running a node once, in operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop, sdpa_flop

from cpplan.io.torch.effects import Call, Effects, storage_of
from cpplan.io.torch.extents import Extents
from cpplan.io.torch.values import tensors_in

# torch's counter has formulas only for the kernels of other devices.
_ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: sdpa_flop,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: sdpa_backward_flop,
}


def cost_of(node: Node, effects: Effects, values: Mapping[Node, Any], extents: Extents) -> int:
    """Operations of the kernels that a node runs, at the upper bounds of symbolic sizes.

    A branch counts its more expensive side, and a loop counts one pass.
    """
    return max(
        sum(extents.at_most(_operations(call, effects)) for call in calls)
        for calls in effects.alternatives
    )


def formula_of(target: Any) -> Callable[..., Any] | None:
    """Formula for the operations of a matrix product, convolution or attention, else ``None``.

    The formula takes the arguments of the op, and its result as ``out_val``.
    """
    packet = getattr(target, "_overloadpacket", None)
    return flop_registry.get(packet) or _ATTENTION.get(packet)


def _operations(call: Call, effects: Effects) -> Any:
    formula = formula_of(call.op)
    if formula is not None:
        named = {a.name for a in call.op._schema.arguments if a.kwarg_only}
        args = [value for name, value in call.args.items() if name not in named]
        kwargs = {name: value for name, value in call.args.items() if name in named}
        return formula(*args, **kwargs, out_val=call.result)
    read = tensors_in(tuple(call.args.values()))
    written = any(a.alias_info and a.alias_info.is_write for a in call.op._schema.arguments)
    known = {storage_of(tensor) for tensor in read}
    results = [t for t in tensors_in(call.result) if written or storage_of(t) not in known]
    if not results:
        return 0
    counted = [tensor.numel() for tensor in results]
    if torch.Tag.reduction in call.op.tags:
        return max((tensor.numel() for tensor in read[:1]), default=0)
    return sum(counted)
