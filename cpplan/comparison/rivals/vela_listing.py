"""Reader of vela's ``--verbose-allocation``, as a packing problem with vela's answer.

Vela compiles TFLite models for Ethos-U and prints a table for each memory: first and last step,
addresses, size and name of every tensor. The output of both versions of vela is understood, of the
older one in Python and of the newer one. Tables of read-only memory (weights in flash) are left
out. Several memories are pools, and each tensor has its memory as the only candidate.

Steps are closed ranges. If tensors share one live range, each has a row, and the rows differ only
in the name: such tensors are one buffer, named after the first. The table does not give alignments:
the alignment is the largest power of two that divides all addresses, at most 256.
"""

from __future__ import annotations

import math
import re
from os import PathLike
from typing import NamedTuple

import numpy as np

from cpplan.model.answers import Answer
from cpplan.model.errors import InputError, located
from cpplan.model.names import name_of_file
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.runtime.json_file import read_text

TITLE = "Start Time -"
_END = "Allocation Peak Tensor Size:"
_MEMORY = re.compile(
    r"Tensor Allocation for mem_area (\w+), of mem_type_set \((.*)\), using allocator .*"
    r"|Allocation, memory (\w+), usage mask: (.*)"
)
_READ_ONLY = re.compile(r"Permanent_|ReadOnly")
_ROW = re.compile(
    r" *([0-9]{1,9}) - +([0-9]{1,9}): +(0x[0-9a-f]{1,15}) - +(0x[0-9a-f]{1,15}): +([0-9]{1,18}):"
    r" +[0-9]+: (?:[A-Za-z ]+: )?\w+ +: (.*)"
)
_MOST_ALIGNED = 256


class _Row(NamedTuple):
    """Pool, steps ``[lower, upper)``, offset and bytes of a live range."""

    pool: str
    lower: int
    upper: int
    offset: int
    size: int


def read_vela(path: str | PathLike[str]) -> Problem:
    """The packing problem and vela's answer, from the printed tables; other lines are ignored.

    Raises
    ------
    InputError
        If the file cannot be read, has no table of writable memory, or a table is cut short; names
        the file and the line.
    """
    rows: dict[_Row, str] = {}
    pool: str | None = None
    tables: list[str] = []
    inside = False
    lines = read_text(path).splitlines()
    for number, line in enumerate(lines, 1):
        if match := _MEMORY.fullmatch(line.rstrip(":")):
            memory, types = (match[1], match[2]) if match[1] else (match[3], match[4])
            pool = None
            if not _READ_ONLY.search(types):
                pool = f"{memory}{tables.count(memory) or ''}"
                tables.append(memory)
        elif line.startswith(TITLE):
            inside = True
        elif line.startswith(_END):
            inside, pool = False, None
        elif inside and pool is not None:
            row = _ROW.fullmatch(line)
            if row is None or int(row[4], 16) - int(row[3], 16) != int(row[5]):
                raise InputError(f"{path}:{number}: expected a tensor of vela's, not {line[:60]!r}")
            first, last, offset, size = int(row[1]), int(row[2]), int(row[3], 16), int(row[5])
            rows.setdefault(_Row(pool, first, last + 1, offset, size), row[6])
    if inside:
        raise InputError(f"{path}: cut short: expected {_END!r} below each table")
    if not rows:
        raise InputError(f"{path}: no tensors: expected what vela --verbose-allocation prints")
    with located(path):
        return _problem(name_of_file(path), rows)


def _problem(name: str, rows: dict[_Row, str]) -> Problem:
    names: dict[str, _Row] = {}
    for row, tensor in rows.items():
        # If tensors have the same name, all but the first get their first step as a suffix.
        unique = tensor
        while unique in names:
            unique += f"@{row.lower}"
        names[unique] = row
    pools = list(dict.fromkeys(row.pool for row in rows))
    several = len(pools) > 1
    peaks = [max(row.offset + row.size for row in rows if row.pool == pool) for pool in pools]
    answer = Answer(
        "vela",
        sum(peaks),
        {tensor: row.offset for tensor, row in names.items()},
        {tensor: row.pool for tensor, row in names.items()},
    )
    pool, lower, upper, offset, size = zip(*rows, strict=True)
    return Problem(
        tuple(names),
        lower=np.array(lower, np.int64),
        upper=np.array(upper, np.int64),
        size=np.array(size, np.int64),
        alignment=np.full(len(rows), math.gcd(_MOST_ALIGNED, *offset), np.int64),
        pools=[Pool(memory) for memory in pools],
        candidates={row: (pools.index(p),) for row, p in enumerate(pool)} if several else {},
        name=name,
        answers=(answer,),
    )
