"""Symbolic shapes of the results of ONNX's If, Loop and Scan, derived through their bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.facts import Call, Extent, Fact, Known, Lost, checked_axis
from cpplan.io.onnx.loops import trip_count
from cpplan.io.onnx.types import bodies_of, static_shape
from cpplan.model.shapes import dim_max

if TYPE_CHECKING:
    import onnx

# Number of a body, and facts about its parameters -> facts about its results.
Results: TypeAlias = Callable[[int, Mapping[str, Known]], list[Known]]


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
    return trips if call.at_least(trips, 0) else dim_max(trips, 0)


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
