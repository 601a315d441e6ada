"""Levels of the objective for several sizes, compared one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cpplan.model.problem import Ints

SizesObjective = Literal["largest", "ratio"]
# Prices are compared in thousandths: integers, which a constraint model can minimise exactly.
PRICE_SCALE = 1000
# Names of levels that hold for more than one size.
EXCESS, LARGEST, WORST_PRICE = "excess", "largest arena", "worst price"


@dataclass(frozen=True, eq=False)
class Level:
    """One number to be minimised: the largest cost of an arena over some sizes.

    The cost of arena ``a`` at size ``k`` is ``scale * (a - free[k]) / base[k]``, rounded up, and at
    least 0.

    Attributes
    ----------
    name
        Name for messages.
    sizes
        Sizes that count, shape ``(m,)``.
    base, free
        Divisor, positive, and free bytes of each of these sizes, shape ``(m,)``.
    scale
        Positive factor.

    Examples
    --------
    >>> worst = Level("price", np.array([0, 1]), np.array([10, 40]), np.array([0, 0]), 1000)
    >>> worst.value(np.array([13, 40]))
    1300
    >>> worst.limits(1250, 2).tolist()
    [12, 50]
    """

    name: str
    sizes: Ints
    base: Ints
    free: Ints
    scale: int = 1

    def value(self, arenas: Ints) -> int:
        """Value of the level for the arenas of all sizes, of shape ``(sizes,)``."""
        rows = zip(self.sizes.tolist(), self.base.tolist(), self.free.tolist(), strict=True)
        # Python's integers: a product may not fit into 64 bits.
        found: list[int] = [-(-self.scale * (int(arenas[k]) - f) // b) for k, b, f in rows]
        return max(0, *found)

    def limits(self, value: int, count: int) -> Ints:
        """The largest arenas, of ``count`` sizes, that cost no more than ``value``."""
        found = np.full(count, np.iinfo(np.int64).max)
        rows = zip(self.sizes.tolist(), self.base.tolist(), self.free.tolist(), strict=True)
        for k, base, free in rows:
            found[k] = free + value * base // self.scale
        return found


def objective_levels(
    bounds: Ints,
    alone_bounds: Ints,
    objective: SizesObjective,
    *,
    prefix_stable: bool,
    capacities: Sequence[int | None] = (),
    labels: Sequence[str] = (),
) -> list[Level]:
    """The levels of the objective, in order of importance.

    First come the bytes above the capacities, if there are capacities; then the largest arena or
    the worst price; then, if ``prefix_stable``, the arena at every size from the largest to the
    smallest. Sizes are named by their ``labels``, or by their numbers.

    Examples
    --------
    >>> bounds = np.array([4, 16])
    >>> [x.name for x in objective_levels(bounds, bounds, "largest", prefix_stable=True)]
    ['largest arena', 'arena at 1', 'arena at 0']
    """
    every = np.arange(len(bounds))
    ones, zeros = np.ones(len(bounds), np.int64), np.zeros(len(bounds), np.int64)
    levels = []
    limited = [(k, limit) for k, limit in enumerate(capacities) if limit is not None]
    if limited:
        rows, free = np.array(limited, np.int64).T
        levels.append(Level(EXCESS, rows, ones[rows], free))
    if objective == "largest":
        levels.append(Level(LARGEST, every, ones, zeros))
    else:
        base = np.maximum(alone_bounds, 1)
        levels.append(Level(WORST_PRICE, every, base, zeros, PRICE_SCALE))
    if prefix_stable:
        for k in np.lexsort((every, -bounds)).tolist():
            at = np.array([k])
            name = labels[k] if labels else str(k)
            levels.append(Level(f"arena at {name}", at, ones[at], zeros[at]))
    return levels
