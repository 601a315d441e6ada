"""Storages by trying every partition: slow, short and written from the definition."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
from support.oracles import held, random_problem

from cpplan.model.problem import Ints, Problem


def brute_force_total(problem: Problem, group: Ints) -> int:
    """The least total over all partitions of up to about seven buffers."""
    totals = (
        sum(max(int(problem.size[row]) for row in part) for part in partition)
        for partition in partitions(list(range(len(problem))))
        if all(_may_share(problem, group, part) for part in partition)
    )
    return min(totals)


def partitions(rows: list[int]) -> Iterator[list[list[int]]]:
    """Every way to part the rows."""
    if not rows:
        yield []
        return
    for rest in partitions(rows[1:]):
        yield [[rows[0]], *rest]
        for k, part in enumerate(rest):
            yield [*rest[:k], [rows[0], *part], *rest[k + 1 :]]


def _may_share(problem: Problem, group: Ints, part: list[int]) -> bool:
    if len({int(group[row]) for row in part}) > 1:
        return False
    steps = range(int(problem.upper.max()))
    return all(sum(held(problem, row, step) != [] for row in part) <= 1 for step in steps)


def random_storages(seed: int, *, gaps: bool) -> tuple[Problem, Ints]:
    """A problem without fixed offsets, and labels of up to two groups."""
    rng = random.Random(seed)
    made = random_problem(rng, 1 + seed % 7)
    problem = Problem(made.names, made.lower, made.upper, made.size, gaps=made.gaps if gaps else {})
    most = rng.randint(0, 1)
    return problem, np.array([rng.randint(0, most) for _ in made.names], np.int64)
