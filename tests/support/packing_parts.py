"""Parts of small packing problems, a packing to start from, and a checked run of a search."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from cpplan.model.problem import Gap, Problem
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets


def first_packing(problem: Problem) -> Outcome:
    """Every buffer on top of the one before, and no bound."""
    step = np.lcm.reduce(problem.alignment)
    rounded = -(-problem.size // step) * step
    offsets = np.concatenate([[0], np.cumsum(rounded)[:-1]])
    return Outcome(offsets, int((offsets + problem.size).max()), 0)


def solve(search: Any, problem: Problem, **options: object) -> Outcome:
    """The end of a run, its offsets checked."""
    chosen = {"nodes": 10**7, "target": 0, "limit": None, "deadline": Deadline(600)} | options
    outcome = search(problem, seed=0).run(first_packing(problem), **chosen)
    check_offsets(problem, outcome.offsets, "exact search")
    assert outcome.peak == (outcome.offsets + problem.size).max()
    return outcome


def parts(
    cases: Iterable[int], most: int, applies_to: Callable[[Problem], bool]
) -> Iterator[Problem]:
    """Parts of small problems with gaps, alignments and equal buffers that a search applies to."""
    for seed in cases:
        rng = random.Random(seed)
        count, steps = rng.randint(1, most), rng.randint(2, 7)
        lower = [rng.randrange(steps) for _ in range(count)]
        upper = [rng.randint(low + 1, steps) for low in lower]
        size = [rng.randint(1, 7) for _ in range(count)]
        if count > 2 and rng.random() < 0.5:
            lower[1], upper[1], size[1] = lower[0], upper[0], size[0]
        alignments = rng.choice([(1,), (2,), (4,), (1,), (1, 2, 3, 4)])
        gaps = {}
        for row in range(count if seed % 2 else 0):
            if upper[row] - lower[row] > 2 and rng.random() < 0.4:
                begin = rng.randint(lower[row] + 1, upper[row] - 2)
                gaps[row] = [Gap(begin, rng.randint(begin + 1, upper[row] - 1))]
        alignment = [rng.choice(alignments) for _ in range(count)]
        names = tuple(f"b{row}" for row in range(count))
        reduction = reduce_problem(Problem(names, lower, upper, size, alignment, gaps))
        for part in range(int(reduction.part.max()) + 1):
            problem = reduction.part_problem(part)[0]
            if applies_to(problem):
                yield problem
