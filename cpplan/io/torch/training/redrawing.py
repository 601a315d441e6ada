"""Random numbers drawn again: an op that runs again draws from the generator's state before it.

The first run notes the state, a later one sets it, and puts back the one that it found. torch has
operators for both, with which its own partitioner recomputes random ops on accelerators.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx import Graph, Node, map_arg

STATE = "state"
# Results smaller than this multiple of a generator's state are not worth one.
_STATES = 8
_DEVICES = ("cpu", "cuda")


def state_bytes() -> int:
    """Bytes of the state of the generator."""
    return int(torch.get_rng_state().nbytes)


def writes(node: Node) -> bool:
    """True for a node whose op writes over what it is given."""
    return isinstance(node.target, OpOverload) and bool(node.target._schema.is_mutable)


def may_redraw(node: Node, nbytes: int) -> bool:
    """True for an op that draws from its device's generator, if its results take many bytes."""
    target = node.target
    return (
        isinstance(target, OpOverload)
        and torch.Tag.nondeterministic_seeded in target.tags
        and not writes(node)
        and _device(node) in _DEVICES
        and nbytes >= _STATES * state_bytes()
    )


def write_draw(graph: Graph, node: Node, read: Callable[[Node], Node]) -> tuple[Node, Node]:
    """The result and the state of the first run of a random op, written to a graph."""
    args, kwargs = map_arg((node.args, dict(node.kwargs)), read)
    both = graph.call_function(run_and_save_rng_state, (node.target, *args), kwargs)
    both.meta = {**node.meta, "val": (_state(node), node.meta["val"])}
    state = graph.call_function(operator.getitem, (both, 0))
    state.meta = {"val": both.meta["val"][0]}
    drawn = graph.call_function(operator.getitem, (both, 1))
    drawn.meta = dict(node.meta)
    return drawn, state


def write_redraw(graph: Graph, node: Node, state: Node, read: Callable[[Node], Node]) -> Node:
    """The result of another run of a random op, from its state, written to a graph."""
    args, kwargs = map_arg((node.args, dict(node.kwargs)), read)
    drawn = graph.call_function(run_with_rng_state, (state, node.target, *args), kwargs)
    drawn.meta = dict(node.meta)
    return drawn


def copy_state(graph: Graph, state: Node) -> Node:
    """A copy of a state noted in the same graph, for :func:`write_redraw`.

    Where a compiler runs the graph without data, torch notes a real state all the same, which no op
    without data takes but this one.
    """
    copied = graph.call_function(torch.ops.aten.lift_fresh_copy.default, (state,))
    copied.meta = dict(state.meta)
    return copied


def _device(node: Node) -> str | None:
    found = {t.device.type for t in _tensors(node)}
    return found.pop() if len(found) == 1 else None


def _tensors(node: Node) -> list[torch.Tensor]:
    return [v for v in torch.utils._pytree.tree_leaves(node.meta["val"]) if torch.is_tensor(v)]


def _state(node: Node) -> Any:
    """A fake state of the generator, in the mode that the graph was traced in."""
    mode = getattr(_tensors(node)[0], "fake_mode", None)
    state = torch.get_rng_state()
    return state if mode is None else mode.from_tensor(state)
