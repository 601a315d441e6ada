"""Steps that inductor compiles: saved inputs kept as they are, and workspaces of the kernels left.

Inductor runs convolutions by torch's own kernels, in layout *channels last*, and writes most other
ops as loops without workspaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._inductor import config
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from cpplan.io.torch.training.redrawing import writes
from cpplan.io.torch.workspaces import workspace_of

NAME = "inductor"
_CONVOLUTION = torch.ops.aten.convolution.default
# With the position of the weight.
_CONVOLUTIONS = {_CONVOLUTION: 1, torch.ops.aten.convolution_backward.default: 2}
# Ops that torch's own kernels run under inductor, and that allocate beside their results.
_BY_KERNEL = (
    *_CONVOLUTIONS,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
)
_IMAGES = 4  # dimensions of what layouts are changed of


def keep_saved_inputs(forward: GraphModule) -> None:
    """Let inductor save inputs of the forward graph as they are, and not copies in another layout.

    Inductor changes the layout of an input that leads to a convolution. An input that is saved too
    is saved in the new layout: a copy of every weight lives from its convolution to the backward
    pass. Readers are given a view that is made of fixed strides, which inductor copies for each of
    them instead, and frees.
    """
    graph = forward.graph
    if not graph.find_nodes(op="call_function", target=_CONVOLUTION):
        return
    [output] = graph.find_nodes(op="output")
    position = {node: k for k, node in enumerate(graph.nodes)}
    for given in graph.find_nodes(op="placeholder"):
        readers = sorted(
            (node for node in given.users if node is not output), key=position.__getitem__
        )
        if output not in given.users or not readers or any(map(writes, readers)):
            continue
        value = given.meta.get("val")
        if not _may_change_layout(value):
            continue
        sizes, strides = list(value.shape), list(value.stride())
        with graph.inserting_before(readers[0]):
            view = graph.call_function(torch.ops.aten.as_strided.default, (given, sizes, strides))
        view.meta = dict(given.meta)
        for reader in readers:
            reader.replace_input_with(given, view)
    forward.recompile()


def workspace_by_inductor(node: Node, values: Mapping[Node, Any]) -> int:
    """Bytes that a node allocates beside its results where inductor compiles it."""
    if node.target not in _BY_KERNEL:
        return 0
    if node.target not in _CONVOLUTIONS or not _changes_layouts():
        return workspace_of(node, values)
    # Parameters are copied in every call.
    weight = node.args[_CONVOLUTIONS[node.target]]
    given = {
        each: values[each] if each is weight else _in_channels_last(values[each])
        for each in node.all_input_nodes
    }
    return workspace_of(node, given)


def _in_channels_last(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dim() != _IMAGES:
        return value
    with _disable_current_modes():
        return torch.empty(
            value.shape, dtype=value.dtype, device="meta", memory_format=torch.channels_last
        )


def _changes_layouts() -> bool:
    return (
        bool(config.layout_optimization)
        and torch.backends.mkldnn.enabled
        and torch.backends.mkldnn.is_available()
    )


def _may_change_layout(value: Any) -> bool:
    """True for a value of an image's or a weight's shape that is not in *channels last*."""
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == _IMAGES
        and all(isinstance(size, int) for size in (*value.shape, *value.stride()))
        and not value.is_contiguous(memory_format=torch.channels_last)
    )
