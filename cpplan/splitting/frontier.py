"""The curve of peak against cost over all ways to divide a program into regions.

A program is a sequence of steps. Between some of them, where few bytes are live, it is cut into
regions, and each is run whole or in one of several styles. The peak is the largest of the regions'
peaks, the cost the sum of theirs; dynamic programming over the cuts keeps, at each, the pairs of
peak and cost that no other pair beats in both.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from cpplan.runtime.budget import tuned
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.least_peak import LeastPeak
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region
from cpplan.splitting.region_ends import find_shoulders, find_valleys
from cpplan.splitting.styles import Estimate, Style
from cpplan.splitting.tuning import SplittingTuning

# Most steps of a region.
_LONGEST_REGION = 120
# Strips are tried only if a region's peak exceeds the bytes at its ends by this share.
_NO_STRIPS = 0.01
# Share of the time left for regions, once none lowers the least peak, for regions that may need
# fewer pieces or less work.
_OTHERS_SHARE = 0.7
# Regions that do not lower the least peak are tried if fewer bytes are live at their ends than
# this multiple of it.
_LOOSER_ENDS = 1.2
# Most pairs of peak and cost kept at each place.
_MOST_LABELS = 120
# Most pieces of a plan: this number, or this multiple of the number of ops if that is more.
_MOST_PIECES = 16_000
_MOST_PIECES_AN_OP = 2
# Numbers of steps that the last op runs at a time.
COARSER = (1, 2, 4, 8, 16)
# Numbers of pieces into which an axis is also cut, if the pieces are longer than these.
_COARSEST = (16, 8, 4)
# Seconds of work, in deterministic mode, for the styles of a region.
_WORK_PER_REGION = 0.002

# Relative tolerance for sums of floating-point costs.
_ROUNDING = 1e-9
# More steps than any op has.
_UNLIMITED = 1 << 40


class Choice(NamedTuple):
    """Steps ``[start, stop)`` run in a style; each of them whole and in order if it cuts none."""

    start: int
    stop: int
    style: Style


Estimates = Callable[[Region, int], Iterator[tuple[Estimate, Style]]]
"""Function that yields styles of a region with their estimates.

Its second argument is a target: an estimate of at most this number of bytes is good enough.
"""

_Turn = tuple[Estimates, tuple[int, int]]
"""Function of styles, and the steps of the region whose styles it yields."""

_Option = tuple[int, Estimate, Style]
"""End of a region, and a style with its estimate."""


class Division(NamedTuple):
    """A program divided into regions: its peak, cost, and number and weight of runs, as estimated.

    ``weight`` is 0 where only peak and cost were computed.
    """

    peak: int
    cost: float
    pieces: int
    weight: int
    choices: tuple[Choice, ...]


@dataclass(slots=True)
class _Label:
    first: float
    second: int
    pieces: int
    before: _Label | None = None
    choice: Choice | None = None

    def choices(self) -> tuple[Choice, ...]:
        found: list[Choice] = []
        label: _Label | None = self
        while label is not None and label.choice is not None:
            found.append(label.choice)
            label = label.before
        return tuple(reversed(found))


class Frontier:
    """Regions of a program and their estimates in all styles.

    Parameters
    ----------
    problem
        The program.
    deadline
        Ends the search for regions, which begins with those that may lower the least peak.
    enough
        Lower bound on the peak of every plan: regions of no higher peak are not cut.
    estimates
        Functions that yield the styles of a region, called in turn; all styles if left out.

    Attributes
    ----------
    most_pieces
        Most pieces of a plan.
    """

    def __init__(
        self,
        problem: SplitProblem,
        deadline: Deadline,
        enough: int = 0,
        *,
        estimates: Sequence[Estimates] | None = None,
    ):
        self._most_labels = _MOST_LABELS
        self.most_pieces = max(_MOST_PIECES, _MOST_PIECES_AN_OP * len(problem.ops))
        whole, costs = whole_peaks(problem), [float(op.cost) for op in problem.ops]
        once = list(accumulate(costs, initial=0.0))
        valleys = set(find_valleys(problem))
        self._ends = ends = sorted(valleys.union(find_shoulders(problem, whole)))

        def run_whole(start: int, stop: int) -> Estimate:
            peak, cost = max(whole[start:stop]), sum(costs[start:stop])
            return Estimate(peak, cost, stop - start, int(problem.weights[start:stop].sum()))

        # Steps between neighbouring ends, not cut, and styles of the regions that begin at an end.
        self._uncut: list[_Option] = [
            (stop, run_whole(start, stop), Style()) for start, stop in pairwise(ends)
        ]
        self._options: dict[int, list[_Option]] = {end: [] for end in ends}
        # Paths of regions without extra work, and of all regions.
        self._paths = LeastPeak(whole, ends), LeastPeak(whole, ends)
        spans = [
            (start, stop)
            for start, stop in _segments(problem, ends, whole, _LONGEST_REGION)
            if max(whole[start:stop]) > enough
        ]
        # No style lowers the bytes live at a region's ends.
        floor = {span: max(problem.boundary[end] for end in span) for span in spans}
        all_styles = estimates or (_in_line, _in_tiles, _in_strips, _coarsely, _others)
        turns = [(styles, span) for styles in all_styles for span in spans]
        # Regions between valleys come first.
        turns.sort(key=lambda turn: not valleys.issuperset(turn[1]))
        regions: dict[tuple[int, int], Region] = {}
        for styles, (start, stop) in self._peak_first(turns, floor, deadline):
            if (start, stop) not in regions:
                regions[start, stop] = Region(problem, start, stop)
            region = regions[start, stop]
            best, cost = max(whole[start:stop]), (once[stop] - once[start]) * (1 + _ROUNDING)
            for estimate, style in styles(region, max(floor[start, stop], enough)):
                # With one run of each op, nothing is cut: whole ops keep their order.
                cut = stop - start < estimate.pieces <= self.most_pieces
                if cut and estimate.peak < best:
                    self._options[start].append((stop, estimate, style))
                    for paths in self._paths if estimate.cost <= cost else self._paths[1:]:
                        paths.add(start, stop, estimate.peak)
            region.forget_strips()

    def _peak_first(
        self,
        turns: Sequence[_Turn],
        floor: Mapping[tuple[int, int], int],
        deadline: Deadline,
    ) -> Iterator[_Turn]:
        """Yield turns that may lower the least peak, without extra work and at any; then others.

        Only a region that overlaps the highest one, and has fewer bytes at its ends, can lower it.
        """
        done = set[int]()
        for paths in self._paths:
            more = True
            while more:
                more = False
                high = paths.highest()
                for k, (_, span) in enumerate(turns):
                    overlaps = span[0] < high.stop and span[1] > high.start
                    if overlaps and floor[span] < high.peak and k not in done:
                        if deadline.expired():
                            return
                        done.add(k)
                        deadline.spend(_WORK_PER_REGION)
                        yield turns[k]
                        if paths.highest() is not high:
                            more = True
                            break
        # Regions of somewhat more bytes may need fewer pieces, or less work.
        others = deadline.share(_OTHERS_SHARE)
        most = _LOOSER_ENDS * self._paths[0].highest().peak
        for k, (_, span) in enumerate(turns):
            if others.expired():
                return
            if k not in done and floor[span] < most:
                others.spend(_WORK_PER_REGION)
                yield turns[k]

    def divisions(self) -> list[Division]:
        """Divisions that no other beats in both peak and cost, the cheapest first."""
        labels = self._labels(
            lambda found: (found.cost, found.peak), lambda one, other: max(one, other)
        )
        return [
            Division(label.second, label.first, label.pieces, 0, label.choices())
            for label in labels
        ]

    def lightest(self, peak: int) -> list[Division]:
        """Divisions within a peak that no other beats in both cost and weight; cheapest first."""
        labels = self._labels(
            lambda found: (found.cost, found.weight),
            lambda one, other: one + other,
            lambda found: found.peak <= peak,
        )
        return [
            Division(peak, label.first, label.pieces, label.second, label.choices())
            for label in labels
        ]

    def _labels(
        self,
        values: Callable[[Estimate], tuple[float, int]],
        join: Callable[[int, int], int],
        fits: Callable[[Estimate], bool] = lambda found: True,
    ) -> list[_Label]:
        """Labels of paths over all steps that no other label beats in both values.

        Along a path the first values are added up, and the second values are combined by ``join``.
        Labels are sorted by the first value.
        """
        labels: dict[int, list[_Label]] = {end: [] for end in self._ends}
        labels[0] = [_Label(0.0, 0, 0)]
        for k, uncut in zip(self._ends, self._uncut, strict=False):
            here = _thin(_undominated(labels.pop(k)), self._most_labels)
            own = self._options[k]
            # Of equal labels the first one is kept.
            options = [uncut, *own] if uncut[0] == k + 1 else [*own, uncut]
            by_stop: dict[int, list[tuple[float, int, int, Style]]] = {}
            for stop, found, style in options:
                if fits(found):
                    by_stop.setdefault(stop, []).append((*values(found), found.pieces, style))
            for stop, rows in by_stop.items():
                least: float = float("inf")
                for first, second, pieces, style in sorted(rows, key=lambda row: row[:2]):
                    if second >= least:
                        continue
                    least = second
                    choice = Choice(k, stop, style)
                    labels[stop].extend(
                        _Label(
                            label.first + first,
                            join(label.second, second),
                            label.pieces + pieces,
                            label,
                            choice,
                        )
                        for label in here
                    )
        return _undominated(labels[self._ends[-1]])


def whole_peaks(problem: SplitProblem) -> list[int]:
    """Bytes live during each step that is not cut: those of a :class:`Region` of this step alone.

    Of the inputs that an op may write over, the largest one does not count, up to what it writes.
    """
    if not problem.ops:
        return []
    size, given = np.array(problem.size, np.int64), np.array(problem.given, np.bool_)
    first, last = (np.array(column, np.int64) for column in problem.lives)
    (read, written), several = problem.accesses, len(size)
    alone = ~np.isin(read.owner * several + read.item, written.owner * several + written.item)
    step = np.concatenate([read.owner[alone], written.owner])
    storage = np.concatenate([read.item[alone], written.item])
    before = (first[storage] < step) | ((first[storage] == step) & given[storage])
    live = np.array(problem.boundary[:-1], np.int64)
    np.add.at(live, step, np.where(before, 0, size[storage]))
    peaks: list[int] = live.tolist()
    for k, op in enumerate(problem.ops):
        over = {source for _, source in op.in_place} if "in place" in problem.sharing else set()
        over |= {problem.lines.source[o] for o in op.outputs if o in problem.separate}
        if over:
            _, made = problem.accessed[k]
            # If an op reads a storage under several names, the first one counts.
            read_as = {m: name for name in reversed(op.inputs) for m in problem.stored(name)}
            freed = (m for m, name in read_as.items() if name in over and last[m] <= k + 1)
            most = max((problem.size[m] for m in freed if m not in made), default=0)
            peaks[k] -= min(most, sum(problem.size[m] for m in made))
    return peaks


def _segments(
    problem: SplitProblem, ends: Sequence[int], whole: Sequence[int], longest: int
) -> Iterator[tuple[int, int]]:
    """Yield pairs of cuts with an op between them that may be cut, the shortest pairs first."""
    can = problem.may_be_cut
    pairs = [
        (start, stop)
        for k, start in enumerate(ends)
        for stop in ends[k + 1 : bisect_right(ends, start + longest)]
        if can[stop - 1]
    ]
    floor = problem.boundary
    for start, stop in sorted(pairs, key=lambda pair: (pair[1] - pair[0], pair)):
        if max(whole[start:stop]) > max(floor[start], floor[stop]):
            yield start, stop


def _in_line(region: Region, floor: int, first: int = 0) -> Iterator[tuple[Estimate, Style]]:
    """Estimates of a region along one axis, in pieces of one step and of several."""
    for inner in region.axis_names()[first : first + 1]:
        for step in COARSER:
            for longest in (1, _UNLIMITED):
                found = region.estimate(style := Style(inner, step=step, longest=longest))
                if found is not None:
                    yield found, style


def _coarsely(region: Region, floor: int, first: int = 0) -> Iterator[tuple[Estimate, Style]]:
    """Estimates of a region along one axis, in few pieces and in pieces of equal length."""
    for inner in region.axis_names()[first : first + 1]:
        extent = region.problem.axes(region.ops[-1])[inner].extent
        shares = {extent // count for count in _COARSEST} - set(range(COARSER[-1] + 1))
        alike = [(step, step) for step in COARSER[1:]]
        few = [(step, most) for step in sorted(shares) for most in (1, step, _UNLIMITED)]
        for step, longest in (*alike, *few):
            found = region.estimate(style := Style(inner, step=step, longest=longest))
            if found is not None:
                yield found, style


def _in_tiles(region: Region, floor: int, first: int = 0) -> Iterator[tuple[Estimate, Style]]:
    """Estimates of a region in tiles that keep both halos, as long as smaller tiles save bytes.

    There are none if pieces along one axis already reach ``floor``, a peak that is low enough.
    """
    tuning, names = tuned(SplittingTuning), region.axis_names()
    for inner in names[first : first + 1]:
        line = region.estimate(Style(inner))
        if line is None or line.peak <= floor * (1 + _NO_STRIPS):
            continue
        for outer in names:
            best = line.peak
            for strips in tuning.strips if outer != inner else ():
                found = region.estimate(style := Style(inner, outer, strips, both=True))
                if found is None or found.peak >= best:
                    break
                best = found.peak
                yield found, style


def _in_strips(region: Region, floor: int, first: int = 0) -> Iterator[tuple[Estimate, Style]]:
    """Estimates of a region in strips, as long as more strips save bytes."""
    tuning, names = tuned(SplittingTuning), region.axis_names()
    for inner in (*names[first : first + 1], None):
        line = None if inner is None else region.estimate(Style(inner))
        least = None if line is None else line.peak
        if least is not None and least <= floor * (1 + _NO_STRIPS):
            continue
        for outer in names:
            best = least
            for strips in tuning.strips if outer != inner else ():
                found = region.estimate(style := Style(inner, outer, strips))
                if found is None or (best is not None and found.peak >= best):
                    break
                best = found.peak
                yield found, style


def _others(region: Region, floor: int) -> Iterator[tuple[Estimate, Style]]:
    """Estimates of a region along all axes of its last op but the first."""
    for number in range(1, len(region.axis_names())):
        yield from _in_line(region, floor, number)
        yield from _coarsely(region, floor, number)
        yield from _in_tiles(region, floor, number)
        yield from _in_strips(region, floor, number)


def _undominated(labels: list[_Label]) -> list[_Label]:
    found: list[_Label] = []
    for label in sorted(labels, key=lambda label: (label.first, label.second)):
        if not found or label.second < found[-1].second:
            found.append(label)
    return found


def _thin(labels: list[_Label], most: int) -> list[_Label]:
    """At most ``most`` labels, spread evenly over the second value, with the first and the last."""
    if len(labels) <= most:
        return labels
    high, low = labels[0].second, labels[-1].second
    found = [labels[0]]
    keys = [-label.second for label in labels]
    for k in range(1, most):
        target = high - (high - low) * k / (most - 1)
        label = labels[min(bisect_left(keys, -target), len(labels) - 1)]
        if label is not found[-1]:
            found.append(label)
    return found
