"""Digests of values, the same in every process, to recognise rows of earlier runs."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from collections.abc import Mapping, Sequence, Set
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cpplan.model.errors import InputError

_CHUNK = 1 << 20


def digest_value(value: Any) -> str:
    """Digest of nested dataclasses, mappings, sequences, arrays and plain values."""
    digest = hashlib.sha256()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        kind, text, inner = _take_apart(part)
        digest.update(f"{kind}:{len(text)}:{len(inner)}:".encode())
        digest.update(text)
        waiting.extend(reversed(inner))
    return digest.hexdigest()


def _take_apart(value: Any) -> tuple[str, bytes, Sequence[Any]]:
    """The kind of a value, its own bytes, and the values in it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner: list[Any] = []
        for field in dataclasses.fields(value):
            inner += (field.name, getattr(value, field.name))
        return type(value).__qualname__, b"", inner
    if isinstance(value, Mapping):
        pairs = sorted(value.items(), key=lambda pair: (type(pair[0]).__name__, repr(pair[0])))
        return "mapping", b"", [part for pair in pairs for part in pair]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"array {value.dtype} {value.shape}", value.tobytes(), ()
    if isinstance(value, str):
        return "text", value.encode("utf-8", "surrogatepass"), ()
    if isinstance(value, bytes):
        return "bytes", value, ()
    if isinstance(value, Set):
        return "set", b"", sorted(value, key=repr)
    if isinstance(value, (Sequence, np.ndarray)):
        return "sequence", b"", list(value)
    try:
        return "other", pickle.dumps(value, protocol=4), ()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(f"{type(value).__name__} has no content to know it by: {error}") from error


def digest_file(path: str | PathLike[str]) -> str:
    """Digest of a file's bytes."""
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()
