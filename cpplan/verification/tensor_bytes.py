"""Arrays as the bytes that lie in memory, and back, element types narrower than a byte included."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpplan.model.dtypes import BITS

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


def to_bytes(array: Array, dtype: str) -> Bytes:
    """An array's bytes as they lie in memory; elements narrower than a byte are packed.

    Shape ``(n,)``; shares the array's memory unless it packs.
    """
    flat: Bytes = array.reshape(-1).view(np.uint8)
    bits = BITS[dtype]
    if bits >= 8:
        return flat
    per_byte = 8 // bits
    padded = np.zeros(-(-flat.size // per_byte) * per_byte, np.uint8)
    padded[: flat.size] = flat & ((1 << bits) - 1)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    packed: Bytes = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1)
    return packed


def from_bytes(raw: Bytes, dtype: str, like: Array) -> Array:
    """The array of ``like``'s shape and type that lies in these bytes; shares them if it can.

    The result is a copy if elements are packed, or if the address is not a multiple of the element
    size: for unaligned arrays NumPy works through small buffers, and sums round differently.
    """
    bits = BITS[dtype]
    if bits >= 8:
        return np.require(raw.view(like.dtype).reshape(like.shape), requirements="A")
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    elements = ((raw[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[: like.size]
    if dtype.startswith("int"):  # sign-extend, as the unpacked type stores it
        sign = np.uint8(1 << (bits - 1))
        elements = (elements ^ sign) - sign
    unpacked: Array = elements.view(like.dtype).reshape(like.shape)
    return unpacked
