"""ONNX Ifs whose condition is known at reading: replaced by the branch that they take.

Exporters put an If wherever the rank of a result depends on a shape: torchscript's ``squeeze`` is
``Shape -> Gather -> Equal -> If``. With all extents bound, the condition is a constant, and the
other branch may not even be valid.
"""

from __future__ import annotations

import math
from collections import ChainMap, Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.constants import SMALL, SmallConstant, computed_constant, stored_constant
from cpplan.io.onnx.names import rebind
from cpplan.io.onnx.types import bodies_of, static_shape, types_of
from cpplan.io.onnx.views import RANDOM, is_standard
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx

    Constants = ChainMap[str, "SmallConstant | None"]


@dataclass(frozen=True, slots=True)
class Fold:
    """An If that is replaced by one of its branches.

    Attributes
    ----------
    outputs
        Names of the If's outputs, which identify it.
    condition
        The tensor that is the If's condition.
    branch
        0 for ``then``, 1 for ``else``.
    """

    outputs: tuple[str, ...]
    condition: str
    branch: int


Folds: TypeAlias = Mapping[tuple[str, ...], Fold]  # outputs of the If -> fold


def known_folds(graph: onnx.GraphProto, opset: int, kept: Collection[str] = ()) -> Folds:
    """Ifs whose condition is a constant, by their outputs; of nested Ifs only the outermost."""
    return {fold.outputs: fold for fold in _find(graph, ChainMap(), opset, kept)}


def apply_folds(graph: onnx.GraphProto, folds: Folds) -> None:
    """Replace these Ifs, in place, by the nodes of the branches that they take.

    A tensor that a branch defines keeps its name if no other tensor of the model has it; otherwise
    a number is added.
    """
    if folds:
        _apply(graph, folds, Counter(_defined(graph)))


def _apply(graph: onnx.GraphProto, folds: Folds, defined: Counter[str]) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        fold = folds.get(tuple(node.output)) if node.op_type == "If" else None
        if fold is None:
            for body in bodies_of(node):
                _apply(body, folds, defined)
            nodes.append(node)
        else:
            nodes += _written_out(graph, node, fold, defined)
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _find(
    graph: onnx.GraphProto, constants: Constants, opset: int, kept: Collection[str]
) -> Iterator[Fold]:
    types = types_of(graph)
    constants.update(dict.fromkeys(value.name for value in graph.input))
    for tensor in graph.initializer:
        constants[tensor.name] = stored_constant(tensor)
    for node in graph.node:
        if is_standard(node) and node.op_type == "If" and len(bodies_of(node)) == 2:
            value = _value(constants, node.input[0]) if node.input[0] not in kept else None
            if value is not None and value.size == 1:
                yield Fold(tuple(node.output), node.input[0], 0 if value.all() else 1)
                continue
        for body in bodies_of(node):
            yield from _find(body, constants.new_child(), opset, kept)
        operands = {n: c for n in node.input if n and (c := constants.get(n)) is not None}
        for output in filter(None, node.output):
            shape = static_shape(types.get(output))
            large = shape is not None and math.prod(shape) > SMALL
            constants[output] = (
                None
                if large or node.op_type in RANDOM
                else computed_constant(node, output, opset, operands)
            )


def _value(constants: Constants, name: str) -> Array | None:
    constant = constants.get(name)
    return None if constant is None else constant.value()


def _written_out(
    graph: onnx.GraphProto, node: onnx.NodeProto, fold: Fold, defined: Counter[str]
) -> list[onnx.NodeProto]:
    """The nodes of the branch taken, with the If's inputs and outputs."""
    import onnx

    body = bodies_of(node)[fold.branch]
    if len(body.output) != len(node.output):
        raise InputError(
            f"op {node.name!r}: each branch of an If must have as many outputs as the If"
        )
    results = [value.name for value in body.output]
    made = {name for inner in body.node for name in inner.output if name}
    direct: dict[str, str] = {
        result: output
        for result, output in zip(results, node.output, strict=True)
        if output and result in made and results.count(result) == 1
    }
    names: dict[str, str] = {}

    def fresh(name: str) -> str:
        if name in direct:
            return direct[name]
        new: str = name
        number = 0
        while defined[new] > (new == name):
            number += 1
            new = f"{name}.{number}"
        defined[new] += new != name
        return new

    for tensor in (*body.initializer, *(sparse.values for sparse in body.sparse_initializer)):
        names[tensor.name] = tensor.name = fresh(tensor.name)
    graph.initializer.extend(body.initializer)
    graph.sparse_initializer.extend(body.sparse_initializer)
    nodes: list[onnx.NodeProto] = []
    for inner in body.node:
        rebind(inner, names)
        for k, name in enumerate(inner.output):
            if name:
                names[name] = fresh(name)
                inner.output[k] = names[name]
        nodes.append(inner)
    for value in body.value_info:
        if value.name in names:
            value.name = names[value.name]
            graph.value_info.append(value)
    for result, output in zip(results, node.output, strict=True):
        if output and result not in direct:
            copied = names.get(result, result)
            label = f"{node.name}/{output}"
            nodes.append(onnx.helper.make_node("Identity", [copied], [output], label))
    return nodes


def _defined(graph: onnx.GraphProto) -> Iterator[str]:
    """Every name that the graph and its bodies define, once for each definition."""
    yield from (value.name for value in (*graph.input, *graph.initializer))
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from filter(None, node.output)
        for body in bodies_of(node):
            yield from _defined(body)
