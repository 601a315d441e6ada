"""Nodes that hold graph modules of their own: branches, and parts that run under another setting.

What ``torch.cond`` returns is new in either branch. Parts that run without gradients, or with
another autocast setting, may hand back views of what they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Interpreter, Node

from cpplan.errors import InputError

_WRAPPERS = ("wrap_with_autocast", "wrap_with_set_grad_enabled")


def held_by(node: Node, values: Mapping[Node, Any]) -> list[GraphModule]:
    """The graph modules of a node, of which one runs."""
    if not isinstance(node.target, HigherOrderOperator):
        return []
    return [
        values[given] for given in node.all_input_nodes if isinstance(values[given], GraphModule)
    ]


def alternatives(target: HigherOrderOperator, args: Any) -> tuple[list[GraphModule], Any]:
    """Of a node's arguments, the graph modules of which one runs, and what it is given.

    Raises
    ------
    InputError
        If this kind of node is not understood.
    """
    name = target.name()
    if name == "cond":
        _, one, other, operands = args
        return [one, other], operands
    if name in _WRAPPERS:
        at = next(k for k, given in enumerate(args) if isinstance(given, GraphModule))
        return [args[at]], args[at + 1 :]
    raise InputError(f"the higher-order operator {name!r} is not understood")


def run(module: GraphModule, operands: Any) -> Any:
    """What a graph module returns, and those that it holds itself, on tensors without data."""
    return _Runner(module).run(*operands)


class _Runner(Interpreter):  # type: ignore[misc]
    def call_function(self, target: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        if not isinstance(target, HigherOrderOperator):
            return super().call_function(target, args, kwargs)
        modules, operands = alternatives(target, args)
        results = [run(module, operands) for module in modules]
        return results[0]
