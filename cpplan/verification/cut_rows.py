"""Rows that every schedule within a limit satisfies, from the storages retained at cuts.

A *cut* is the moment of the first run of a group (:mod:`cpplan.verification.groups`); interval j
lies after cut j, up to cut j + 1. A program is described by these numbers, all 0 or 1 except G:

* r_ijv: v runs in one of the intervals i to j; d_jv: it has run by the end of j;
* k_js: storage s is live at cut j, k_0s at the start and k_{m+1,s} at the end; g_js: s is live
  throughout j, and no op begins it there; G_j: bytes of all storages with g_js = 1.

Each rule makes a row: a sum of these numbers that is at least a constant in every program whose
live bytes are within the limit. ``domain`` gives the values that a number can take.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from cpplan.model.certificates import CutDuals, DualRow, kinds_of
from cpplan.model.errors import VerificationError
from cpplan.verification.around import Surroundings
from cpplan.verification.groups import Groups

# Largest total size of the sets of cuts before and after all groups, bits.
MOST_BITS = 1 << 31


class Column(NamedTuple):
    """A number that describes a program: its letter, its interval, its group or storage.

    Of runs (``r``), ``interval`` begins a range of intervals, and ``until`` ends it.
    """

    letter: str
    interval: int
    of: int | str = 0
    until: int = 0


Term = tuple[int, Column]
Row = tuple[list[Term], int]


class CutRows:
    """The rows of some groups at some cuts.

    Parameters
    ----------
    groups
        Groups of the graph's ops.
    duals
        The certificate: its cuts, and the names that its rows cite.
    limit
        Live bytes that no schedule may exceed.

    Raises
    ------
    VerificationError
        If a cut is not the first op of a group, or need not run before the next cut.
    """

    def __init__(self, groups: Groups, duals: CutDuals, limit: int):
        self.groups = groups
        self.capacity = (limit - groups.base) // groups.unit
        self._size = {name: size // groups.unit for name, size in groups.size.items()}
        self._extra = [extra // groups.unit for extra in groups.extra]
        many = len(duals.cuts) * len(groups) > MOST_BITS
        if many or len(set(duals.cuts)) < len(duals.cuts):
            raise VerificationError("the certificate has too many cuts, or the same cut twice")
        self._cuts = [self._group(name) for name in duals.cuts]
        self._ops, self._storages = duals.ops, duals.storages
        self.last = len(self._cuts)
        self._set_windows(duals.given_order)
        self._throughout: dict[tuple[int, str], Column | None] = {}
        self._at: dict[int, tuple[set[str], int]] = {}
        # Storage -> the last interval from which on it is read for certain.
        self._needed_from: dict[str, int] | None = None

    def row(self, cited: DualRow) -> Row:
        """Terms of a row, and the least value of their sum.

        Raises
        ------
        VerificationError
            If no rule makes this row.
        """
        rule, indices, multiplier = cited
        kinds = kinds_of(rule, len(indices))
        whole = all(type(number) is int and number >= 0 for number in (*indices, multiplier))
        if not kinds or len(indices) != len(kinds) or not whole:
            raise VerificationError(f"the certificate has a malformed row: {cited!r:.120}")
        intervals: list[int] = []
        values: list[int | str] = []
        for kind, index in zip(kinds, indices, strict=True):
            if kind == "j":
                intervals.append(index)
            elif kind == "v":
                values.append(self._group(_named(self._ops, index)))
            elif kind == "d":
                values.append(index)
            else:
                values.append(_named(self._storages, index))
                if values[-1] not in self._size:
                    raise VerificationError(
                        f"the certificate names {values[-1]!r}, which is no storage of the plan"
                    )
        past_start = int(rule == "at cut")
        if not all(past_start <= j <= self.last + past_start for j in intervals):
            shown = " to ".join(map(str, intervals))
            raise VerificationError(
                f"the certificate has a row {rule!r} of interval {shown}, which has no such row"
            )
        return _ROWS[rule](self, *intervals, *values)

    def domain(self, column: Column) -> tuple[int, int]:
        """Least and greatest value that a number can take."""
        letter, j, of, until = column
        if letter == "G":
            sizes = (size for name, size in self._size.items() if self._held(j, name))
            return 0, max(0, min(sum(sizes), self.capacity))
        if letter in "kg":
            return self._live(j, str(of)) if letter == "k" else (0, 1)
        v = int(of)
        first, end = self._window[v]
        if letter == "d":
            return int(j >= end), int(j >= first)
        may = first <= until and (j <= end or self.groups.again[v])
        return int(j <= first <= end <= until), int(may)

    def fixed(self, group: int) -> bool:
        """True if a group can first run in one interval only, so that it runs there for certain."""
        first, end = self._window[group]
        return first == end

    def _group(self, name: str) -> int:
        if name not in self.groups.number:
            raise VerificationError(f"the certificate names {name!r}, which is no group's first op")
        return self.groups.number[name]

    def _set_windows(self, given_order: bool) -> None:
        """Set the first and the last interval in which each group may run first."""
        groups, last = self.groups, self.last
        if given_order:
            at = [groups.rank[cut] for cut in self._cuts]
            if any(one >= other for one, other in pairwise(at)):
                raise VerificationError("the cuts of the certificate are not in the plan's order")
            places = [bisect_left(at, rank) for rank in groups.rank]
            self._window = list(zip(places, places, strict=True))
            return
        around = Surroundings(groups.predecessors)
        earlier, later = around.at_or_before(self._cuts), around.at_or_after(self._cuts)
        for place, (_, other) in enumerate(pairwise(self._cuts)):
            if not earlier[other] >> place & 1:
                raise VerificationError("the certificate has a cut that may run after the next one")
        place_of = {cut: place for place, cut in enumerate(self._cuts)}
        self._window = []
        for group in range(len(groups)):
            own = 1 << place_of[group] if group in place_of else 0
            # Each cut runs before the next, so the last cut before a group comes after its other
            # cuts.
            begins = (earlier[group] & ~own).bit_length()
            following = later[group]
            ends = (following & -following).bit_length() - 1 if following else last
            self._window.append((begins, ends))

    def _live(self, j: int, name: str) -> tuple[int, int]:
        """Least and greatest value of k; equal if the value is known."""
        if j == 0:
            return (int(name in self.groups.brought),) * 2
        if j > self.last:
            return (int(name in self.groups.kept),) * 2
        certain, room = self._certain(j)
        if name in certain:
            return 1, 1
        begun = any(self._window[w][0] < j for w in self.groups.writers.get(name, ()))
        there = begun or name in self.groups.brought
        return 0, int(there and self._size[name] <= room)

    def _certain(self, j: int) -> tuple[set[str], int]:
        """Storages that are live at a cut for certain, and the room that they leave."""
        if j not in self._at:
            cut = self._cuts[j - 1]
            held = {name for name in self._size if self._is_held(j, name)}
            certain = self.groups.accesses[cut] | held
            own = self._extra[cut] + sum(self._size[name] for name in certain)
            self._at[j] = certain, self.capacity - own
        return self._at[j]

    def _is_held(self, j: int, name: str) -> bool:
        """True if a storage is needed after cut j, and no op can begin it there."""
        groups = self.groups
        if name not in groups.brought and name not in groups.writers:
            return False
        if any(groups.again[w] or self._window[w][1] >= j for w in groups.writers.get(name, ())):
            return False
        if self._needed_from is None:
            self._needed_from = {}
            for v, read in enumerate(groups.reads):
                for each in read:
                    from_ = max(self._needed_from.get(each, 0), self._window[v][0])
                    self._needed_from[each] = from_
        return name in groups.kept or self._needed_from.get(name, 0) >= j

    def _held(self, j: int, name: str) -> Column | None:
        """Column of g: the next k's if no op can begin the storage, ``None`` if one surely does."""
        key = (j, name)
        if key not in self._throughout:
            column: Column | None = Column("g", j, name)
            runs = [self.domain(run) for _, run in self._written(name, j, j)]
            if not self._live(j + 1, name)[1] or (1, 1) in runs:
                column = None
            elif not any(most for _, most in runs):
                column = Column("k", j + 1, name)
            self._throughout[key] = column
        return self._throughout[key]

    def _run(self, i: int, j: int, v: int) -> Column:
        """The column of r: of the part of a range of intervals in which a group may run."""
        if i > j:
            raise VerificationError("the certificate has a range of intervals that ends too early")
        first, end = self._window[v]
        low, high = max(i, first), j if self.groups.again[v] else min(j, end)
        return Column("r", low, v, high) if low <= high else Column("r", i, v, j)

    def _written(self, name: str, i: int, j: int) -> Iterator[Term]:
        """Yield terms for the runs that begin a storage in the intervals i to j."""
        for w in self.groups.writers.get(name, ()):
            yield 1, self._run(i, j, w)

    def _stays_done(self, j: int, v: int) -> Row:
        return [(1, Column("d", j, v)), (-1, Column("d", j - 1, v))], 0

    def _waits(self, j: int, v: int, p: int) -> Row:
        if p not in self.groups.predecessors[v]:
            raise VerificationError(
                "the certificate lets an op wait for an op that it does not depend on"
            )
        return [(1, Column("d", j, p)), (-1, Column("d", j, v))], 0

    def _run_done(self, j: int, v: int) -> Row:
        return [(1, Column("d", j, v)), (-1, self._run(j, j, v))], 0

    def _first_run(self, i: int, j: int, v: int) -> Row:
        done = (1, Column("d", i - 1, v)), (-1, Column("d", j, v))
        return [(1, self._run(i, j, v)), *done], 0

    def _once(self, v: int) -> Row:
        if self.groups.again[v]:
            raise VerificationError(
                "the certificate says that an op runs once, but it may run again"
            )
        first, end = self._window[v]
        return [(-1, self._run(j, j, v)) for j in range(first, end + 1)], -1

    def _read(self, i: int, j: int, v: int, s: str) -> Row:
        if s not in self.groups.reads[v]:
            raise VerificationError(f"the certificate says that an op reads {s!r}, but it does not")
        live = (1, Column("k", i, s))
        return [live, *self._written(s, i, j), (-1, self._run(i, j, v))], 0

    def _retained(self, i: int, j: int, s: str) -> Row:
        live = (1, Column("k", i, s)), (-1, Column("k", j + 1, s))
        return [*live, *self._written(s, i, j)], 0

    def _either(self, i: int, j: int, k: int, v: int) -> Row:
        if not i <= j < k:
            raise VerificationError("the certificate has a range that two others do not make up")
        parts = (1, self._run(i, j, v)), (1, self._run(j + 1, k, v))
        return [*parts, (-1, self._run(i, k, v))], 0

    def _at_cut(self, j: int) -> Row:
        extra = self._extra[self._cuts[j - 1]] if j <= self.last else 0
        live = [(-size, Column("k", j, name)) for name, size in self._size.items() if size]
        return live, extra - self.capacity

    def _rounded(self, j: int, divisor: int, *absent: str) -> Row:
        """The row at a cut, rounded for whole numbers in multiples of a divisor.

        The numbers are y = 1 - k for the storages in ``absent``, and y = k for all others. If a sum
        of a y is at most b, with r = b mod d, so is the sum of floor(a / d) y + max(0, a mod d - r)
        y / (d - r) at most floor(b / d).
        """
        certain, room = self._certain(j) if 1 <= j <= self.last else (set(), 0)
        sizes = {name: size for name, size in self._size.items() if size and name not in certain}
        left = set(absent)
        if not certain or not divisor or not left <= sizes.keys():
            raise VerificationError(
                "the certificate rounds a row by 0, of no cut, or of storages that surely are live"
            )
        whole, rest = divmod(room - sum(sizes[name] for name in left), divisor)
        terms, least = [], -whole * (divisor - rest)
        for name, size in sizes.items():
            times, over = divmod(-size if name in left else size, divisor)
            counted = times * (divisor - rest) + max(0, over - rest)
            terms.append((counted if name in left else -counted, Column("k", j, name)))
            least += counted if name in left else 0
        return terms, least

    def _kept_throughout(self, j: int, s: str) -> Row:
        held, live = self._held(j, s), (-1, Column("k", j + 1, s))
        through = [(1, held)] if held is not None else []
        return [*through, *self._written(s, j, j), live], 0

    def _sum_held(self, j: int) -> Row:
        return [(1, Column("G", j)), *self._held_terms(j, self._size, -1)], 0

    def _between(self, j: int, v: int) -> Row:
        during = self.groups.accesses[v]
        own = self._extra[v] + sum(self._size[name] for name in during)
        beside = self._held_terms(j, sorted(during), 1)
        return [(-1, Column("G", j)), *beside, (-own, self._run(j, j, v))], -self.capacity

    def _held_terms(self, j: int, names: Iterable[str], sign: int) -> list[Term]:
        columns = ((self._size[name], self._held(j, name)) for name in names)
        return [(sign * size, held) for size, held in columns if size and held is not None]


def _named(names: Sequence[str], index: int) -> str:
    if index >= len(names):
        raise VerificationError(
            f"the certificate refers to name {index}, but has {len(names)} names"
        )
    return names[index]


# Rule -> method that makes its row.
_ROWS: Mapping[str, Callable[..., Row]] = {
    "stays done": CutRows._stays_done,
    "waits": CutRows._waits,
    "run done": CutRows._run_done,
    "first run": CutRows._first_run,
    "once": CutRows._once,
    "read": CutRows._read,
    "retained": CutRows._retained,
    "either": CutRows._either,
    "at cut": CutRows._at_cut,
    "rounded": CutRows._rounded,
    "throughout": CutRows._kept_throughout,
    "held": CutRows._sum_held,
    "between": CutRows._between,
}
