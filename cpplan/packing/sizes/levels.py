"""Levels of the objective for several sizes, compared one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from cpplan.model.levels import ArenaLevel
from cpplan.model.problem import Ints

SizesObjective = Literal["largest", "ratio"]
# Prices are compared in thousandths: integers, which a constraint model can minimise exactly.
PRICE_SCALE = 1000
# Names of levels that hold for more than one size.
EXCESS, LARGEST, WORST_PRICE = "excess", "largest arena", "worst price"


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
