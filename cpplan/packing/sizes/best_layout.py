"""The best layout for a set of sizes so far, and the bounds proved, level by level."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.tensor import LIMIT
from cpplan.packing.reduction import Reduction
from cpplan.packing.sizes.levels import EXCESS, Level
from cpplan.packing.sizes.size_set import SizeSet

Report = Callable[[tuple[int, ...], tuple[int, ...], str], None]


class BestLayout:
    """The best layout so far, with its values and bounds, that the stages of a run pass on.

    Attributes
    ----------
    sizes
        The sizes planned.
    reduction
        Reduction of the merged problem; rows below are its rows.
    bytes
        Bytes of these rows at every size, shape ``(sizes, rows)``.
    levels
        Levels that are minimised.
    offsets
        Offsets of the rows, bytes.
    arenas
        Arena of all buffers at every size, bytes, shape ``(sizes,)``.
    values, bounds
        Value and lower bound of every level. A bound holds for all layouts that are the best on the
        levels before.
    found_by
        Name of the method that found the offsets.
    """

    def __init__(
        self,
        sizes: SizeSet,
        reduction: Reduction,
        levels: Sequence[Level],
        arena_bounds: Ints,
        start: Ints,
        found_by: str,
        report: Report = lambda values, bounds, source: None,
    ):
        self.sizes, self.reduction, self.levels = sizes, reduction, levels
        self.bytes = sizes.bytes[:, reduction.rows]
        # Buffers that hold no byte lie where they are fixed, or at zero, and end there.
        away = np.setdiff1d(np.arange(len(sizes.problem)), reduction.rows)
        resting = np.array([sizes.problem.fixed.get(row, 0) for row in away.tolist()], np.int64)
        self._least: Ints = (resting + sizes.bytes[:, away]).max(axis=1, initial=0)
        self.offsets, self.found_by, self._report = start, found_by, report
        self.arenas = self.arenas_of(start)
        self.values = [level.value(self.arenas) for level in levels]
        self.bounds = [level.value(arena_bounds) for level in levels]
        report(tuple(self.values), tuple(self.bounds), found_by)

    def arenas_of(self, offsets: Ints) -> Ints:
        """Arena that a layout of the rows needs at every size, bytes."""
        needed: Ints = np.maximum((offsets + self.bytes).max(axis=1, initial=0), self._least)
        return needed

    @property
    def done(self) -> bool:
        """True if every level is proved smallest, or no layout keeps the capacities."""
        return self.hopeless or all(map(self.settled, range(len(self.levels))))

    @property
    def hopeless(self) -> bool:
        """True if it is proved that no layout keeps the capacities."""
        return self.levels[0].name == EXCESS and self.bounds[0] > 0

    def settled(self, number: int) -> bool:
        """True if a level is proved to be the smallest it can be."""
        return self.values[number] <= self.bounds[number]

    def settled_before(self, number: int) -> bool:
        return all(map(self.settled, range(number)))

    def limits(self, number: int, value: int | None = None) -> Ints:
        """Arenas that keep the levels before at what they are, and this one at ``value``.

        What it is, if left out; shape ``(sizes,)``.
        """
        count, levels = len(self.arenas), self.levels
        found = levels[number].limits(self.values[number] if value is None else value, count)
        for level, known in zip(levels[:number], self.values, strict=False):
            found = np.minimum(found, level.limits(known, count))
        return found

    def highest(self, limits: Ints) -> Ints:
        """The highest offset of every row within limits on the arenas; negative if there is none.

        Examples
        --------
        >>> from cpplan.model.problem import Problem
        >>> from cpplan.packing.reduction import reduce_problem
        >>> sizes = SizeSet(Problem(("a",), lower=[0], upper=[1], size=[0]), np.array([[4], [8]]))
        >>> one = Level("largest", np.array([1]), np.array([1]), np.array([0]))
        >>> bounds, start = np.array([4, 8]), np.array([0])
        >>> best = BestLayout(sizes, reduce_problem(sizes.merged), [one], bounds, start, "hand")
        >>> best.highest(np.array([8, 10])).tolist()
        [2]
        """
        # No address is beyond 2**62: sums with what no level limits stay within 64 bits.
        found: Ints = (np.minimum(limits, LIMIT)[:, None] - self.bytes).min(axis=0)
        return found

    def offer(self, offsets: Ints, name: str) -> None:
        """Take a layout of the rows if it is better."""
        arenas = self.arenas_of(offsets)
        values = [level.value(arenas) for level in self.levels]
        if values >= self.values:
            return
        self.offsets, self.arenas, self.values, self.found_by = offsets, arenas, values, name
        self._report(tuple(self.values), tuple(self.bounds), name)

    def offer_bound(self, number: int, bound: int, name: str, *, everywhere: bool = False) -> None:
        """Take a bound on a level, proved for layouts within :meth:`limits`, or for all."""
        if bound > self.bounds[number] and (everywhere or self.settled_before(number)):
            self.bounds[number] = bound
            self._report(tuple(self.values), tuple(self.bounds), name)
