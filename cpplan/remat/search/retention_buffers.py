"""Conversion between retentions of a schedule and buffers of a program that runs ops again.

Besides the retentions, an arena holds storages that no op accesses, and buffers of ops' bodies.

Offsets within a limit for retentions of known sizes and times, by guided local search.

At first, retentions may share bytes. One after another moves to the offset where it shares least,
weighted by pairs. Once no retention moves, pairs that still share bytes get more weight (Voudouris
and Tsang, 1999; for packing, with moves along one axis: Egeblad, Nielsen and Odgaard, 2007).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.model.remat_problem import RematProblem
from cpplan.model.residency import Residency
from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.program.anf import Program
from cpplan.program.copy_names import tensor_copies
from cpplan.program.liveness import to_problem
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.search.separation_kernel import separate, space_for
from cpplan.remat.tuning import active
from cpplan.runtime.deadline import Deadline

# Moves times retentions in one call of the compiled loop, and in a second, about; and the overhead
# of a move, in retentions.
_CALL, _RATE, _BESIDES = 2e6, 7e7, 30


class RetentionBuffers:
    """Converter between offsets of retentions and offsets of buffers.

    Buffers that are live throughout and accessed by no unit lie at the end of the arena. The
    buffers of a unit's bodies lie in one block. Inputs that no op reads lie in another block.

    Parameters
    ----------
    problem
        Problem of the schedules.
    residency
        Residency with which the problem was made.
    limit
        Bytes of the arena.

    Attributes
    ----------
    room
        Bytes left for retentions and blocks; negative if buffers live throughout do not fit.
    alignment
        Alignment of every storage, shape ``(storages,)``.
    extra
        Bytes of every unit's block, shape ``(units,)``.
    entry
        Bytes of the block of inputs that no op reads.
    inner_alignment
        Alignment of all blocks.
    """

    def __init__(self, problem: RematProblem, residency: Residency, limit: int):
        self._source, self._residency = problem, residency
        storages = problem.ordering.storages
        order = given_order(problem)
        program, buffers = self._program(order)
        row = {name: k for k, name in enumerate(buffers.names)}
        rows = np.array([row[name] for name in storages], np.int64)
        self.alignment: Ints = buffers.alignment[rows]
        self._storages = frozenset(storages)
        self._names = tensor_copies(problem.graph)
        throughout, entry, blocks = self._others(order, program, buffers)
        inner = [*entry, *(k for block in blocks for k in block)]
        self.inner_alignment = math.lcm(1, *buffers.alignment[inner].tolist())
        self.room = limit
        self._throughout: dict[str, int] = {}
        for k in throughout:
            step = int(buffers.alignment[k])
            self.room = (self.room - int(buffers.size[k])) // step * step
            self._throughout[buffers.names[k]] = self.room
        self.entry = _height(buffers, entry)
        self.extra: Ints = np.zeros(len(problem), np.int64)
        for unit, block in zip(order, blocks, strict=True):
            self.extra[unit] = _height(buffers, block)

    def buffers(self, schedule: Sequence[int]) -> Problem:
        """The packing problem of a schedule."""
        return self._program(schedule)[1]

    def offsets(
        self, schedule: Sequence[int], retentions: Ints, blocks: Ints, entry: int
    ) -> tuple[Problem, Ints]:
        """The packing problem of a schedule, and an offset for each of its buffers.

        Parameters
        ----------
        retentions
            Offset of every retention, by begin: first storages from the start, then the storages
            that every run begins, each group by number.
        blocks
            Offset of the block of every run, shape ``(len(schedule),)``.
        entry
            Offset of the block of inputs that no op reads.
        """
        names = self._source.ordering.storages
        program, buffers = self._program(schedule)
        row = {name: k for k, name in enumerate(buffers.names)}
        offsets: Ints = np.zeros(len(buffers), np.int64)
        copies: Counter[int] = Counter()
        for storage, offset in zip(self._begun(schedule), retentions.tolist(), strict=True):
            copy = copies[storage]
            offsets[row[self._names.copy(names[storage], copy)]] = offset
            copies[storage] += 1
        throughout, handed_in, within = self._others(schedule, program, buffers)
        for k in throughout:
            offsets[k] = self._throughout[buffers.names[k]]
        for group, offset in zip([handed_in, *within], [entry, *blocks.tolist()], strict=True):
            if group:
                offsets[group] = offset + _first_fit(buffers, group)
        return buffers, offsets

    def retentions(self, schedule: Sequence[int], offsets: Ints) -> tuple[Ints, Ints, int]:
        """Offsets of the retentions and blocks of a packed schedule, as :meth:`offsets` takes them.

        Buffers live throughout move to the end of the arena, and buffers above them move down.

        Parameters
        ----------
        offsets
            Offset of each buffer of ``buffers(schedule)``.
        """
        names = self._source.ordering.storages
        program, buffers = self._program(schedule)
        row = {name: k for k, name in enumerate(buffers.names)}
        throughout, handed_in, within = self._others(schedule, program, buffers)
        upwards = np.array(throughout, np.int64)[np.argsort(offsets[throughout])]
        below = np.cumsum([0, *buffers.size[upwards].tolist()])
        down: Ints = offsets - below[np.searchsorted(offsets[upwards], offsets)]
        copies: Counter[int] = Counter()
        begun = []
        for storage in self._begun(schedule):
            begun.append(int(down[row[self._names.copy(names[storage], copies[storage])]]))
            copies[storage] += 1
        lowest = [int(down[group].min()) if group else 0 for group in within]
        return (
            np.array(begun, np.int64),
            np.array(lowest, np.int64),
            int(down[handed_in].min()) if handed_in else 0,
        )

    def _begun(self, schedule: Sequence[int]) -> Iterator[int]:
        """The storage of every retention, in the order in which they begin."""
        problem, parts = self._source, set[int]()
        yield from np.flatnonzero(problem.ordering.present).tolist()
        for unit in schedule:
            for storage in problem.writes[unit]:
                if storage not in parts:
                    yield storage
                if storage in problem.written_in_parts:
                    parts.add(storage)

    def _program(self, schedule: Sequence[int]) -> tuple[Program, Problem]:
        program = Program(self._source.graph, self._source.expand(schedule))
        return program, to_problem(program, self._residency)

    def _others(
        self, schedule: Sequence[int], program: Program, buffers: Problem
    ) -> tuple[list[int], list[int], list[list[int]]]:
        """Rows of buffers live throughout, of unread inputs, and of the bodies of every run.

        Retentions and empty buffers are left out.
        """
        graph, starts = program.graph, program.starts
        first = np.cumsum([0, *(len(self._source.units[unit]) for unit in schedule)])
        begins = np.array(starts, np.int64)[first]
        throughout: list[int] = []
        entry: list[int] = []
        blocks: list[list[int]] = [[] for _ in schedule]
        for k, name in enumerate(buffers.names):
            if self._is_retention(name) or not buffers.size[k]:
                continue
            if buffers.lower[k] == 0 and buffers.upper[k] == starts[-1] and len(schedule) > 1:
                throughout.append(k)
            elif name in graph.tensor:
                entry.append(k)
            else:
                run = int(np.searchsorted(begins, buffers.lower[k], side="right")) - 1
                blocks[run].append(k)
        return throughout, entry, blocks

    def _is_retention(self, name: str) -> bool:
        return self._names.split(name)[0] in self._storages


def _height(buffers: Problem, rows: list[int]) -> int:
    return int((_first_fit(buffers, rows) + buffers.size[rows]).max(initial=0)) if rows else 0


def _first_fit(buffers: Problem, rows: list[int]) -> Ints:
    """Offsets of some buffers as a separate problem, the same for every run of a unit."""
    alone = buffers.subset(np.array(rows, np.int64))
    by_size = np.lexsort((alone.lower, -alone.size))
    return first_fit_in_order(alone, by_size.tolist(), Deadline(math.inf))


class Retentions(NamedTuple):
    """Half-open lifespans, sizes and alignments, each of shape ``(retentions,)``."""

    begin: Ints
    end: Ints
    size: Ints
    alignment: Ints


def separate_retentions(
    retentions: Retentions,
    offsets: Ints,
    limit: int,
    deadline: Deadline,
    random: np.random.Generator,
    *,
    moves: int | None = None,
) -> tuple[Ints, int]:
    """Offsets that share as few bytes as possible, and the bytes shared: zero for a packing.

    Parameters
    ----------
    retentions
        The retentions, each at most as large as the limit.
    offsets
        First offsets: multiples of the alignments, so that no retention ends above the limit.
    limit
        Limit on the ends, bytes.
    deadline
        When it passes, the best so far is returned.
    random
        Generator for the order of moves.
    moves
        The most moves to try; if ``None``, until the deadline.
    """
    count = len(retentions.size)
    low, best = offsets.copy(), offsets.copy()
    if count > active().most_retentions:
        raise ValueError(f"{count} retentions: at most {active().most_retentions} are separated")
    weight = np.ones((count, count), np.float32)
    np.fill_diagonal(weight, 0)
    columns = tuple(np.ascontiguousarray(column, np.int64) for column in retentions)
    found, least = best.copy(), -1
    left = moves
    size = max(1, int(_CALL / max(1, count)))
    while True:
        tried = size if left is None else min(left, size)
        space = space_for(low, columns[2])
        shared = separate(random, columns, weight, low, best, limit, tried, space)
        deadline.spend(tried * (count + _BESIDES) / _RATE)
        if least < 0 or shared < least:
            found, least = best.copy(), int(shared)
        left = None if left is None else left - tried
        if least == 0 or deadline.expired() or (left is not None and left <= 0):
            return found, least
