"""Nodes that hold graph modules: branches, loops, and parts run under another setting.

``torch.cond`` returns new tensors from either branch, and a loop returns new tensors after any
number of passes. Parts that run without gradients, or with another autocast setting, may return
views of their operands.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Interpreter, Node

from cpplan.model.errors import InputError

_LOOP = "while_loop"
_MOST_BITS, _MOST_EXPONENT_BITS = 64, 7
_WRAPPERS = ("wrap_with_autocast", "wrap_with_set_grad_enabled")


def held_by(node: Node, values: Mapping[Node, Any]) -> list[GraphModule]:
    """The graph modules that a node holds; only one of them runs at a time."""
    if not isinstance(node.target, HigherOrderOperator):
        return []
    return [
        values[given] for given in node.all_input_nodes if isinstance(values[given], GraphModule)
    ]


def carries_over(node: Node) -> bool:
    """True if a node runs a graph module repeatedly, each time on the results of the last pass.

    During a pass, the values of the pass before are live, and so are the node's own inputs, which
    the first pass reads.
    """
    return isinstance(node.target, HigherOrderOperator) and node.target.name() == _LOOP


def alternatives(target: HigherOrderOperator, args: Any) -> tuple[list[GraphModule], Any]:
    """The graph modules among a node's arguments, and their operands.

    One module runs at a time; the first one returns the node's results.
    """
    name = target.name()
    if name == "cond":
        _, one, other, operands = args
        return [one, other], operands
    if name == _LOOP:
        condition, body, carried, others = args
        return [body, condition], (*carried, *others)
    if name in _WRAPPERS:
        at = next(k for k, given in enumerate(args) if isinstance(given, GraphModule))
        return [args[at]], args[at + 1 :]
    raise InputError(f"the higher-order operator {name!r} is not understood")


def run(module: GraphModule, operands: Any) -> Any:
    """Run a graph module, and the modules inside it, on tensors without data."""
    return _Runner(module).run(*operands)


def _check_size(name: str, number: Any, bits: int) -> None:
    """Raise if a number is too large for a size: computing with it could take for ever."""
    if isinstance(number, int) and number.bit_length() > bits:
        raise InputError(
            f"{name} has a number of {number.bit_length()} bits: expected at most {bits}"
        )


class _Runner(Interpreter):  # type: ignore[misc]
    def call_function(self, target: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        if not isinstance(target, HigherOrderOperator):
            if target in (operator.pow, operator.lshift):
                _check_size(target.__name__, args[1], _MOST_EXPONENT_BITS)
            result = super().call_function(target, args, kwargs)
            _check_size(getattr(target, "__name__", str(target)), result, _MOST_BITS)
            return result
        modules, operands = alternatives(target, args)
        results = [run(module, operands) for module in modules]
        return results[0]
