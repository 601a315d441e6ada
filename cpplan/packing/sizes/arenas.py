"""Objective of layouts for a set of sizes: levels over the arenas at every size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from cpplan.model.levels import ArenaLevel
from cpplan.model.problem import Ints
from cpplan.model.tensor import LIMIT
from cpplan.packing.bounds import Bound
from cpplan.packing.levels import LevelIncumbent
from cpplan.packing.reduction import Reduction
from cpplan.packing.sizes.bounds import TOPMOST, topmost_bound
from cpplan.packing.sizes.size_set import SizeSet

Report = Callable[[tuple[int, ...], tuple[int, ...], str], None]
SizesObjective = Literal["largest", "ratio"]
# Prices are compared in thousandths: integers, which a constraint model can minimise exactly.
PRICE_SCALE = 1000
# Names of levels that hold for more than one size.
EXCESS, LARGEST, WORST_PRICE = "excess", "largest arena", "worst price"


class Arenas:
    """Objective of offsets of the merged problem's rows.

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
    """

    def __init__(self, sizes: SizeSet, reduction: Reduction, levels: Sequence[ArenaLevel]):
        self.sizes, self.reduction, self.levels = sizes, reduction, levels
        self.bytes = sizes.bytes[:, reduction.rows]
        # Buffers that hold no byte lie where they are fixed, or at zero, and end there.
        away = np.setdiff1d(np.arange(len(sizes.problem)), reduction.rows)
        resting = np.array([sizes.problem.fixed.get(row, 0) for row in away.tolist()], np.int64)
        self._least: Ints = (resting + sizes.bytes[:, away]).max(axis=1, initial=0)

    def of(self, offsets: Ints) -> Ints:
        """Arena that a layout of the rows needs at every size, bytes, shape ``(sizes,)``."""
        needed: Ints = np.maximum((offsets + self.bytes).max(axis=1, initial=0), self._least)
        return needed

    def values(self, offsets: Ints) -> tuple[int, ...]:
        """The value of every level."""
        arenas = self.of(offsets)
        return tuple(level.value(arenas) for level in self.levels)

    def bound(self, level: int, values: Sequence[int]) -> Bound:
        """Lower bound on a level for layouts with these values on the earlier levels."""
        limits = self.limits(level - 1, values) if level else None
        found = topmost_bound(self.reduction.problem, self.bytes, self.levels[level], limits)
        return Bound(found, TOPMOST)

    def limits(self, level: int, values: Sequence[int]) -> Ints:
        """Largest arenas for which levels up to this one keep these values, shape ``(sizes,)``."""
        pairs = zip(self.levels[: level + 1], values, strict=False)
        every = [each.limits(value, len(self.sizes)) for each, value in pairs]
        found: Ints = np.min(every, axis=0)
        return found

    def highest(self, limits: Ints) -> Ints:
        """The highest offset of every row within limits on the arenas; negative if none is."""
        # Sizes without a limit have 2**62, so that differences stay within 64 bits.
        found: Ints = (np.minimum(limits, LIMIT)[:, None] - self.bytes).min(axis=0)
        return found


class BestLayout(LevelIncumbent[Ints]):
    """The best offsets for a set of sizes so far; see :class:`Arenas`."""

    def __init__(
        self,
        arenas: Arenas,
        arena_bounds: Ints,
        start: Ints,
        found_by: str,
        report: Report = lambda values, bounds, source: None,
    ):
        self.arenas = arenas
        bounds = [Bound(level.value(arena_bounds), "live bytes") for level in arenas.levels]
        limited = arenas.levels[0].name == EXCESS
        super().__init__(
            arenas, start, found_by, bounds, limit=0 if limited else None,
            report=lambda best, source: report(best.values, best.least, source),
        )  # fmt: skip
        self.announce()


def objective_levels(
    bounds: Ints,
    alone_bounds: Ints,
    objective: SizesObjective,
    *,
    prefix_stable: bool,
    capacities: Sequence[int | None] = (),
    labels: Sequence[str] = (),
) -> list[ArenaLevel]:
    """The levels of the objective, in order of importance.

    First come the bytes above the capacities, if there are capacities; then the largest arena or
    the worst price; then, if ``prefix_stable``, the arena at every size from the largest to the
    smallest. Sizes are named by their ``labels``, or by their numbers.
    """
    every = np.arange(len(bounds))
    ones, zeros = np.ones(len(bounds), np.int64), np.zeros(len(bounds), np.int64)
    levels = []
    limited = [(k, limit) for k, limit in enumerate(capacities) if limit is not None]
    if limited:
        rows, free = np.array(limited, np.int64).T
        levels.append(ArenaLevel(EXCESS, rows, ones[rows], free))
    if objective == "largest":
        levels.append(ArenaLevel(LARGEST, every, ones, zeros))
    else:
        base = np.maximum(alone_bounds, 1)
        levels.append(ArenaLevel(WORST_PRICE, every, base, zeros, PRICE_SCALE))
    if prefix_stable:
        for k in np.lexsort((every, -bounds)).tolist():
            at = np.array([k])
            name = labels[k] if labels else str(k)
            levels.append(ArenaLevel(f"arena at {name}", at, ones[at], zeros[at]))
    return levels
