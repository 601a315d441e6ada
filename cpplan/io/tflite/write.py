"""A TFLite model with a plan in it: operators in the plan's order, offsets in the metadata.

A TFLite file with one more buffer, named by its metadata; the rest is unchanged.

A table of a FlatBuffer can only refer to later positions. So new parts go to the front, with a new
root table that refers to the old parts, and the old file follows byte for byte. No part is decoded
and encoded again, not even weights, and fields that this reader does not know are kept.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from os import PathLike

from cpplan.io.tflite.extents import bind_extents
from cpplan.io.tflite.graph import TensorKey, Translation, translate
from cpplan.io.tflite.model import TfliteModel, naming, parse_model
from cpplan.io.tflite.offsets import (
    AT_RUN_TIME,
    METADATA,
    UNTOUCHED,
    metadata_buffer,
    pack_offsets,
    tensor_keys,
)
from cpplan.io.tflite.split_model import split_tflite
from cpplan.model.errors import InputError
from cpplan.model.plan import Plan
from cpplan.runtime.atomic import write_bytes
from cpplan.solving.pipeline import solve

_OPERATORS = 3
# Units of work, each about a second, to order the operators of a model in pieces and to place its
# tensors.
_SECONDS = 0.5
_SHAPE, _SIGNATURE = 0, 7


def write_tflite(
    plan: Plan,
    path: str | PathLike[str],
    source: str | PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
) -> None:
    """Write the model of :func:`planned_tflite` to a file, whole or not at all.

    Raises
    ------
    InputError
        As ``planned_tflite``, or if the file cannot be written; names the file.
    """
    write_bytes(path, planned_tflite(source, plan, dims))


def planned_tflite(
    source: str | PathLike[str] | bytes, plan: Plan, dims: Mapping[str, int] | None = None
) -> bytes:
    """The file of a TFLite model with its operators in a plan's order, and the plan's offsets.

    The rest of the file is unchanged, byte for byte. Any TFLite runtime runs it; TFLite Micro
    places tensors at the offsets. Tensors that the plan does not place (with ``inputs="outside"``,
    for example) are left to the runtime.

    Parameters
    ----------
    source
        The model that was planned.
    plan
        A plan for one arena, without ops that run again.
    dims
        Extents of axes that the file leaves open, the same as for the plan. They are then fixed, as
        are those of a file whose stored extents contradict each other.

    Raises
    ------
    InputError
        If the file cannot be read, or the plan has no offsets, several arenas or ops that run
        again, or is for another model.
    MissingExtraError
        If the package ``tflite`` is missing.

    Examples
    --------
    >>> import cpplan
    >>> from cpplan.io.tflite import read_carried_plan
    >>> path = "datasets/tflite/branches.tflite"
    >>> plan = cpplan.solve(cpplan.load(path), order="search", workers=1)
    >>> read_carried_plan(planned_tflite(path, plan)).plan.peak
    31744
    """
    with naming(source):
        read = parse_model(source)
        model = bind_extents(read, dims)
        translation = translate(model, plan.name)
        if plan.pieces:
            return planned_tflite(*_in_pieces(model, translation, plan))
        order = plan_order(translation, plan)
        offsets = plan_offsets(model, translation, plan)
        ends = zip(read.subgraphs[0].tensors, model.subgraphs[0].tensors, strict=True)
        if dims or any(stored.shape != bound.shape for stored, bound in ends):
            model = parse_model(_with_extents(model))
        return with_offsets(model, offsets, order)


def model_in_pieces(
    source: str | PathLike[str] | bytes, plan: Plan, dims: Mapping[str, int] | None = None
) -> tuple[bytes, Plan]:
    """The file of a model in pieces, without offsets, and the plan that gives it offsets.

    Parameters and errors are those of :func:`planned_tflite`.
    """
    with naming(source):
        model = bind_extents(parse_model(source), dims)
        return _in_pieces(model, translate(model, plan.name), plan)


def _in_pieces(model: TfliteModel, translation: Translation, plan: Plan) -> tuple[bytes, Plan]:
    """The file of a model in pieces, and a plan of all of its tensors.

    The operators that gather, pad and cut need memory that the plan of the pieces does not include.
    So the written model is planned again, with its operators in the best order found, and bands
    within the tensors that they are joined to or cut from; the same each time, so that what is said
    of its arena holds.
    """
    data = split_tflite(model, translation, plan)
    whole = translate(bind_extents(parse_model(data), None), plan.name).graph
    held = plan.residency
    placed = solve(
        whole,
        in_place=True,
        placement=True,
        order="search",
        inputs=held.inputs,
        outputs=held.outputs,
        time_limit=_SECONDS,
        deterministic=True,
    )
    return data, placed


def with_offsets(
    model: TfliteModel, offsets: Sequence[int], order: Sequence[int] | None = None
) -> bytes:
    """The file of a model with these offsets, one for each tensor of all subgraphs, unchecked."""
    data, payload = bytearray(model.data), pack_offsets(model, offsets)
    if order is not None:
        _permute(model, data, order)
    number = metadata_buffer(model)
    if number is not None and _uses(model, number) == 1:
        start, count = model.buffer_span(number)
        if count == len(payload):
            data[start : start + count] = payload
            return bytes(data)
    return prefix_metadata(model, bytes(data), METADATA, payload)


def plan_order(translation: Translation, plan: Plan) -> list[int]:
    """Positions of a model's operators in the order of a plan."""
    if plan.base_cost is None:
        raise InputError(f"plan {plan.name!r} is for a bare problem: it has no order")
    if len(set(plan.order)) < len(plan.order):
        raise InputError(f"plan {plan.name!r} runs ops again, which a TFLite file cannot say")
    if set(plan.order) != set(translation.operators):
        strange = sorted(set(plan.order) ^ set(translation.operators))[0]
        raise InputError(f"plan {plan.name!r} is for another model: op {strange!r} is in one only")
    return [translation.operators[name] for name in plan.order]


def plan_offsets(model: TfliteModel, translation: Translation, plan: Plan) -> list[int]:
    """A plan's offset of every tensor of a model, in the order in which the metadata lists them.

    Raises
    ------
    InputError
        If a file cannot hold the plan.
    """
    if plan.offset is None:
        raise InputError(f"plan {plan.name!r} holds no offsets")
    found: dict[TensorKey, int] = {}
    pools = set()
    graph = translation.graph
    for key, buffer, within in translation.places():
        if buffer in graph.tensor and plan.views.get(buffer, (buffer, 0)) != (buffer, 0):
            raise InputError(f"plan {plan.name!r} is for another model: {buffer!r} is no view")
        if buffer not in plan.row:
            continue
        row = plan.row[buffer]
        if buffer in graph.tensor and graph.tensor[buffer].nbytes != plan.size[row]:
            raise InputError(f"plan {plan.name!r} is for another model: {buffer!r} has other bytes")
        pools.add(plan.pools[int(plan.pool[row])].name)
        offset = int(plan.offset[row]) + within
        if offset != found.setdefault(key, offset):
            raise InputError(
                f"subgraph {key[0]} is run by several ops: the file holds one offset for each of "
                f"its tensors, and the plan gives {buffer!r} another"
            )
        if offset >= 2**31:
            raise InputError(f"tensor {buffer!r} lies at {offset}: expected an offset below 2**31")
    if len(pools) > 1:
        raise InputError(
            f"TFLite Micro has one arena, but the plan uses {', '.join(sorted(pools))}"
        )
    left = translation.untouched(model)
    return [UNTOUCHED if key in left else found.get(key, AT_RUN_TIME) for key in tensor_keys(model)]


def _permute(model: TfliteModel, data: bytearray, order: Sequence[int]) -> None:
    """List the operators of subgraph 0 in this order, without moving their tables.

    The tables lie behind the whole list, so that any entry of the list can refer to them.
    """
    table = model.subgraphs[0].table
    start, count = table.vector(_OPERATORS, 4) or (0, 0)
    targets = [entry.position for entry in table.tables(_OPERATORS)]
    assert sorted(order) == list(range(count))
    for k, number in enumerate(order):
        place = start + 4 * k
        struct.pack_into("<I", data, place, targets[number] - place)


def _uses(model: TfliteModel, number: int) -> int:
    """Number of references to a buffer by tensors and metadata."""
    tensors = sum(t.buffer == number for source in model.subgraphs for t in source.tensors)
    return tensors + sum(buffer == number for _, buffer in model.metadata)


def _with_extents(model: TfliteModel) -> bytes:
    """The file with the model's present extents instead of its open axes."""
    data = bytearray(model.data)
    written: dict[int, int] = {}
    for source in model.subgraphs:
        for tensor, table in zip(source.tensors, source.table.tables(0), strict=True):
            for field in (_SHAPE, _SIGNATURE):
                start, count = table.vector(field, 4) or (0, 0)
                for k, extent in enumerate(tensor.shape[:count]):
                    place = start + 4 * k
                    if written.setdefault(place, extent) != extent:
                        raise InputError(f"tensor {tensor.name!r} shares its shape with another")
                    struct.pack_into("<i", data, place, extent)
    return bytes(data)


_BUFFERS, _METADATA = 4, 6
_KNOWN_FIELDS = 10
# The runtime reads vectors and buffers in place, so alignments within the file must stay.
_ALIGNMENT = 64
_BUFFER_ALIGNMENT = 16


def prefix_metadata(model: TfliteModel, old: bytes, name: str, payload: bytes) -> bytes:
    """The file ``old``, whose layout ``model`` has, with metadata ``name`` for ``payload``.

    Older metadata of this name is dropped.

    Raises
    ------
    InputError
        If the file refers to bytes by absolute positions, or its root table has unknown fields.
    """
    root = model.root
    if root.field_count > _KNOWN_FIELDS:
        raise InputError("the file's schema is newer than what can be written: its root has more")
    if any(buffer.number(1, "<Q") > 1 for buffer in model.buffers):
        raise InputError("files with values behind the FlatBuffer (beyond 2 GiB) are not written")
    kept = [
        entry
        for entry, (known, _) in zip(root.tables(_METADATA), model.metadata, strict=True)
        if known != name
    ]
    fields = max(root.field_count, _METADATA + 1)
    text = name.encode() + b"\0"
    # Positions of all parts: each part refers to later ones only.
    vtable = 8
    table = _aligned(vtable + 4 + 2 * fields, 4)
    buffers = table + 4 + 4 * fields
    metadata = buffers + 4 + 4 * (len(model.buffers) + 1)
    entry_vtable = metadata + 4 + 4 * (len(kept) + 1)
    entry = entry_vtable + 8
    string = entry + 12
    buffer_vtable = _aligned(string + 4 + len(text), 4)
    buffer = buffer_vtable + 8
    content = _aligned(buffer + 8 + 4, _BUFFER_ALIGNMENT)
    length = _aligned(content + len(payload), _ALIGNMENT)

    new = bytearray(length)
    struct.pack_into("<I4s", new, 0, table, old[4:8])
    struct.pack_into("<HH", new, vtable, 4 + 2 * fields, 4 + 4 * fields)
    struct.pack_into("<i", new, table, table - vtable)
    for field in range(fields):
        place, within = root.place(field), 4 + 4 * field
        moved = {_BUFFERS: buffers, _METADATA: metadata}.get(field)
        if place is None and moved is None:
            continue
        struct.pack_into("<H", new, vtable + 4 + 2 * field, within)
        if field == 0:
            struct.pack_into("<I", new, table + within, root.number(0, "<I"))
        else:
            target = moved or length + root.follow(field)
            struct.pack_into("<I", new, table + within, target - table - within)
    _pack_vector(new, buffers, [length + b.position for b in model.buffers] + [buffer])
    _pack_vector(new, metadata, [length + entry.position for entry in kept] + [entry])
    struct.pack_into("<4H", new, entry_vtable, 8, 12, 4, 8)
    distance = string - entry - 4
    struct.pack_into("<iII", new, entry, entry - entry_vtable, distance, len(model.buffers))
    struct.pack_into(f"<I{len(text)}s", new, string, len(text) - 1, text)
    struct.pack_into("<3H", new, buffer_vtable, 6, 8, 4)
    struct.pack_into("<iI", new, buffer, buffer - buffer_vtable, content - 4 - buffer - 4)
    struct.pack_into("<I", new, content - 4, len(payload))
    new[content : content + len(payload)] = payload
    return bytes(new) + old


def _pack_vector(new: bytearray, start: int, targets: list[int]) -> None:
    struct.pack_into("<I", new, start, len(targets))
    for k, target in enumerate(targets):
        place = start + 4 + 4 * k
        struct.pack_into("<I", new, place, target - place)


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment
