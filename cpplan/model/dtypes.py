"""Element types and their width in bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpplan.model.names import not_understood

BITS = {
    "bool": 8,
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4e2m1": 4,
    "int8": 8,
    "uint8": 8,
    "float8e4m3fn": 8,
    "float8e4m3fnuz": 8,
    "float8e5m2": 8,
    "float8e5m2fnuz": 8,
    "float8e8m0": 8,
    "int16": 16,
    "uint16": 16,
    "float16": 16,
    "bfloat16": 16,
    "int32": 32,
    "uint32": 32,
    "float32": 32,
    "int64": 64,
    "uint64": 64,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
}


def tensor_bytes(shape: Sequence[int], dtype: str) -> int:
    """Bytes of a dense tensor; elements narrower than a byte are packed."""
    if dtype not in BITS:
        raise not_understood(f"dtype {dtype!r}", dtype, BITS)
    return -(-math.prod(shape) * BITS[dtype] // 8)
