"""Packing problems in which every alias set is one buffer, and the way back to all buffers."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cpplan.aliasing.alias_sets import AliasSets, Storage
from cpplan.model.problem import Gap, Ints, Problem


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged problem, and the place of every original buffer in it.

    Attributes
    ----------
    problem
        One buffer for each alias set and for each buffer in none.
    row
        Row in ``problem`` of every original buffer, shape ``(n,)``.
    within
        Byte offset of every original buffer within that row, shape ``(n,)``.
    """

    problem: Problem
    row: Ints
    within: Ints

    def spread(self, offsets: Ints) -> Ints:
        """Offsets of the original buffers, bytes, from the offsets of the rows of ``problem``."""
        return offsets[self.row] + self.within


def storages_of(problem: Problem, names: Collection[str] | None = None) -> dict[str, Storage]:
    """Sizes, alignments and pools of a problem's buffers, or of some of them, by name."""
    columns = (problem.size.tolist(), problem.alignment.tolist())
    return {
        name: Storage(size, alignment, _pools(problem, row))
        for row, (name, size, alignment) in enumerate(zip(problem.names, *columns, strict=True))
        if names is None or name in names
    }


def merge_alias_sets(problem: Problem, alias_sets: AliasSets) -> Merged:
    """The problem with one buffer per alias set, which holds its members' bytes at each step.

    A byte that several members hold counts once; a byte that none holds is in a gap, free for other
    buffers. Members must have no gaps and no fixed offset. O(n log n).
    """
    joined = [m for m in alias_sets.members.values() if len(m) > 1]
    if not joined and not (problem.hint or problem.answers):
        return Merged(problem, np.arange(len(problem)), np.zeros(len(problem), np.int64))
    names = np.array(problem.names, object)
    position = {name: row for row, name in enumerate(problem.names)}
    inside = {position[name] for members in joined for name in members}
    alone = np.array([row for row in range(len(problem)) if row not in inside], np.int64)
    row, within = np.zeros(len(problem), np.int64), np.zeros(len(problem), np.int64)
    row[alone] = np.arange(len(alone))
    rest = problem.subset(alone)
    columns: dict[str, list[int]] = {key: getattr(rest, key).tolist() for key in _COLUMNS}
    all_names = names[alone].tolist()
    gaps, candidates = dict(rest.gaps), dict(rest.candidates)
    for members in joined:
        rows = np.array([position[name] for name in members], np.int64)
        places = np.array([alias_sets.place[name] for name in members], np.int64)
        number = len(all_names)
        row[rows], within[rows] = number, places
        # The member with the highest end names the alias set; the first one on ties.
        all_names.append(members[int(np.argmax(places + problem.size[rows]))])
        columns["lower"].append(int(problem.lower[rows].min()))
        columns["upper"].append(int(problem.upper[rows].max()))
        columns["size"].append(int((places + problem.size[rows]).max()))
        columns["alignment"].append(math.lcm(*problem.alignment[rows].tolist()))
        columns["reads"].append(int(problem.reads[rows].sum()))
        columns["writes"].append(int(problem.writes[rows].sum()))
        if found := _gaps(problem, rows, places, columns["size"][-1]):
            gaps[number] = found
        shared = [_pools(problem, int(k)) for k in rows]
        allowed = [pools for pools in shared if pools is not None]
        if allowed:
            first = next(problem.candidates[int(k)] for k in rows if int(k) in problem.candidates)
            common = frozenset.intersection(*allowed)
            candidates[number] = tuple(pool for pool in first if pool in common)
    arrays = {key: np.array(values, np.int64) for key, values in columns.items()}
    merged = Problem(
        tuple(all_names),
        arrays["lower"],
        arrays["upper"],
        arrays["size"],
        arrays["alignment"],
        reads=arrays["reads"],
        writes=arrays["writes"],
        gaps=gaps,
        fixed=rest.fixed,
        pools=problem.pools,
        candidates=candidates,
        name=problem.name,
    )
    return Merged(merged, row, within)


_COLUMNS = ("lower", "upper", "size", "alignment", "reads", "writes")


def _pools(problem: Problem, row: int) -> frozenset[int] | None:
    return frozenset(problem.candidates[row]) if row in problem.candidates else None


def _gaps(problem: Problem, rows: Ints, places: Ints, size: int) -> list[Gap]:
    """Gaps of an alias set: steps at which its members hold only a part, and the bytes held."""
    starts, ends = problem.lower[rows].tolist(), problem.upper[rows].tolist()
    spans = list(zip(places.tolist(), (places + problem.size[rows]).tolist(), strict=True))
    times = sorted({*starts, *ends})
    starting: dict[int, list[int]] = {}
    ending: dict[int, list[int]] = {}
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        starting.setdefault(start, []).append(k)
        ending.setdefault(end, []).append(k)
    live: set[int] = set()
    windows: list[tuple[int, int, tuple[tuple[int, int], ...]]] = []
    for begin, end in pairwise(times):
        live.difference_update(ending.get(begin, ()))
        live.update(starting.get(begin, ()))
        held = tuple(_union(sorted(spans[k] for k in live)))
        if windows and windows[-1][1] == begin and windows[-1][2] == held:
            windows[-1] = (windows[-1][0], end, held)
        else:
            windows.append((begin, end, held))
    return [
        Gap(begin, end, low, high)
        for begin, end, held in windows
        if held != ((0, size),)
        for low, high in held or ((0, 0),)
    ]


def _union(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of sorted intervals, in which adjacent intervals are joined."""
    joined: list[tuple[int, int]] = []
    for low, high in intervals:
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        elif low < high:
            joined.append((low, high))
    return joined
