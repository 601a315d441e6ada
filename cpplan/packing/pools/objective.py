"""Objectives for several pools, as levels to be minimised one after another.

Every objective is a list of levels. Two layouts are compared at the first level where they differ:
the smaller value is better. All levels have the form

    sum over pools p of  weight[p] · max(0, peak[p] − beyond[p])
    + sum over rows b of  access[b, pool of b],

in integers, so that values and bounds can be compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.levels import Level
from cpplan.model.names import not_understood
from cpplan.model.pool import Pool
from cpplan.model.printable import quote
from cpplan.model.problem import Ints, Problem
from cpplan.model.tensor import LIMIT

# Solvers report bounds as doubles, which are exact well beyond this.
_LARGEST = 2**50


def objective_value(
    problem: Problem, objective: str, pool: Ints, offset: Ints
) -> tuple[int | float, ...]:
    """Values of a layout at all levels of an objective, to be compared as tuples."""
    return levels_value(problem, objective_levels(problem, objective), pool, offset)


def levels_value(
    problem: Problem, levels: Sequence[Level], pool: Ints, offset: Ints
) -> tuple[int | float, ...]:
    """Values of a layout at the given levels, to be compared as tuples."""
    return tuple(level.shown(level.of(problem, pool, offset)) for level in levels)


def objective_levels(problem: Problem, objective: str) -> tuple[Level, ...]:
    """The levels of an objective.

    ``"total"`` is the sum of all peaks.

    ``"preference"`` fills the first pool first. Its levels are the peaks from the last pool to the
    second, then *misplaced bytes*, then the peak of the first pool. The misplaced bytes of a buffer
    are its size, times the number of pools that it prefers to its own.

    ``"cost"`` adds up ``cost_per_byte`` × peak of every pool and ``access_cycles`` of every buffer.
    The numbers of a pool are read as the decimals they print as. The scale is the least common
    denominator of the costs, the latencies and the cycles a byte. If values would then be too
    large for exact arithmetic, each number is rounded down to a multiple of the smallest power of
    1/2 that keeps them exact.

    Raises
    ------
    InputError
        If the objective is not known, or bytes or costs are too large to be added up.

    Examples
    --------
    >>> fast = Pool("fast", cost_per_byte=0.5, read_bandwidth=3)
    >>> two = Problem(("a",), [0], [1], [4], pools=(fast, Pool("slow", write_latency=2)))
    >>> (level,) = objective_levels(two, "cost")
    >>> level.scale, level.weight, level.access.tolist()
    (6, (3, 6), [[8, 12]])
    """
    return find_objective(objective)(problem)


def find_objective(name: str) -> Callable[[Problem], tuple[Level, ...]]:
    """The function that makes the levels of an objective."""
    if not isinstance(name, str) or name not in OBJECTIVES:
        raise not_understood(f"objective {quote(name)}", name, OBJECTIVES)
    return OBJECTIVES[name]


def is_peak(problem: Problem | None, objective: str) -> bool:
    """True if a problem has one pool and only its peak is minimised.

    Without a problem, any problem with one pool is meant.
    """
    if problem is None:
        problem = Problem(("b",), *np.array([[0], [1], [1]]))
    if len(problem.pools) > 1:
        return False
    one = problem.subset(np.arange(min(1, len(problem))))
    return all(level.rows is None for level in objective_levels(one, objective))


def peak_level(problem: Problem, pools: Sequence[int], rows: Sequence[int] | None = None) -> Level:
    """Level for the sum of the peaks of these pools, over all buffers or those in ``rows``."""
    count = len(problem.pools)
    weight = tuple(int(pool in pools) for pool in range(count))
    nothing = np.zeros((len(problem), count), np.int64)
    return Level(weight, (0,) * count, nothing, rows=None if rows is None else tuple(rows))


def _total(problem: Problem) -> tuple[Level, ...]:
    return (peak_level(problem, range(len(problem.pools))),)


def _preference(problem: Problem) -> tuple[Level, ...]:
    first, *others = (peak_level(problem, [pool]) for pool in range(len(problem.pools)))
    return (*reversed(others), _misplaced_level(problem), first)


def excess_level(problem: Problem) -> Level:
    """Level for the bytes beyond the capacities, all pools together: 0 if the layout fits."""
    weight = tuple(0 if pool.capacity is None else 1 for pool in problem.pools)
    beyond = tuple(pool.capacity or 0 for pool in problem.pools)
    return Level(weight, beyond, np.zeros((len(problem), len(problem.pools)), np.int64))


def _misplaced_level(problem: Problem) -> Level:
    pools = len(problem.pools)
    if float(np.sum(problem.size, dtype=float)) * max(1, pools - 1) >= LIMIT:
        raise InputError("the buffers are too large: misplaced bytes add up to more than 2**62")
    # A pool that is no candidate ranks last.
    rank = np.tile(np.arange(pools), (len(problem), 1))
    for row, candidates in problem.candidates.items():
        rank[row] = pools - 1
        rank[row, list(candidates)] = np.arange(len(candidates))
    return Level((0,) * pools, (0,) * pools, rank * problem.size[:, None])


def _cost_level(problem: Problem) -> Level:
    table = [_rates(pool) for pool in problem.pools]
    # Python's integers: the test for overflow must not overflow itself.
    size, reads, writes = (
        column.astype(object) for column in (problem.size, problem.reads, problem.writes)
    )
    quantities = (
        int(np.sum(size + problem.alignment)),
        *(int(np.sum(column)) for column in (reads, reads * size, writes, writes * size)),
    )
    # No layout costs more than if every rate were the highest of all pools.
    highest = [max(rates[k] for rates in table) for k in range(len(quantities))]
    most = max(1, sum(amount * rate for amount, rate in zip(quantities, highest, strict=True)))
    scale = math.lcm(*(rate.denominator for rates in table for rate in rates))
    if scale * most > _LARGEST:
        if most >= _LARGEST:
            raise InputError("the costs of the pools are too large: they add up to more than 2**50")
        scale = 1 << (math.floor(_LARGEST / most).bit_length() - 1)
    whole = [[math.floor(rate * scale) for rate in rates] for rates in table]
    access = [
        problem.reads * (latency + per_byte * problem.size)
        + problem.writes * (write_latency + per_byte_written * problem.size)
        for _, latency, per_byte, write_latency, per_byte_written in whole
    ]
    return Level(
        tuple(rates[0] for rates in whole),
        (0,) * len(whole),
        np.stack(access, axis=1).astype(np.int64),
        scale,
    )


def _rates(pool: Pool) -> Sequence[Fraction]:
    """Costs per byte of the peak, per read, per byte read, per write, per byte written."""
    return (
        _decimal(pool.cost_per_byte),
        _decimal(pool.read_latency),
        1 / _decimal(pool.read_bandwidth) if pool.read_bandwidth else Fraction(0),
        _decimal(pool.write_latency),
        1 / _decimal(pool.write_bandwidth) if pool.write_bandwidth else Fraction(0),
    )


def _decimal(value: float) -> Fraction:
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


# One line for each objective: its name, and the function that makes its levels.
OBJECTIVES: Mapping[str, Callable[[Problem], tuple[Level, ...]]] = {
    "preference": _preference,
    "total": _total,
    "cost": lambda problem: (_cost_level(problem),),
}
