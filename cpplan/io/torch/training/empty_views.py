"""Views without elements, which are made new tensors."""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node


def renew_empty_views(module: GraphModule) -> None:
    """Replace views without elements by new tensors without elements.

    A view keeps the whole storage of its base, also if it has no elements, as the part of heads
    that rotary positions leave as it is. A plan counts no bytes for it.
    """
    for node in list(module.graph.nodes):
        if _is_empty_view(node):
            value = node.meta["val"]
            with module.graph.inserting_before(node):
                made = module.graph.call_function(
                    torch.ops.aten.full.default,
                    (list(value.shape), 0),
                    {"dtype": value.dtype, "device": value.device},
                )
            made.meta = {**node.meta, "val": value.new_empty(value.shape)}
            node.replace_all_uses_with(made)
            module.graph.erase_node(node)


def _is_empty_view(node: Node) -> bool:
    target, value = node.target, node.meta.get("val")
    return (
        isinstance(target, OpOverload)
        and any(returned.alias_info is not None for returned in target._schema.returns)
        and not target._schema.is_mutable
        and isinstance(value, torch.Tensor)
        and any(isinstance(size, int) and size == 0 for size in value.shape)
        and all(isinstance(size, int) for size in value.shape)
    )
