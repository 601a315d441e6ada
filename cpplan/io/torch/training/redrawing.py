"""Random numbers drawn again, from the generator's state before the first draw.

The first run of a random op stores the state. A later run sets this state, draws, and restores the
state it found. torch has operators for both; its own partitioner uses them on accelerators.
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
# Results smaller than this multiple of a generator's state are not drawn again.
_STATES = 8
_DEVICES = ("cpu", "cuda")


def state_bytes() -> int:
    """Bytes of the state of the generator."""
    return int(torch.get_rng_state().nbytes)


def writes(node: Node) -> bool:
    """True for a node whose op overwrites an argument."""
    return isinstance(node.target, OpOverload) and bool(node.target._schema.is_mutable)


def may_redraw(node: Node, nbytes: int) -> bool:
    """True for a node that draws from its device's generator and whose results are large."""
    target = node.target
    return (
        isinstance(target, OpOverload)
        and torch.Tag.nondeterministic_seeded in target.tags
        and not writes(node)
        and _device(node) in _DEVICES
        and nbytes >= _STATES * state_bytes()
    )


def write_draw(graph: Graph, node: Node, read: Callable[[Node], Node]) -> tuple[Node, Node]:
    """Write the first run of a random op to a graph; return its result and the state."""
    args, kwargs = map_arg((node.args, dict(node.kwargs)), read)
    both = graph.call_function(run_and_save_rng_state, (node.target, *args), kwargs)
    both.meta = {**node.meta, "val": (_state(node), node.meta["val"])}
    state = graph.call_function(operator.getitem, (both, 0))
    state.meta = {"val": both.meta["val"][0]}
    drawn = graph.call_function(operator.getitem, (both, 1))
    drawn.meta = dict(node.meta)
    return drawn, state


def write_redraw(graph: Graph, node: Node, state: Node, read: Callable[[Node], Node]) -> Node:
    """Write another run of a random op, from its state, to a graph; return its result."""
    args, kwargs = map_arg((node.args, dict(node.kwargs)), read)
    drawn = graph.call_function(run_with_rng_state, (state, node.target, *args), kwargs)
    drawn.meta = dict(node.meta)
    return drawn


def copy_state(graph: Graph, state: Node) -> Node:
    """Write a copy of a state of the same graph, for :func:`write_redraw`; return the copy.

    When a compiler runs the graph without data, torch still stores a real state. Only this op
    accepts a real tensor there.
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
    """A generator state without data, in the mode in which the graph was traced."""
    mode = getattr(_tensors(node)[0], "fake_mode", None)
    state = torch.get_rng_state()
    return state if mode is None else mode.from_tensor(state)
