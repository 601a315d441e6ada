"""Problems and first packings for searches that lower a packing in turns."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.greedy import bump
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline


def random_problem(count: int, seed: int, *, aligned: bool = False) -> Problem:
    """Buffers of 1 to 8 bytes, live for up to half of the steps."""
    random = np.random.default_rng(seed)
    lower = random.integers(0, count, count)
    upper = lower + random.integers(1, count // 2 + 2, count)
    size = random.integers(1, 9, count)
    alignment = random.choice([1, 2, 4], count) if aligned else None
    return Problem(tuple(map(str, range(count))), lower, upper, size, alignment)


def stacked(problem: Problem) -> Outcome:
    """The packing of all buffers one on the other, and the bound."""
    offsets = bump(problem)
    return Outcome(offsets, int((offsets + problem.size).max()), lower_bound(problem).value)


def endless() -> Deadline:
    """A deadline that only counts work, and never passes."""
    return Deadline(1e9, deterministic=True)
