"""A TFLite file with one more buffer, named by its metadata; the rest is unchanged.

A table of a FlatBuffer can only refer to later positions. So new parts go to the front, with a new
root table that refers to the old parts, and the old file follows byte for byte. No part is decoded
and encoded again, not even weights, and fields that this reader does not know are kept.
"""

from __future__ import annotations

import struct

from cpplan.io.tflite.model import TfliteModel
from cpplan.model.errors import InputError

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
