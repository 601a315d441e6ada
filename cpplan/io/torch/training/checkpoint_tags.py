"""Checkpoint regions in a joint graph: values that they save, and values computed again.

``torch.utils.checkpoint`` leaves tags at the nodes. A node that is to be computed again is copied
to the second half, whose readers use the copy; so its first value is not saved.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

AGAIN = "cpplan_again"
_AGAIN = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
_SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


def is_saved(node: Node) -> bool:
    """True if the policy of a checkpoint region saves the node's value."""
    return node.meta.get("recompute") in _SAVED


def repeat_checkpointed(module: GraphModule, second: set[Node], spoilt: set[Node]) -> None:
    """Copy nodes that checkpoint regions compute again to before their readers in the second half.

    Results of random ops, and tensors that the graph overwrites, are saved all the same.

    Parameters
    ----------
    second
        The nodes of the second half, which depend on gradients.
    spoilt
        Nodes that depend on a tensor overwritten between the halves: their values are saved.
    """
    if not any(_is_again(node) for node in module.graph.nodes):
        return
    from torch._functorch.partitioners import cleanup_recompute_tags

    cleanup_recompute_tags(module, is_default_partition=False)
    again = {node for node in module.graph.nodes if _is_again(node)} - spoilt
    copies: dict[Node, Node] = {}

    def repeat(node: Node, reader: Node) -> Node:
        waiting = [node]
        while waiting:
            last = waiting[-1]
            missing = [g for g in last.all_input_nodes if g in again and g not in copies]
            if last in copies:
                waiting.pop()
            elif missing:
                waiting += missing
            else:
                with module.graph.inserting_before(reader):
                    copied = module.graph.node_copy(last, lambda given: copies.get(given, given))
                copied.meta = dict(last.meta)
                copied.meta[AGAIN] = True
                copied.meta.pop("recompute")
                copied.meta["partitioner_tag"] = "is_backward"
                copies[last] = copied
                waiting.pop()
        return copies[node]

    for reader in list(module.graph.nodes):
        if reader in second and reader.op != "output":
            for given in list(reader.all_input_nodes):
                if given in again:
                    reader.replace_input_with(given, repeat(given, reader))
    module.graph.lint()
    module.recompile()


def _is_again(node: Node) -> bool:
    if node.op != "call_function" or node.meta.get("recompute") not in _AGAIN:
        return False
    tags = getattr(node.target, "tags", ())
    schema = getattr(node.target, "_schema", None)
    return torch.Tag.nondeterministic_seeded not in tags and not (schema and schema.is_mutable)
