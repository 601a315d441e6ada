"""A rematerialization problem as flat arrays, for compiled loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.remat_problem import RematProblem
from cpplan.ordering.bounds import topological_order


class FlatProblem(NamedTuple):
    """Flat arrays: unit ``u`` reads the storages ``reads[read_start[u] : read_start[u + 1]]``.

    Attributes
    ----------
    before_start, before, after_start, after
        Predecessors and successors of every unit.
    read_start, reads, write_start, writes
        Storages that every unit reads and begins.
    spared
        For every entry of ``reads``, 1 if the unit overwrites the storage when it is the last to
        read it, else 0.
    writer
        The only unit that begins a storage; -1 if it is there from the start or several units
        begin it.
    size, present, kept
        As in the ordering problem, for every storage.
    in_parts
        True for a storage that several units begin: it has one retention.
    extra, repeatable, cost
        As in the problem, for every unit; ``cost`` as floating-point numbers.
    topological
        Units, each after its predecessors.
    base, entry
        Bytes live throughout, and at the first position.
    """

    before_start: Ints
    before: Ints
    after_start: Ints
    after: Ints
    read_start: Ints
    reads: Ints
    write_start: Ints
    writes: Ints
    spared: Ints
    writer: Ints
    size: Ints
    present: np.ndarray
    kept: np.ndarray
    in_parts: np.ndarray
    extra: Ints
    repeatable: np.ndarray
    cost: np.ndarray
    topological: Ints
    base: int
    entry: int


# The searches ask for the arrays of one problem hundreds of times.
_FLAT: WeakKeyDictionary[RematProblem, FlatProblem] = WeakKeyDictionary()


def flatten(problem: RematProblem) -> FlatProblem:
    """The arrays of a problem, made once and shared. O(units + accesses)."""
    known = _FLAT.get(problem)
    if known is None:
        known = _FLAT[problem] = _flatten(problem)
    return known


def _flatten(problem: RematProblem) -> FlatProblem:
    ordering = problem.ordering
    writers: list[list[int]] = [[] for _ in ordering.size]
    for unit, storages in enumerate(problem.writes):
        for storage in storages:
            writers[storage].append(unit)
    once = [
        w[0] if len(w) == 1 and not there else -1
        for w, there in zip(writers, ordering.present.tolist(), strict=True)
    ]
    return FlatProblem(
        *_ranges(ordering.predecessors),
        *_ranges(ordering.successors),
        *_ranges(problem.reads),
        *_ranges(problem.writes),
        spared=np.array(
            [
                storage in over
                for read, over in zip(problem.reads, problem.overwrites, strict=True)
                for storage in read
            ],
            np.int64,
        ),
        writer=np.array(once, np.int64),
        size=np.asarray(ordering.size, np.int64),
        present=np.asarray(ordering.present, bool),
        kept=np.asarray(ordering.kept, bool),
        in_parts=np.array([len(w) > 1 for w in writers], bool),
        extra=np.asarray(ordering.extra, np.int64),
        repeatable=np.asarray(problem.repeatable, bool),
        cost=np.array(problem.cost, np.float64),
        topological=np.array(topological_order(ordering), np.int64),
        base=int(ordering.base),
        entry=int(ordering.entry),
    )


def _ranges(rows: Sequence[Iterable[int]]) -> tuple[Ints, Ints]:
    """Start of each row (and the end of the last), and the rows one after another."""
    lists = [list(row) for row in rows]
    start = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(row) for row in lists], out=start[1:])
    return start, np.array([item for row in lists for item in row], np.int64)
