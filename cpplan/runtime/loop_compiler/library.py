"""Machine code of loops that are compiled together: what several of them call is compiled once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from cpplan.runtime.loop_compiler import machine_code
from cpplan.runtime.loop_compiler.kinds import BOOL, FLOAT, INT, WORD, Code, Group, Kind, Use
from cpplan.runtime.loop_compiler.module import entry_name, module_text

# Name of a kind in the table of results; a tuple is a list of its members' names.
_RESULTS = {kind.name: kind for kind in (BOOL, INT, WORD, FLOAT)}
# Bytes of the checksum that a library begins with.
_CHECKSUM = 64


Library = dict[str, Code]


def make_library(uses: Sequence[Use]) -> bytes:
    """Library of loops for the kinds of arguments that they are used with.

    It is a checksum, a line with the loops and the kinds of their results, and object code.
    """
    text, results = module_text(uses)
    names = [use.name for use in uses]
    table = json.dumps(dict(zip(names, map(_written, results), strict=True)))
    kept = table.encode() + b"\n" + machine_code.assembled(text)
    return sha256(kept).hexdigest().encode() + kept


@cache
def open_library(path: Path) -> Library:
    """The library in a file, loaded once; a missing or damaged one is empty, and deleted."""
    library = load_library(path.read_bytes()) if path.exists() else None
    if library is None:
        path.unlink(missing_ok=True)
    return library or {}


def load_library(data: bytes) -> Library | None:
    """Name of each use in a library -> its code; ``None`` if the library is damaged."""
    checksum, kept = data[:_CHECKSUM], data[_CHECKSUM:]
    if sha256(kept).hexdigest().encode() != checksum:
        return None
    table, _, code = kept.partition(b"\n")
    results = {name: _read(written) for name, written in json.loads(table).items()}
    names = [entry_name(k) for k in range(len(results))]
    pairs = zip(results.items(), machine_code.loaded(code, names), strict=True)
    return {name: Code(entry, returns, _count(returns)) for (name, returns), entry in pairs}


def _written(kind: Kind) -> object:
    if isinstance(kind, Group):
        return [_written(member) for member in kind.members]
    return next(name for name, number in _RESULTS.items() if number is kind)


def _read(written: object) -> Kind:
    if isinstance(written, list):
        return Group(tuple(map(_read, written)))
    return _RESULTS[str(written)]


def _count(kind: Kind) -> int:
    """Number of words that hold a result."""
    return sum(map(_count, kind.members)) if isinstance(kind, Group) else 1
