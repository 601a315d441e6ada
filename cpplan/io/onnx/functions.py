"""Local functions of an ONNX model: called nowhere else, so they are written out where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from cpplan.errors import InputError
from cpplan.io.onnx.types import bodies_of

if TYPE_CHECKING:
    import onnx


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its local functions inlined.

    Raises
    ------
    InputError
        If a function calls itself, directly or through others, or a call does not fit.
    """
    import onnx.inliner

    if not model.functions:
        return model
    _check_recursion(model)
    try:
        return onnx.inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"its functions cannot be inlined: {text}") from error


def _check_recursion(model: onnx.ModelProto) -> None:
    """Not every version of the inliner notices, and one that does not never ends."""
    calls = {
        (function.domain, function.name): set(_operators(function.node))
        for function in model.functions
    }
    local = {caller: called & calls.keys() for caller, called in calls.items()}
    try:
        TopologicalSorter(local).prepare()
    except CycleError as error:
        circle = " calls ".join(f"{domain}.{name}" for domain, name in reversed(error.args[1]))
        raise InputError(f"its functions are recursive: {circle}") from error


def _operators(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        yield node.domain, node.op_type
        for body in bodies_of(node):
            yield from _operators(body.node)
