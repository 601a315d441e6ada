"""``OfflineMemoryAllocation``: a plan within a TFLite file, as TFLite Micro reads it.

A metadata entry of this name refers to a buffer of 32-bit integers: the version of the format, the
number of subgraphs, the number of offsets that follow, and the offset of every tensor in bytes from
the start of the arena, subgraph after subgraph. -1 leaves a tensor to the runtime, which places it
around the others; offsets of constants and variable tensors are ignored. The runtime refuses a
wrong number of offsets and checks nothing else: if buffers overlap, values are lost silently.
(``tensorflow/lite/micro/docs/memory_management.md`` in the sources of TFLite Micro.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.io.tflite.flat_table import read_number
from cpplan.io.tflite.graph import TensorKey
from cpplan.io.tflite.model import TfliteModel
from cpplan.model.errors import InputError, VerificationError

METADATA = "OfflineMemoryAllocation"
AT_RUN_TIME = -1
# Offset of tensors whose bytes nobody reads or writes. The runtime would treat tensors that no
# operator accesses as live at the same time and place them one above another.
UNTOUCHED = 0
_HEADER = 3
# The runtime's own tests write version 1, which is the same format.
_VERSIONS = (0, 1)


def metadata_buffer(model: TfliteModel) -> int | None:
    """Number of the buffer with a model's plan; of several, the last, as in the runtime.

    ``None`` if the model carries no plan.
    """
    return next((buffer for name, buffer in reversed(model.metadata) if name == METADATA), None)


def read_offsets(model: TfliteModel) -> dict[TensorKey, int]:
    """The offset of every tensor, by subgraph and number.

    Raises
    ------
    InputError
        If the model carries no plan, or a plan of an unknown version.
    VerificationError
        If there is not one offset for each tensor, or an offset is not a valid one.
    """
    number = metadata_buffer(model)
    if number is None:
        raise InputError(f"carries no plan: expected metadata {METADATA!r}")
    start, count = model.buffer_span(number)
    if count < 4 * _HEADER or count % 4:
        raise VerificationError(
            f"{METADATA}: expected 32-bit integers, three or more, not {count} B"
        )
    version, _, claimed = (read_number(model.data, "<i", start + 4 * k) for k in range(_HEADER))
    if version not in _VERSIONS:
        raise InputError(f"{METADATA}: version {version} is not understood: expected 0")
    keys = tensor_keys(model)
    held = count // 4 - _HEADER
    if claimed != len(keys) or held < claimed:
        raise VerificationError(
            f"{METADATA}: {claimed} offsets announced and {held} there, for {len(keys)} tensors"
        )
    offsets = np.frombuffer(model.data, "<i4", claimed, start + 4 * _HEADER).tolist()
    for key, offset in zip(keys, offsets, strict=True):
        if offset < AT_RUN_TIME:
            raise VerificationError(f"{METADATA}: tensor {key[1]} of subgraph {key[0]} at {offset}")
    return dict(zip(keys, offsets, strict=True))


def pack_offsets(model: TfliteModel, offsets: Sequence[int]) -> bytes:
    """The content of the metadata's buffer."""
    header = (_VERSIONS[0], len(model.subgraphs), len(offsets))
    return np.array([*header, *offsets], "<i4").tobytes()


def tensor_keys(model: TfliteModel) -> list[TensorKey]:
    """All tensors of a model, in the order in which the metadata lists them."""
    return [(s, k) for s, source in enumerate(model.subgraphs) for k in range(len(source.tensors))]
