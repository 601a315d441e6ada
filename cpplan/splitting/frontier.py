"""The curve of peak against cost over all ways to divide a program into regions.

A program is a sequence of steps. Between some of them, where few bytes are live, it is cut into
regions, and each is run whole or in one of several styles. The peak is the largest of the regions'
peaks, the cost the sum of theirs; dynamic programming over the cuts keeps, at each, the pairs of
peak and cost that no other pair beats in both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cpplan.runtime.budget import tuned
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Estimate, Region, Style
from cpplan.splitting.tuning import SplittingTuning


class Choice(NamedTuple):
    """Steps ``[start, stop)`` run in a style."""

    start: int
    stop: int
    style: Style


class Division(NamedTuple):
    """A program divided into regions: its peak and cost, as estimated."""

    peak: int
    cost: float
    choices: tuple[Choice, ...]


@dataclass(slots=True)
class _Label:
    peak: int
    cost: float
    before: _Label | None = None
    choice: Choice | None = None

    def choices(self) -> tuple[Choice, ...]:
        found: list[Choice] = []
        label: _Label | None = self
        while label is not None and label.choice is not None:
            found.append(label.choice)
            label = label.before
        return tuple(reversed(found))


def find_divisions(problem: SplitProblem, deadline: Deadline) -> list[Division]:
    """Divisions that no other beats in both peak and cost, the cheapest first."""
    tuning = tuned(SplittingTuning)
    steps = len(problem.ops)
    ends = set(choose_cuts(problem, tuning.most_cuts))
    options: dict[int, list[tuple[int, Estimate, Style]]] = {k: [] for k in range(steps)}
    whole = []
    for k in range(steps):
        alone = Region(problem, k, k + 1).estimate(Style())
        assert alone is not None
        whole.append(alone.peak)
        options[k].append((k + 1, alone, Style()))
    for start, stop in _segments(problem, sorted(ends), whole, tuning.longest_region):
        if deadline.expired():
            break
        best = max(whole[start:stop])
        region = Region(problem, start, stop)
        for estimate, style in _estimates(region, tuning):
            if estimate.peak < best and estimate.pieces <= tuning.most_pieces:
                options[start].append((stop, estimate, style))
    return _shortest(steps, options, tuning.most_labels)


def _segments(
    problem: SplitProblem, ends: Sequence[int], whole: Sequence[int], longest: int
) -> Iterator[tuple[int, int]]:
    """Steps between two cuts, the shortest first, in which some op may be cut."""
    can = [bool(problem.axes(op)) for op in problem.ops]
    pairs = [
        (start, stop)
        for k, start in enumerate(ends)
        for stop in ends[k + 1 :]
        if stop - start <= longest and can[stop - 1]
    ]
    floor = problem.boundary
    for start, stop in sorted(pairs, key=lambda pair: (pair[1] - pair[0], pair)):
        if max(whole[start:stop]) > max(floor[start], floor[stop]):
            yield start, stop


def choose_cuts(problem: SplitProblem, most: int) -> list[int]:
    """Places between steps at which regions may begin and end, ascending; few bytes are live."""
    live = problem.boundary
    steps = len(live) - 1
    if steps < most:
        return list(range(steps + 1))
    low: list[tuple[float, int]] = []
    begin = 0
    while begin <= steps:
        end = begin
        while end < steps and live[end + 1] == live[begin]:
            end += 1
        left = live[begin - 1] if begin else live[begin] + 1
        right = live[end + 1] if end < steps else live[begin] + 1
        if live[begin] < left and live[begin] < right:
            around = min(max(live[: begin + 1]), max(live[begin:]))
            low.extend((live[begin] / max(around, 1), k) for k in range(begin, end + 1))
        begin = end + 1
    return sorted({0, steps, *(k for _, k in sorted(low)[:most])})


def _estimates(region: Region, tuning: SplittingTuning) -> Iterator[tuple[Estimate, Style]]:
    """Estimates of a region in all styles."""
    names = region.axis_names()
    for inner in (*names, None):
        if inner is not None and region.family(inner) is not None:
            found = region.estimate(style := Style(inner))
            if found is not None:
                yield found, style
        for outer in names:
            if outer == inner or region.family(outer) is None:
                continue
            for strips in tuning.strips:
                found = region.estimate(style := Style(inner, outer, strips))
                if found is None:
                    break
                yield found, style


def _shortest(
    steps: int, options: dict[int, list[tuple[int, Estimate, Style]]], most: int
) -> list[Division]:
    """Labels of least peak and cost from the first step to the last."""
    labels: list[list[_Label]] = [[] for _ in range(steps + 1)]
    labels[0] = [_Label(0, 0.0)]
    for k in range(steps):
        here = labels[k] = _thin(_undominated(labels[k]), most)
        for stop, (peak, cost, style) in _undominated_options(options[k]):
            for label in here:
                labels[stop].append(
                    _Label(max(label.peak, peak), label.cost + cost, label, Choice(k, stop, style))
                )
    return [
        Division(label.peak, label.cost, label.choices()) for label in _undominated(labels[steps])
    ]


def _undominated_options(
    options: Sequence[tuple[int, Estimate, Style]],
) -> Iterator[tuple[int, tuple[int, float, Style]]]:
    by_stop: dict[int, list[tuple[float, int, int, Style]]] = {}
    for number, (stop, found, style) in enumerate(options):
        by_stop.setdefault(stop, []).append((found.cost, found.peak, number, style))
    for stop, rows in by_stop.items():
        least = float("inf")
        for cost, peak, _, style in sorted(rows, key=lambda row: row[:3]):
            if peak < least:
                least = peak
                yield stop, (peak, cost, style)


def _undominated(labels: list[_Label]) -> list[_Label]:
    found: list[_Label] = []
    for label in sorted(labels, key=lambda label: (label.cost, label.peak)):
        if not found or label.peak < found[-1].peak:
            found.append(label)
    return found


def _thin(labels: list[_Label], most: int) -> list[_Label]:
    """At most so many labels, spread over the peaks; the cheapest and the lowest stay."""
    if len(labels) <= most:
        return labels
    high, low = labels[0].peak, labels[-1].peak
    found = [labels[0]]
    targets = [high - (high - low) * k / (most - 1) for k in range(1, most)]
    keys = [-label.peak for label in labels]
    for target in targets:
        label = labels[min(bisect_left(keys, -target), len(labels) - 1)]
        if label is not found[-1]:
            found.append(label)
    return found
