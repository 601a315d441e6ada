"""Oracle for several pools: every assignment, with every pool packed exhaustively."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from support.oracles import brute_force_peak, make_problem

from cpplan.model.levels import Level
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
from cpplan.packing.pools.objective import objective_levels
from cpplan.verification.verifier import check_offsets

OBJECTIVES = ("total", "preference", "cost")


def random_pooled(rng: random.Random, most: int = 5) -> Problem:
    """Two or three pools, some with capacities, costs, latencies; candidates in any order."""
    integer = rng.randint
    base = make_problem(integer, integer(1, most))
    bandwidths = (None, 1, 2, 3, 0.7)
    pools = tuple(
        Pool(
            f"p{k}",
            rng.choice([None, integer(0, 16), integer(0, 16)]),
            rng.choice([1, 1, 2, 4]),
            cost_per_byte=rng.choice([1, 0.1, 2, 0]),
            read_bandwidth=rng.choice(bandwidths),
            write_bandwidth=rng.choice(bandwidths),
            read_latency=rng.choice([0, 1, 2.5]),
            write_latency=integer(0, 2),
        )
        for k in range(integer(2, 3))
    )
    candidates = {}
    for row in range(len(base)):
        if row in base.fixed or integer(0, 1):
            chosen = rng.sample(range(len(pools)), integer(1, len(pools)))
            candidates[row] = tuple(chosen[:1] if row in base.fixed else chosen)
    fixed = {
        row: at for row, at in base.fixed.items() if at % pools[candidates[row][0]].alignment == 0
    }
    return replace(
        base,
        fixed=fixed,
        pools=pools,
        candidates=candidates,
        reads=[integer(0, 3) for _ in range(len(base))],
        writes=[integer(0, 2) for _ in range(len(base))],
    )


def brute_force_objective(
    problem: Problem, objective: str, levels: Sequence[Level] | None = None
) -> tuple[int | float, ...] | None:
    """The smallest value over all assignments; ``None`` if nothing fits."""
    levels = levels or objective_levels(problem, objective)
    peak: dict[tuple[int, ...], int] = {}
    best = None
    rows = range(len(problem))
    for assignment in itertools.product(*(problem.candidates_of(row) for row in rows)):
        pool = np.array(assignment, np.int64)
        peaks = []
        for number in range(len(problem.pools)):
            here = np.flatnonzero(pool == number)
            key = (number, *here.tolist())
            if key not in peak:
                peak[key] = brute_force_peak(problem.in_pool(number, here))
            peaks.append(peak[key])
        limits = [p.capacity for p in problem.pools]
        if all(limit is None or at <= limit for at, limit in zip(peaks, limits, strict=True)):
            ends = np.array(peaks, np.int64)
            value = tuple(level.shown(level.value(ends, pool)) for level in levels)
            best = value if best is None else min(best, value)
    return best


def check_pooled(problem: Problem, pool: Ints, offset: Ints) -> None:
    """Every buffer in a candidate, below the capacity, and apart from the others there."""
    for row, number in enumerate(pool.tolist()):
        assert number in problem.candidates_of(row)
    for number, here in enumerate(problem.pools):
        rows = np.flatnonzero(pool == number)
        check_offsets(problem.in_pool(number, rows), offset[rows], here.name)
        if here.capacity is not None:
            assert int((offset[rows] + problem.size[rows]).max(initial=0)) <= here.capacity
