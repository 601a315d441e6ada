"""Reader of XLA's buffer assignment, as a packing problem with XLA's own answer.

``XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"`` writes two listings a module: the
allocation of each value and its bytes there (``…-buffer-assignment.txt``), and the first and last
instruction at which the value is live (``…-live-range.txt``; older versions append it to the
first). Either file is read together with the other one, which must lie beside it.

XLA packs its ``preallocated-temp`` allocations by offset. Parameters, constants and values that may
be live at the end have allocations of their own and are left out. Several packed allocations
(memory spaces) are pools, and each value has its pool as the only candidate.

Live ranges are closed: the last step is the step that reads the value for the last time. If another
value begins at the same offset in that very step, XLA lets the instruction write over its operand,
or both are one loop's state; the text does not tell the two cases apart. Such values are one buffer
here, whose size changes with time, so that a plan shares exactly the bytes that XLA shares. For the
same reason, all values with exactly the bytes of a ``(phi)`` value are one buffer. The text does
not give alignments: the alignment is the largest power of two that divides all offsets, at most
256.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cpplan.model.answers import Answer
from cpplan.model.errors import InputError, located
from cpplan.model.names import name_of_file
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem
from cpplan.runtime.json_file import read_text

ASSIGNMENT, RANGES = "BufferAssignment:", "HloLiveRange"
_ALLOCATION = re.compile(r"allocation ([0-9]+): (?:0x[0-9a-f]+, )?size ([0-9]{1,18})\b(.*):")
_VALUE = re.compile(
    r" +value: <[0-9]+ (.+) @[0-9]+> \(size=([0-9]{1,18}),offset=([0-9]{1,18})\):.*"
)
_RANGE = re.compile(r" +(\S+\{[0-9,]*\}):([0-9]{1,18})-([0-9]{1,18})")
_PHI = " (phi)"
_MOST_ALIGNED = 256


class _Value(NamedTuple):
    """A value of XLA's, live in ``[lower, upper)``; ``phi`` if a loop or branch joins it."""

    name: str
    size: int
    offset: int
    allocation: int
    phi: bool
    lower: int = 0
    upper: int = 0


def read_xla(path: str | PathLike[str]) -> Problem:
    """The packing problem and XLA's answer, from a listing of either kind.

    Raises
    ------
    InputError
        If a file cannot be read, is cut short or is not such a listing, if a value has no live
        range, or if XLA packed no values; names the file.
    """
    assignment, ranges = _both(Path(path))
    temporary, values = _allocations(*assignment)
    lifespans = _lifespans(*ranges)
    listed = {_key(value) for value in values}
    missing = next((name for name in lifespans if name not in listed), None)
    if missing is not None:
        raise InputError(f"{assignment[0]}: cut short: value {missing!r} has no allocation")
    if not temporary:
        raise InputError(f"{path}: XLA packed nothing: there is no preallocated-temp allocation")
    placed = []
    for value in values:
        if value.allocation in temporary:
            if _key(value) not in lifespans:
                raise InputError(f"{ranges[0]}: value {_key(value)!r} has no live range")
            first, last = lifespans[_key(value)]
            placed.append(value._replace(lower=first, upper=last + 1))
    with located(path):
        return _problem(name_of_file(path), temporary, placed)


def _both(path: Path) -> tuple[tuple[Path, str], tuple[Path, str]]:
    """File and text of the buffer assignment, and of the live ranges."""
    text = read_text(path)
    kinds = ("buffer-assignment", "live-range")
    is_ranges = text.startswith(RANGES)
    if not is_ranges and not text.startswith(ASSIGNMENT):
        raise InputError(f"{path}: not a listing of XLA's: expected {ASSIGNMENT} or {RANGES}")
    if not is_ranges and f"\n{RANGES}" in text:
        return (path, text), (path, text)
    own, other = kinds[is_ranges], kinds[not is_ranges]
    beside = path.with_name(other.join(path.name.rsplit(own, 1)))
    if beside == path or not beside.is_file():
        wanted = f"*-{other}.txt"
        raise InputError(f"{path}: expected XLA's {wanted} beside it, named alike")
    pair = (path, text), (beside, read_text(beside))
    return pair[::-1] if is_ranges else pair


def _allocations(path: Path, text: str) -> tuple[dict[int, int], list[_Value]]:
    """Bytes of each allocation for temporaries, and the values of all allocations."""
    temporary: dict[int, int] = {}
    values: list[_Value] = []
    number = None
    lines = text.splitlines()
    if lines[:1] != [ASSIGNMENT]:
        raise InputError(f"{path}: not a listing of XLA's: expected {ASSIGNMENT}")
    for row, line in enumerate(lines[1:], 2):
        if not line.strip() or line.startswith("Total bytes"):
            break
        if match := _ALLOCATION.fullmatch(line):
            number = int(match[1])
            if "preallocated-temp" in match[3]:
                temporary[number] = int(match[2])
        elif number is not None and (match := _VALUE.fullmatch(line)):
            name = match[1].removesuffix(_PHI)
            phi = name != match[1]
            values.append(_Value(name, int(match[2]), int(match[3]), number, phi))
        else:
            raise InputError(f"{path}:{row}: expected an allocation or a value, not {line[:60]!r}")
    return temporary, values


def _lifespans(path: Path, text: str) -> dict[str, tuple[int, int]]:
    """First and last step of every value."""
    lines = text.splitlines()
    title = "  BufferLiveRange:"
    if title not in lines:
        raise InputError(f"{path}: no live ranges, or cut short: expected {title.strip()}")
    first = lines.index(title) + 1
    found: dict[str, tuple[int, int]] = {}
    for row, line in enumerate(lines[first:], first + 1):
        if not line.startswith("    "):
            break
        match = _RANGE.fullmatch(line)
        if match is None or int(match[3]) < int(match[2]):
            raise InputError(f"{path}:{row}: expected value{{}}:first-last, not {line[:60]!r}")
        found[match[1]] = int(match[2]), int(match[3])
    return found


def _key(value: _Value) -> str:
    """Name of a value in the live ranges, which append its index in a tuple."""
    return value.name if value.name.endswith("}") else value.name + "{}"


def _problem(name: str, temporary: dict[int, int], values: Sequence[_Value]) -> Problem:
    places: dict[tuple[int, int], list[_Value]] = defaultdict(list)
    for value in values:
        places[value.allocation, value.offset].append(value)
    groups = [group for there in places.values() for group in _kept_together(there)]
    groups.sort(key=lambda group: (group[0].lower, group[0].name))
    common = math.gcd(_MOST_ALIGNED, *(value.offset for value in values))
    size = [max(value.size for value in group) for group in groups]
    pools = [Pool(f"temp{number}" if len(temporary) > 1 else "temp") for number in temporary]
    position = {number: k for k, number in enumerate(temporary)}
    rows = {row: position[group[0].allocation] for row, group in enumerate(groups)}
    names = [group[0].name for group in groups]
    answer = Answer(
        "xla",
        sum(temporary.values()),
        {name: group[0].offset for name, group in zip(names, groups, strict=True)},
        {names[row]: pools[k].name for row, k in rows.items()},
    )
    return Problem(
        names,
        lower=np.array([group[0].lower for group in groups], np.int64),
        upper=np.array([max(value.upper for value in group) for group in groups], np.int64),
        size=np.array(size, np.int64),
        alignment=np.full(len(groups), common, np.int64),
        gaps={row: gaps for row, group in enumerate(groups) if (gaps := _gaps(group, size[row]))},
        pools=pools,
        candidates={row: (k,) for row, k in rows.items()} if len(pools) > 1 else {},
        name=name,
        answers=(answer,),
    )


def _kept_together(values: Iterable[_Value]) -> list[list[_Value]]:
    """Groups of values at one offset that are one buffer in turn, sorted by step."""
    from networkx.utils import UnionFind

    values = sorted(values, key=lambda value: (value.lower, value.upper))
    groups = UnionFind(range(len(values)))
    ending: dict[int, list[int]] = defaultdict(list)
    for k, value in enumerate(values):
        groups.union(k, *ending[value.lower])
        ending[value.upper - 1].append(k)
    for size in {value.size for value in values if value.phi}:
        groups.union(*(k for k, value in enumerate(values) if value.size == size))
    members: dict[int, list[_Value]] = defaultdict(list)
    for k, value in enumerate(values):
        members[groups[k]].append(value)
    found = []
    for together in members.values():
        ends = np.maximum.accumulate([value.upper for value in together])
        apart = all(v.lower >= end - 1 for v, end in zip(together[1:], ends.tolist(), strict=False))
        # Values that overlap for longer are separate buffers: XLA's answer is then shown as
        # invalid.
        found += [together] if apart else [[value] for value in together]
    return found


def _gaps(group: Sequence[_Value], size: int) -> list[Gap]:
    """Gaps of a group: steps at which it holds fewer bytes than its largest value."""
    steps = sorted({step for value in group for step in (value.lower, value.upper)})
    gaps: list[Gap] = []
    for lower, upper in pairwise(steps):
        held = max((v.size for v in group if v.lower <= lower < v.upper), default=0)
        if held == size:
            continue
        if gaps and gaps[-1][1:] == (lower, 0, held):
            lower = gaps.pop().lower
        gaps.append(Gap(lower, upper, 0, held))
    return gaps
