"""Symbolic shapes node by node, in the order of an ONNX graph, and through bodies."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.constants import SMALL
from cpplan.io.onnx.contrib import rule_of
from cpplan.io.onnx.facts import Call, Extent, Fact, Known, Lost, Shape, checked_axis
from cpplan.io.onnx.kernels import to_numpy
from cpplan.io.onnx.loops import trip_count
from cpplan.io.onnx.names import reads_of
from cpplan.io.onnx.shape_rules import RULES
from cpplan.io.onnx.symbolic_data import known_data
from cpplan.io.onnx.types import bodies_of, static_shape, types_of
from cpplan.io.onnx.views import is_standard
from cpplan.model.errors import InputError
from cpplan.model.shapes import Range

if TYPE_CHECKING:
    import onnx

# Number of a body, and facts about its parameters -> facts about its results.
Results: TypeAlias = Callable[[int, Mapping[str, Known]], list[Known]]

TypeOf: TypeAlias = "Mapping[tuple[tuple[str, ...], str], onnx.TypeProto]"


class Walk:
    """A walk that carries facts about tensors through nodes.

    Parameters
    ----------
    opsets
        Versions of the operator sets, by domain.
    ranges
        Ranges of the variables.
    types
        Type of every tensor at one size, by its enclosing nodes and its name; tensors that depend
        on no variable have these types at every size.

    Attributes
    ----------
    inner
        Facts about the tensors of each body, by the body's enclosing nodes.
    """

    def __init__(self, opsets: Mapping[str, int], ranges: Mapping[str, Range], types: TypeOf):
        self.opsets, self.ranges, self.types = opsets, ranges, types
        self.inner: dict[tuple[str, ...], Mapping[str, Known]] = {}

    def graph(
        self,
        proto: onnx.GraphProto,
        known: MutableMapping[str, Known],
        path: tuple[str, ...] = (),
    ) -> None:
        """Add facts about a graph's tensors to ``known``, which has its inputs and captures."""
        for tensor in proto.initializer:
            small = math.prod(tensor.dims) <= SMALL and not tensor.external_data
            data = to_numpy(tensor) if small else None
            known[tensor.name] = Fact(tuple(tensor.dims), data, False)
        for sparse in proto.sparse_initializer:
            known[sparse.values.name] = Fact(tuple(sparse.dims), None, False)
        for node in proto.node:
            self._node(node, known, path)

    def _node(
        self, node: onnx.NodeProto, known: MutableMapping[str, Known], path: tuple[str, ...]
    ) -> None:
        inputs = [known[name] if name else None for name in node.input]
        call = Call(node, inputs, self.opsets, self.ranges)
        reads = [known[name] for name in reads_of(node) if name]
        varies = any(isinstance(fact, str) or fact.varies for fact in reads)
        here = f"op {node.name!r} ({node.op_type})"
        shapes: list[Shape | None]
        data: list[Array | None] = [None] * len(node.output)
        reason = "gives it no shape"
        try:
            if not varies:
                shapes = [static_shape(self.types.get((path, name))) for name in node.output]
                reason = "gives it an unknown shape"
            elif is_standard(node) and bodies_of(node):
                results = partial(self._body, node, known, path)
                for name, fact in zip(node.output, body_facts(call, results), strict=True):
                    known[name] = f"{here}: {fact}" if isinstance(fact, str) else fact
                return
            else:
                shapes = list(self._shapes(call))
            sizes = [shape for shape in shapes if shape is not None]
            data = known_data(call, sizes)
        except Lost as lost:
            shapes, reason = [], str(lost)
        except InputError as error:
            shapes, reason = [], str(error)
        except (LookupError, TypeError, ValueError, ArithmeticError):
            shapes, reason = [], "its inputs or attributes do not fit its operator"
        for k, name in enumerate(node.output):
            shape = shapes[k] if k < len(shapes) else None
            if name:
                known[name] = f"{here}: {reason}" if shape is None else Fact(shape, data[k], varies)

    def _body(
        self,
        node: onnx.NodeProto,
        known: MutableMapping[str, Known],
        path: tuple[str, ...],
        number: int,
        given: Mapping[str, Known],
    ) -> list[Known]:
        """Facts about the results of a body whose parameters have the given facts."""
        body, here = bodies_of(node)[number], (*path, node.name, str(number))
        outer = known.maps if isinstance(known, ChainMap) else [known]
        inner = ChainMap(dict(given), *outer)
        self.graph(body, inner, here)
        self.inner[here] = inner.maps[0]
        return [inner[value.name] for value in body.output]

    def _shapes(self, call: Call) -> list[Shape]:
        node, of_runtime = call.node, rule_of(call.node)
        if of_runtime is not None:
            return [output.shape for output in of_runtime(call)]
        rule = RULES.get(node.op_type) if is_standard(node) else None
        if rule is None:
            raise Lost("there is no rule for this operator's shapes")
        return rule(call)


def types_by_path(
    graph: onnx.GraphProto, path: tuple[str, ...] = ()
) -> dict[tuple[tuple[str, ...], str], onnx.TypeProto]:
    """The type of every tensor, also in bodies, by its enclosing nodes and its name."""
    types = {(path, name): type_ for name, type_ in types_of(graph).items()}
    for node in graph.node:
        for k, body in enumerate(bodies_of(node)):
            types.update(types_by_path(body, (*path, node.name, str(k))))
    return types


def body_facts(call: Call, results: Results) -> list[Known]:
    """The fact about each output of a node with bodies, or the reason why it is lost."""
    if call.node.op_type == "If":
        return _if(call, results)
    if call.node.op_type == "Loop":
        return _loop(call, results)
    if call.node.op_type == "Scan" and call.opset >= 9:
        return _scan(call, results)
    return ["there is no rule for this operator's shapes"] * len(call.node.output)


def _if(call: Call, results: Results) -> list[Known]:
    branches = [results(number, {}) for number, _ in enumerate(bodies_of(call.node))]
    facts: list[Known] = []
    for found in zip(*branches, strict=True):
        lost = [fact for fact in found if isinstance(fact, str)]
        shapes = {fact.shape for fact in found if isinstance(fact, Fact)}
        if lost:
            facts.append(lost[0])
        else:
            facts.append(Fact(shapes.pop()) if len(shapes) == 1 else "its branches differ in shape")
    return facts


def _turns(
    call: Call,
    results: Results,
    fixed: Mapping[str, Known],
    carried: list[Known],
    skipped: int,
) -> tuple[list[Known], list[Known]]:
    """Facts about the carried values of a body, and about all its results.

    A carried value whose shape changes from turn to turn is lost.

    ``fixed`` are the body's other parameters; ``skipped`` results come before the carried ones.
    """
    body = bodies_of(call.node)[0]
    names = [value.name for value in body.input if value.name not in fixed]
    while True:
        given = {**fixed, **dict(zip(names, carried, strict=True))}
        found = results(0, given)
        changed = False
        for k, before in enumerate(carried):
            after = found[skipped + k]
            if isinstance(before, str):
                continue
            if isinstance(after, str) or after.shape != before.shape:
                what = after if isinstance(after, str) else "the shape it carries changes"
                carried[k], changed = what, True
        if not changed:
            return carried, found


def _loop(call: Call, results: Results) -> list[Known]:
    body = bodies_of(call.node)[0]
    fixed: dict[str, Known] = {
        value.name: Fact(static_shape(value.type) or ()) for value in body.input[:2]
    }
    carried = [_without_data(call, k) for k in range(2, len(call.inputs))]
    carried, found = _turns(call, results, fixed, carried, 1)
    facts = list(carried)
    for result in found[1 + len(carried) :]:
        if isinstance(result, str):
            facts.append(result)
            continue
        try:
            facts.append(Fact((_trips(call, body), *result.shape)))
        except Lost as lost:
            facts.append(str(lost))
    return facts


def _trips(call: Call, body: onnx.GraphProto) -> Extent:
    count, condition = call.node.input[:2]
    if not count:
        raise Lost("how often it runs is not known")
    values: dict[str, Array] = {count: np.array(1)}
    if condition:
        data = call.fact(1).data
        if data is None or data.dtype.kind == "O":
            raise Lost("its condition is not known")
        values[condition] = data
    runs = trip_count(call.node, body, values)
    if runs is None:
        raise Lost("how often it runs is not known")
    trips = call.numbers(0)[0]
    if runs == 0:
        return 0
    return call.larger(trips, 0)


def _scan(call: Call, results: Results) -> list[Known]:
    body, count = bodies_of(call.node)[0], call.attributes["num_scan_inputs"]
    states = len(call.inputs) - count
    axes = call.attributes.get("scan_input_axes", [0] * count)
    fixed: dict[str, Known] = {}
    length = None
    for k, (value, axis) in enumerate(zip(body.input[states:], axes, strict=True), states):
        shape = call.shape(k)
        at = checked_axis(axis, len(shape))
        length = shape[at] if length is None or isinstance(shape[at], int) else length
        fixed[value.name] = Fact((*shape[:at], *shape[at + 1 :]))
    assert length is not None
    carried = [_without_data(call, k) for k in range(states)]
    carried, found = _turns(call, results, fixed, carried, 0)
    facts = list(carried)
    collected = found[states:]
    outward = call.attributes.get("scan_output_axes", [0] * len(collected))
    for result, axis in zip(collected, outward, strict=True):
        if isinstance(result, str):
            facts.append(result)
            continue
        at = checked_axis(axis, len(result.shape) + 1)
        facts.append(Fact((*result.shape[:at], length, *result.shape[at:])))
    return facts


def _without_data(call: Call, k: int) -> Known:
    """The fact about a value carried into a body, without elements: these change in every turn."""
    try:
        return Fact(call.shape(k))
    except Lost as lost:
        return str(lost)
