"""Arrays of the canonical search.

``Board`` is the problem: buffers, their sections, and their neighbours (buffers live together), as
flat arrays. ``Search`` is the state: the placed buffers, the floor of every other buffer with the
placements that raised it, and a trail to undo changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints, Problem

# Entries of ``Search.counter``.
LEVELS, TRAIL, NODES = 0, 1, 2
# Changes a buffer that the trail has room for at first; it grows when it is full.
_CHANGES_A_BUFFER = 50
# Columns of ``Search`` that are written before they are read.
_WRITTEN = "trail", "old_reason"


class Board(NamedTuple):
    """Constant data of a search, in address units; members and neighbours are rows.

    ``highest`` is the highest offset of each buffer, ``limit[0]`` the end of the arena.
    """

    lower: Ints
    upper: Ints
    size: Ints
    alignment: Ints
    twin: Ints
    highest: Ints
    limit: Ints
    first_section: Ints
    sections: NDArray[np.int32]
    first_member: Ints
    first_neighbour: Ints
    neighbours: NDArray[np.int32]


class Search(NamedTuple):
    """State of the search. ``floor[b] >= rest[b]``, the top of the buffers placed below ``b``.

    The first ``waiting[s]`` members of a section are unplaced. ``slot`` maps an entry of
    ``Board.sections`` to its place in ``members``, and ``entry`` is the inverse.
    """

    placed: NDArray[np.bool_]
    floor: Ints
    rest: Ints
    total: Ints
    lowest: Ints
    witness: Ints
    crossing: Ints
    members: NDArray[np.int32]
    slot: NDArray[np.int32]
    entry: NDArray[np.int32]
    waiting: Ints
    buffer: Ints
    begin: Ints
    end: Ints
    mark: Ints
    trail: Ints
    reason: NDArray[np.uint64]
    old_reason: NDArray[np.uint64]
    why: NDArray[np.uint64]
    conflict: NDArray[np.uint64]
    level: Ints
    raised: Ints
    is_raised: NDArray[np.bool_]
    weight: Ints
    counter: Ints


def make_board(problem: Problem, unit: int) -> Board:
    """The board in address units, without a limit yet. O(n²), with gaps O(n² × sections)."""
    count, origin = len(problem), int(problem.lower.min())
    lower, upper = problem.lower - origin, problem.upper - origin
    live = np.zeros((count, int(upper.max())), bool)
    spans = problem.spans
    for row, begin, end in zip(*(column.tolist() for column in spans[:3]), strict=True):
        live[row, begin - origin : end - origin] = True
    if problem.gaps:
        together = (live.astype(np.float32) @ live.T.astype(np.float32)) > 0
    else:
        together = (lower[:, None] < upper) & (lower < upper[:, None])
    np.fill_diagonal(together, False)
    return Board(
        lower,
        upper,
        -(-problem.size // unit),
        np.maximum(1, problem.alignment // unit),
        _later_twins(problem),
        np.zeros(count, np.int64),
        np.zeros(1, np.int64),
        *_compressed(live),
        _compressed(live.T)[0],
        *_compressed(together),
    )


def start(board: Board) -> Search:
    """State without placed buffers; later twins have floors above earlier ones."""
    count, sections = len(board.size), len(board.first_member) - 1
    floor = np.zeros(count, np.int64)
    for row in np.flatnonzero(board.twin >= 0):
        step = board.alignment[row]
        floor[board.twin[row]] = -(-(floor[row] + board.size[row]) // step) * step
    # Entries of ``Board.sections`` go buffer by buffer, members section by section.
    entry = np.argsort(board.sections, kind="stable").astype(np.int32)
    slot = np.empty_like(entry)
    slot[entry] = np.arange(len(entry))
    buffers = np.repeat(np.arange(count, dtype=np.int32), np.diff(board.first_section))
    members, owner = buffers[entry], board.sections[entry]
    total = np.zeros(sections, np.int64)
    np.add.at(total, owner, board.size[members])
    change = np.zeros(sections + 2, np.int64)
    np.add.at(change, board.lower + 1, 1)
    np.add.at(change, board.upper, -1)
    by_floor = np.lexsort((floor[members], owner))
    witness = members[by_floor[board.first_member[:-1]]]
    changes, words = _CHANGES_A_BUFFER * count + margin(board), -(-count // 64)
    return Search(
        placed=np.zeros(count, bool),
        floor=floor,
        rest=np.zeros(count, np.int64),
        total=total,
        lowest=floor[witness],
        witness=witness.astype(np.int64),
        crossing=np.cumsum(change),
        members=members,
        slot=slot,
        entry=entry,
        waiting=np.diff(board.first_member),
        buffer=np.zeros(count, np.int64),
        begin=np.zeros(count, np.int64),
        end=np.zeros(count, np.int64),
        mark=np.zeros(count, np.int64),
        trail=np.zeros((changes, 4), np.int64),
        reason=np.zeros((count, words), np.uint64),
        old_reason=np.zeros((changes, words), np.uint64),
        why=np.zeros(words, np.uint64),
        conflict=np.zeros(words, np.uint64),
        level=np.zeros(count, np.int64),
        raised=np.zeros(count, np.int64),
        is_raised=np.zeros(count, bool),
        weight=np.zeros(sections, np.int64),
        counter=np.zeros(3, np.int64),
    )


def begin_again(first: Search, spare: Search | None) -> Search:
    """A copy of the state without placed buffers.

    It takes the arrays of a state that is not needed any more, if given: they have grown to the
    room that a search needs, and new memory costs more time than the first nodes.
    """
    columns = {name: column for name, column in first._asdict().items() if name not in _WRITTEN}
    if spare is None:
        room = {name: np.zeros_like(getattr(first, name)) for name in _WRITTEN}
        return first._replace(**room, **{name: column.copy() for name, column in columns.items()})
    for name, column in columns.items():
        getattr(spare, name)[...] = column
    return spare


def byte_count(search: Search) -> int:
    """Bytes of all columns."""
    return sum(column.nbytes for column in search)


def margin(board: Board) -> int:
    """The most changes that one decision can cause."""
    twins = int((board.twin >= 0).sum())
    return (twins + 1) * len(board.size) + len(board.sections) + 2


def with_more_room(search: Search) -> Search:
    """The same search with room for twice as many changes."""
    # Rows that are not written yet take no memory.
    count, words = search.old_reason.shape
    trail, old_reason = np.zeros((2 * count, 4), np.int64), np.zeros((2 * count, words), np.uint64)
    trail[:count], old_reason[:count] = search.trail, search.old_reason
    return search._replace(trail=trail, old_reason=old_reason)


def _compressed(matrix: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.int32]]:
    """Start of each row's columns, and the columns one row after another."""
    rows, columns = np.nonzero(matrix)
    first = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int64)
    return first, columns.astype(np.int32)


def _later_twins(problem: Problem) -> Ints:
    """The next equal buffer of every row, or -1."""
    twin = np.full(len(problem), -1, np.int64)
    latest: dict[tuple[object, ...], int] = {}
    columns = (problem.lower, problem.upper, problem.size, problem.alignment)
    for row, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        alike = (*key, tuple(sorted(problem.gaps.get(row, ()))))
        if alike in latest:
            twin[latest[alike]] = row
        latest[alike] = row
    return twin
