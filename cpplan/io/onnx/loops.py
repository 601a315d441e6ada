"""Shapes of the tensors that an ONNX Loop carries between turns, and of the rows it collects.

ONNX's inference derives neither. But if a body returns a carried tensor with the shape that it
received, the shape is the same in every turn; and a loop that only its known trip count can end
collects one row a turn.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.dims import turns_name
from cpplan.io.onnx.kernels import to_numpy
from cpplan.io.onnx.types import bodies_of, set_types, static_shape, types_of
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx


def settle_loop(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    values: Mapping[str, Array],
    types: MutableMapping[str, onnx.TypeProto],
    settled: set[tuple[str, str]],
    turns: Mapping[str, int],
) -> bool:
    """Carry shapes into the body of a Loop and out of it, in place; True if any shape was new.

    Parameters
    ----------
    graph
        The node's graph, in which the types of its outputs are declared.
    values, types
        Constants and types known so far.
    settled
        Shapes set before, so that none is set twice.
    turns
        Name of a loop whose trip count is only known at run time -> its number of turns.

    Raises
    ------
    InputError
        If the loop carries a tensor whose shape changes; names it.
    """
    import onnx

    label = node.name or node.op_type
    bodies = bodies_of(node)
    if len(bodies) != 1 or len(node.input) < 2 or len(bodies[0].input) != len(node.input):
        raise InputError(
            f"op {label!r}: a Loop must have one body, with a parameter for each input"
        )
    if not bodies[0].output:
        raise InputError(f"op {label!r}: the body of a Loop must return a condition")
    body, carried = bodies[0], len(node.input) - 2
    before = len(settled)
    for name, inside in zip(node.input[2:], body.input[2:], strict=True):
        if static_shape(types.get(name)) is not None and static_shape(inside.type) is None:
            settled.add((name, inside.name))
            inside.type.CopyFrom(types[name])
    inner = types_of(body)
    rows = trip_count(node, body, values)
    rows = turns.get(turns_name(node)) if rows is None else rows
    for k, (name, result) in enumerate(zip(node.output, body.output[1:], strict=False)):
        shape = static_shape(inner.get(result.name))
        if not name or shape is None or static_shape(types.get(name)) is not None:
            continue
        if k < carried:
            start = static_shape(body.input[2 + k].type)
            if start is not None and start != shape:
                raise InputError(
                    f"tensor {name!r}: the loop {label!r} carries it as {start} into a turn and "
                    f"as {shape} out of it: expected one shape"
                )
        elif rows is None:
            continue
        else:
            shape = (rows, *shape)
        settled.add((result.name, name))
        element = inner[result.name].tensor_type.elem_type
        types[name] = onnx.helper.make_tensor_type_proto(element, shape)
        set_types(graph, {name: types[name]})
    return len(settled) > before


def open_turns(
    node: onnx.NodeProto, values: Mapping[str, Array], types: Mapping[str, onnx.TypeProto]
) -> list[str]:
    """Name for a Loop's number of turns, if it decides the shape of an output and is unknown."""
    rows = [name for name in node.output[len(node.input) - 2 :] if name]
    unknown = any(static_shape(types.get(name)) is None for name in rows)
    if not unknown or trip_count(node, bodies_of(node)[0], values) is not None:
        return []
    return [turns_name(node)]


def trip_count(
    node: onnx.NodeProto, body: onnx.GraphProto, values: Mapping[str, Array]
) -> int | None:
    """Number of turns of a Loop, if only its trip count can end it and the count is known.

    ``values`` are the values of the known constants.
    """
    count, condition = node.input[:2]
    if count not in values or (condition and condition not in values):
        return None
    if condition and not values[condition].all():
        return 0
    return max(0, int(values[count].reshape(-1)[0])) if _always_goes_on(body) else None


def _always_goes_on(body: onnx.GraphProto) -> bool:
    """True if the body returns the condition that it received, or a constant that is true."""
    producer = {output: node for node in body.node for output in node.output}
    name = body.output[0].name
    for _ in body.node:  # no more hops than nodes, even in a malformed circle
        if name in producer and producer[name].op_type == "Identity" and producer[name].input:
            name = producer[name].input[0]
    if name == body.input[1].name:
        return True
    constants = [tensor for tensor in body.initializer if tensor.name == name]
    if name in producer and producer[name].op_type == "Constant":
        constants += [a.t for a in producer[name].attribute if a.name == "value"]
    return any(to_numpy(tensor).all() for tensor in constants)
