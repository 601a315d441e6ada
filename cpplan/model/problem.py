"""The packing problem: buffers with lifespans, sizes and alignments, to be placed in pools.

A :class:`Problem` is a struct of arrays, one row a buffer, so that a million buffers are a few
arrays. Time is an integer step, lifespans are half-open, bytes are ``int64``.

A buffer usually fills one rectangle of steps × bytes. *Gaps* cut pieces out of it: during a gap the
buffer holds no bytes, or only a window of its bytes (MiniMalloc's ``lower-upper@begin:end``), or
several windows, each listed as a gap of the same steps. :attr:`Problem.spans` lists the rectangles
that remain; all code about conflicts reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.answers import Answer
from cpplan.model.distinct import distinct
from cpplan.model.errors import InputError
from cpplan.model.names import check_name, check_names, tuple_of
from cpplan.model.pool import Pool, check_pools
from cpplan.model.printable import quote

Ints = NDArray[np.int64]

# An address plus a size must fit into 64 bits.
_HIGHEST = 2**62
_MOST = np.iinfo(np.int64).max


class Gap(NamedTuple):
    """Gap: steps ``[lower, upper)`` in which a buffer holds only its bytes ``[begin, end)``."""

    lower: int
    upper: int
    begin: int = 0
    end: int = 0


class Spans(NamedTuple):
    """Rectangles that buffers fill, sorted by buffer, then step. All arrays have one row a span.

    ``buffer`` is the buffer's row; ``lower, upper`` are steps; ``begin, end`` are bytes relative to
    the buffer's offset.
    """

    buffer: Ints
    lower: Ints
    upper: Ints
    begin: Ints
    end: Ints


@dataclass(frozen=True, eq=False)
class Problem:
    """Buffers to be placed in pools.

    Attributes
    ----------
    names
        One name a buffer, unique.
    lower, upper
        Lifespan ``[lower, upper)`` in steps, shape ``(n,)``.
    size
        Size of each buffer, bytes, shape ``(n,)``.
    alignment
        Alignment of each buffer's offset, bytes, shape ``(n,)``; 1 if left out.
    gaps
        Row -> the gaps in that buffer's lifespan.
    fixed
        Row -> the offset that buffer must have.
    hint
        Row -> an offset worth trying.
    pools
        Pools that the buffers may lie in, in order of preference.
    candidates
        Row -> positions in ``pools`` that this buffer may go to, in order of preference; all pools,
        in their order, for rows left out.
    reads, writes
        Numbers of whole reads and of whole writes of each buffer, shape ``(n,)``; 1 if left out.
        They matter if accesses cost differently in different pools.
    name
        Name of the model or file.
    answers
        Answers of other planners for exactly this problem, for ``cpplan.compare``.

    Raises
    ------
    InputError
        If a lifespan is empty, a size negative, an alignment below 1, a gap outside its lifespan,
        a fixed offset negative or not a multiple of the alignment; the message names the buffer.

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> len(problem), problem.live_bytes().tolist()
    (3, [4, 12, 12, 4])
    """

    names: Sequence[str]
    lower: Ints
    upper: Ints
    size: Ints
    alignment: Ints = None  # type: ignore[assignment]  # always an array once the problem exists
    gaps: Mapping[int, Sequence[Gap]] = field(default_factory=dict)
    fixed: Mapping[int, int] = field(default_factory=dict)
    hint: Mapping[int, int] = field(default_factory=dict)
    pools: Sequence[Pool] = (Pool(),)
    candidates: Mapping[int, Sequence[int]] = field(default_factory=dict)
    reads: Ints = None  # type: ignore[assignment]  # as alignment
    writes: Ints = None  # type: ignore[assignment]  # as alignment
    name: str = "problem"
    answers: Sequence[Answer] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple_of(str, "names", self.names))
        count = len(self.names)
        check_name("a problem's name", self.name, empty=True)
        object.__setattr__(self, "answers", tuple_of(Answer, "answers", self.answers))
        check_names("a buffer's name", self.names)
        for column in ("alignment", "reads", "writes"):
            if getattr(self, column) is None:
                object.__setattr__(self, column, np.ones(count, np.int64))
        for column in ("lower", "upper", "size", "alignment", "reads", "writes"):
            array = _integers(column, getattr(self, column))
            if array.shape != (count,):
                raise InputError(f"{column} has shape {array.shape}: expected ({count},)")
            object.__setattr__(self, column, array)
        if len(set(self.names)) != count:
            seen: set[str] = set()
            twice = next(name for name in self.names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise InputError(f"two buffers are named {twice!r}")
        if float(np.sum(self.size, dtype=float) + np.sum(self.alignment, dtype=float)) >= _HIGHEST:
            raise InputError("sizes and alignments add up to more than 2**62 bytes")
        self._check_columns()
        self._check_pools()
        for column in ("gaps", "fixed", "hint", "candidates"):
            for row in getattr(self, column):
                if not _is_count(row) or row >= count:
                    raise InputError(f"{column}: there is no row {row!r} among {count} buffers")
        for row, gaps in self.gaps.items():
            tuple_of(Gap, f"buffer {self.names[row]!r}: gaps", gaps)
            self._check_gaps(row, gaps)
        for row, offset in self.hint.items():
            if not _is_count(offset) or offset >= _HIGHEST:
                raise InputError(
                    f"buffer {self.names[row]!r}: hint must be a non-negative integer below 2**62, "
                    f"not {quote(offset)}"
                )
        for row, offset in self.fixed.items():
            wrong = not _is_count(offset) or offset >= _HIGHEST
            if wrong or offset % int(self.alignment[row]):
                raise InputError(
                    f"buffer {self.names[row]!r}: fixed offset {quote(offset)} must be a "
                    f"non-negative multiple of its alignment {self.alignment[row]}"
                )

    def _check_columns(self) -> None:
        """Raise if a column holds a wrong value; all are right if the least of them are."""
        if not len(self):
            return
        least = min(self.lower.min(), self.size.min(), self.reads.min(), self.writes.min())
        if least >= 0 and self.alignment.min() >= 1 and (self.upper > self.lower).all():
            return
        self._refuse(self.lower < 0, "lower must not be negative", "lower")
        self._refuse(self.upper <= self.lower, "upper must be greater than lower", "lower", "upper")
        self._refuse(self.size < 0, "size must not be negative", "size")
        self._refuse(self.alignment < 1, "alignment must be at least 1", "alignment")
        self._refuse(self.reads < 0, "reads must not be negative", "reads")
        self._refuse(self.writes < 0, "writes must not be negative", "writes")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def spans(self) -> Spans:
        """The rectangles that the buffers fill. O(n) without gaps."""
        buffer = np.arange(len(self), dtype=np.int64)
        zeros = np.zeros(len(self), np.int64)
        whole = Spans(buffer, self.lower, self.upper, zeros, self.size)
        if not self.gaps:
            return whole
        keep = np.ones(len(self), bool)
        keep[list(self.gaps)] = False
        pieces = [
            (row, *piece) for row, gaps in self.gaps.items() for piece in self._pieces(row, gaps)
        ]
        extra = np.array(pieces, np.int64).reshape(-1, 5)
        columns = [np.concatenate([a[keep], extra[:, k]]) for k, a in enumerate(whole)]
        by_buffer = np.lexsort((columns[1], columns[0]))
        return Spans(*(column[by_buffer] for column in columns))

    @cached_property
    def first_span(self) -> Ints:
        """First span of each row, shape ``(n + 1,)``; row ``i`` ends at ``first_span[i + 1]``."""
        return np.searchsorted(self.spans.buffer, np.arange(len(self) + 1)).astype(np.int64)

    def live_profile(self) -> tuple[Ints, Ints]:
        """Steps at which the live set changes, and the bytes live from each to the next.

        Both have shape ``(k,)``; the last entry is the end, when nothing is live. O(n log n).

        Examples
        --------
        >>> problem = Problem(("a", "b"), lower=[0, 5], upper=[9, 7], size=[4, 8])
        >>> [column.tolist() for column in problem.live_profile()]
        [[0, 5, 7, 9], [4, 12, 4, 0]]
        """
        spans = self.spans
        times = distinct(np.concatenate([spans.lower, spans.upper]))
        change = np.zeros(len(times), np.int64)
        held = spans.end - spans.begin
        np.add.at(change, np.searchsorted(times, spans.lower), held)
        np.add.at(change, np.searchsorted(times, spans.upper), -held)
        return times, np.cumsum(change)

    def live_bytes(self) -> Ints:
        """Bytes live at every step from 0 up to the last ``upper``. O(n log n + steps)."""
        times, live = self.live_profile()
        if len(times) == 0:
            return live
        start = np.zeros(int(times[0]), np.int64)
        return np.concatenate([start, np.repeat(live[:-1], np.diff(times))])

    def live_at(self, step: int) -> Ints:
        """Rows that hold bytes at ``step``, the largest first.

        Examples
        --------
        >>> problem = Problem(("a", "b"), lower=[0, 5], upper=[9, 7], size=[4, 8])
        >>> problem.live_at(5).tolist(), problem.live_at(7).tolist()
        ([1, 0], [0])
        """
        spans = self.spans
        held = (spans.lower <= step) & (step < spans.upper) & (spans.end > spans.begin)
        rows = spans.buffer[held]
        return rows[np.argsort(-(spans.end - spans.begin)[held], kind="stable")]

    def subset(self, rows: Ints) -> Problem:
        """The same problem with these rows only, in the order in which they are given.

        Examples
        --------
        >>> problem = Problem(("a", "b"), lower=[0, 5], upper=[9, 7], size=[4, 8], hint={1: 4})
        >>> part = problem.subset(np.array([1]))
        >>> part.names, part.hint
        (('b',), {0: 4})
        """
        new_row = {int(row): k for k, row in enumerate(rows)}
        return replace(
            self,
            names=[self.names[row] for row in new_row],
            lower=self.lower[rows],
            upper=self.upper[rows],
            size=self.size[rows],
            alignment=self.alignment[rows],
            reads=self.reads[rows],
            writes=self.writes[rows],
            gaps={new_row[r]: gaps for r, gaps in self.gaps.items() if r in new_row},
            fixed={new_row[r]: offset for r, offset in self.fixed.items() if r in new_row},
            hint={new_row[r]: offset for r, offset in self.hint.items() if r in new_row},
            candidates={new_row[r]: pools for r, pools in self.candidates.items() if r in new_row},
            answers=(),
        )

    def in_pool(self, number: int, rows: Ints) -> Problem:
        """Problem of these rows in one pool; the pool's alignment is added to theirs."""
        pool = self.pools[number]
        return replace(self.subset(rows), candidates={}, pools=(pool,)).aligned_to(pool.alignment)

    def aligned_to(self, alignment: int) -> Problem:
        """The same problem with all offsets also multiples of ``alignment`` bytes.

        Examples
        --------
        >>> problem = Problem(("a", "b"), [0, 0], [1, 1], size=[4, 8], alignment=[4, 6])
        >>> problem.aligned_to(8).alignment.tolist()
        [8, 24]
        """
        if alignment == 1:
            return self
        return replace(self, alignment=np.lcm(self.alignment, alignment))

    def candidates_of(self, row: int) -> Sequence[int]:
        """Positions in :attr:`pools` that a buffer may go to, in order of preference."""
        return self.candidates.get(row, range(len(self.pools)))

    def _check_pools(self) -> None:
        object.__setattr__(self, "pools", check_pools(self.pools))
        for row, pools in self.candidates.items():
            known = _is_count(row) and row < len(self.names)
            here = f"buffer {self.names[row]!r}" if known else f"row {row!r}"
            if not pools:
                raise InputError(f"{here}: has no candidate pool")
            for number in pools:
                if not _is_count(number) or number >= len(self.pools):
                    raise InputError(f"{here}: there is no pool {number!r} among {len(self.pools)}")

    def _pieces(self, row: int, gaps: Sequence[Gap]) -> Iterable[tuple[int, int, int, int]]:
        """Rectangles of a buffer with gaps: all bytes between gaps, the windows inside them."""
        size, step = int(self.size[row]), int(self.lower[row])
        # Windows of one gap follow one another: only the first of them ends a full stretch.
        for gap in sorted(gaps):
            if step < gap.lower:
                yield step, gap.lower, 0, size
            if gap.begin < gap.end:
                yield gap.lower, gap.upper, gap.begin, gap.end
            step = gap.upper
        if step < self.upper[row]:
            yield step, int(self.upper[row]), 0, size

    def _check_gaps(self, row: int, gaps: Sequence[Gap]) -> None:
        name, end = self.names[row], int(self.lower[row])
        previous: Gap | None = None
        for gap in sorted(gaps):
            if previous is not None and gap[:2] == previous[:2]:
                if gap.begin < previous.end:
                    raise InputError(
                        f"buffer {name!r}: windows {previous.begin}:{previous.end} and "
                        f"{gap.begin}:{gap.end} of gap {gap.lower}-{gap.upper} overlap"
                    )
            elif not end <= gap.lower < gap.upper <= self.upper[row]:
                raise InputError(
                    f"buffer {name!r}: gap {gap.lower}-{gap.upper} must not be empty, must lie in "
                    f"the lifespan [{self.lower[row]}, {self.upper[row]}) and apart from other gaps"
                )
            if not 0 <= gap.begin <= gap.end <= self.size[row]:
                raise InputError(
                    f"buffer {name!r}: window {gap.begin}:{gap.end} of gap {gap.lower}-{gap.upper} "
                    f"must lie within its {self.size[row]} B"
                )
            end, previous = gap.upper, gap

    def _refuse(self, wrong: NDArray[np.bool_], rule: str, *columns: str) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            values = ", ".join(f"{column} = {getattr(self, column)[row]}" for column in columns)
            raise InputError(f"buffer {self.names[row]!r}: {rule} ({values})")


def _integers(column: str, values: object) -> Ints:
    """Read-only copy as integers, so that checked values cannot change."""
    given = np.asarray(values)
    kind = given.dtype.kind
    if given.size and (kind not in "iu" or (kind == "u" and given.max() > _MOST)):
        raise InputError(f"{column} must hold 64-bit integers, not {given.dtype}")
    array = given.astype(np.int64)
    array.flags.writeable = False
    return array


def _is_count(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= 0)
