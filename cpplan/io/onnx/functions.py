"""Inlining of the local functions of an ONNX model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from cpplan.io.onnx.types import bodies_of
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InputError
from cpplan.runtime import limits

if TYPE_CHECKING:
    import onnx

Name = tuple[str, str]  # domain, name


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its local functions inlined."""
    import onnx.inliner

    if not model.functions:
        return model
    _check_growth(model, _callees_first(model))
    try:
        return onnx.inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"its functions cannot be inlined: {text}") from error


def _callees_first(model: onnx.ModelProto) -> dict[Name, onnx.FunctionProto]:
    """The functions, each after the functions that it calls.

    Recursion is refused here: some versions of the inliner do not notice it and never end.
    """
    functions = {(function.domain, function.name): function for function in model.functions}
    local = {
        name: set(_operators(function.node)) & functions.keys()
        for name, function in functions.items()
    }
    try:
        return {name: functions[name] for name in TopologicalSorter(local).static_order()}
    except CycleError as error:
        circle = " calls ".join(f"{domain}.{name}" for domain, name in reversed(error.args[1]))
        raise InputError(f"its functions are recursive: {circle}") from error


def _check_growth(model: onnx.ModelProto, functions: Mapping[Name, onnx.FunctionProto]) -> None:
    """Raise if inlining functions that call one another would make the model huge."""
    nodes: dict[Name, int] = {}
    nbytes: dict[Name, int] = {}
    for name, function in functions.items():
        called = Counter(_operators(function.node))
        nodes[name] = sum(count * nodes.get(callee, 1) for callee, count in called.items())
        nbytes[name] = function.ByteSize() + sum(
            count * nbytes.get(callee, 0) for callee, count in called.items()
        )
    called = Counter(_operators(model.graph.node))
    listed = called.total() + sum(len(function.node) for function in functions.values())
    most = limits.MOST_NODES + limits.MOST_NODES_PER_NODE * listed
    written = sum(count * nodes.get(callee, 1) for callee, count in called.items())
    if written > most:
        raise InputError(
            f"its functions are {written} nodes when written out: expected at most {most} from the "
            f"{listed} in the file"
        )
    added = sum(count * nbytes.get(callee, 0) for callee, count in called.items())
    if added > limits.MOST_UNPACKED + model.ByteSize():
        raise InputError(
            f"its functions are {format_bytes(added)} when written out: expected at most "
            f"{limits.MOST_UNPACKED >> 20} MiB more than the file has"
        )


def _operators(nodes: Iterable[onnx.NodeProto]) -> Iterator[Name]:
    for node in nodes:
        yield node.domain, node.op_type
        for body in bodies_of(node):
            yield from _operators(body.node)
