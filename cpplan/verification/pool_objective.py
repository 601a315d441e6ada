"""The objectives of several pools, defined again for the checker.

An objective is a list of levels, each the sum of the costs of the peaks' bytes and of the costs of
the buffers in the pools in which they lie. Of two layouts, the one with the smaller value at the
first level that differs is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem

# Largest cost of a layout, in steps.
_MOST_STEPS = 2**50


class Level(NamedTuple):
    """One number to be minimised, counted in steps of ``1 / scale``.

    Attributes
    ----------
    per_byte
        Cost of each byte of a pool's peak, in steps, by pool.
    per_buffer
        Cost of each buffer in each pool that it may go to, in steps: ``per_buffer[row][pool]``.
    scale
        Number of steps in a cost of 1.
    rows
        Buffers that count for the peaks; all of them if left out.
    """

    per_byte: tuple[int, ...]
    per_buffer: Sequence[dict[int, int]]
    scale: int = 1
    rows: tuple[int, ...] | None = None

    def of(self, problem: Problem, pool: Ints, offset: Ints) -> int:
        """Cost of a layout, in steps."""
        peaks = pool_peaks(problem, pool, offset, self.rows)
        bytes_used = sum(cost * peak for cost, peak in zip(self.per_byte, peaks, strict=True))
        return bytes_used + sum(
            costs[number] for costs, number in zip(self.per_buffer, pool.tolist(), strict=True)
        )

    def shown(self, steps: int) -> int | float:
        """Cost of a number of steps, as plans write it: an integer if it is whole."""
        whole, rest = divmod(steps, self.scale)
        return whole if rest == 0 else float(Fraction(steps, self.scale))


def pool_peaks(
    problem: Problem, pool: Ints, offset: Ints, rows: Sequence[int] | None = None
) -> list[int]:
    """Bytes that each pool needs: the end of its highest buffer, of all or of some."""
    some = slice(None) if rows is None else list(rows)
    ends, pool = (offset + problem.size)[some], pool[some]
    return [int(ends[pool == number].max(initial=0)) for number in range(len(problem.pools))]


def objective_levels(problem: Problem, objective: str) -> list[Level]:
    """Levels of an objective, the first one the most important.

    ``total``: the sum of the peaks. ``preference``: the peaks from the last pool to the second,
    then for every buffer its size times the pools that it prefers to its own, then the peak of the
    first pool. ``cost``: every pool's ``cost_per_byte`` times its peak, and for every buffer its
    latencies and cycles.

    Raises
    ------
    VerificationError
        If there is no objective of this name.
    """
    levels = OBJECTIVES.get(objective)
    if levels is None:
        raise VerificationError(f"the plan minimised {objective!r}, which is no objective")
    return levels(problem)


def is_peak(problem: Problem, objective: str) -> bool:
    """True if the objective is the peak of the problem's only pool."""
    if len(problem.pools) > 1:
        return False
    one = problem.subset(np.arange(min(1, len(problem))))
    return all(level.rows is None for level in objective_levels(one, objective))


def sum_of_peaks(
    problem: Problem, pools: Sequence[int], rows: Sequence[int] | None = None
) -> Level:
    """Level that is the sum of some pools' peaks, over all buffers or some of them."""
    free = [dict.fromkeys(problem.candidates_of(row), 0) for row in range(len(problem))]
    per_byte = tuple(int(k in pools) for k in range(len(problem.pools)))
    return Level(per_byte, free, rows=None if rows is None else tuple(rows))


def _preference(problem: Problem) -> list[Level]:
    pools = range(len(problem.pools))
    first, *others = (sum_of_peaks(problem, [pool]) for pool in pools)
    misplaced = [
        {pool: place * size for place, pool in enumerate(problem.candidates_of(row))}
        for row, size in enumerate(problem.size.tolist())
    ]
    return [*reversed(others), Level((0,) * len(pools), misplaced), first]


def _rates(pool: Pool) -> tuple[Fraction, ...]:
    """Costs of a byte of the peak, a read, a byte read, a write and a byte written.

    A float counts as the decimal number that it prints as.
    """
    cycles = [
        0 if width is None else 1 / Fraction(str(width))
        for width in (pool.read_bandwidth, pool.write_bandwidth)
    ]
    numbers = pool.cost_per_byte, pool.read_latency, cycles[0], pool.write_latency, cycles[1]
    return tuple(Fraction(str(number)) for number in numbers)


def _cost_level(problem: Problem) -> Level:
    """The level of ``cost``, in steps of the rates' common denominator or of a power of 1/2.

    If the most expensive layout would cost more than ``_MOST_STEPS`` steps of the common
    denominator, a step is the smallest power of 1/2 that keeps within ``_MOST_STEPS``, and every
    rate is rounded down to whole steps.
    """
    rates = [_rates(pool) for pool in problem.pools]
    rows = list(
        zip(*(c.tolist() for c in (problem.size, problem.reads, problem.writes)), strict=True)
    )
    amounts = (
        sum(problem.size.tolist()) + sum(problem.alignment.tolist()),
        sum(read for _, read, _ in rows),
        sum(read * size for size, read, _ in rows),
        sum(written for _, _, written in rows),
        sum(written * size for size, _, written in rows),
    )
    highest = [max(rate[k] for rate in rates) for k in range(len(amounts))]
    most = Fraction(sum(amount * rate for amount, rate in zip(amounts, highest, strict=True)))
    most = max(Fraction(1), most)
    scale = math.lcm(*(number.denominator for rate in rates for number in rate))
    if scale * most > _MOST_STEPS:
        scale = 1
        while 2 * scale * most <= _MOST_STEPS:
            scale *= 2
    steps = [[math.floor(number * scale) for number in rate] for rate in rates]
    per_buffer = [
        {pool: _accesses(row, steps[pool]) for pool in problem.candidates_of(number)}
        for number, row in enumerate(rows)
    ]
    return Level(tuple(per_byte for per_byte, *_ in steps), per_buffer, scale)


def _accesses(row: Sequence[int], steps: Sequence[int]) -> int:
    """Steps that all reads and writes of a buffer cost, from what :func:`_rates` lists."""
    (size, reads, writes), (_, read, byte_read, write, byte_written) = row, steps
    return reads * (read + size * byte_read) + writes * (write + size * byte_written)


# One line an objective: its name, and its levels for a problem.
OBJECTIVES: Mapping[str, Callable[[Problem], list[Level]]] = {
    "preference": _preference,
    "total": lambda problem: [sum_of_peaks(problem, range(len(problem.pools)))],
    "cost": lambda problem: [_cost_level(problem)],
}
