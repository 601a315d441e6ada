"""One layout for several sizes of small problems, from the definitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np
from support.oracles import clashes

from cpplan.model.problem import Gap, Ints, Problem


def random_sizes(rng: random.Random, count: int, *, fixed: bool = False) -> tuple[Problem, Ints]:
    """Buffers with gaps and alignments, and one to three sizes, zeros among them."""
    steps = rng.randint(1, 4)
    lower = [rng.randint(0, steps - 1) for _ in range(count)]
    upper = [rng.randint(low + 1, steps) for low in lower]
    gaps = {}
    for row in range(count):
        if rng.random() < 0.2 and upper[row] - lower[row] > 2:
            gaps[row] = [Gap(lower[row] + 1, upper[row] - 1)]
    alignment = [rng.choice((1, 1, 1, 2, 4)) for _ in range(count)]
    least = rng.choice((0, 1))
    bytes = [[rng.randint(least, 4) for _ in range(count)] for _ in range(rng.randint(1, 3))]
    names = tuple(f"b{row}" for row in range(count))
    free = Problem(names, lower, upper, np.zeros(count, np.int64), alignment, gaps)
    if fixed:
        free = replace(free, fixed={0: 2 * alignment[0]})
    return free, np.array(bytes, np.int64)


def apart(problem: Problem, bytes: Ints) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """For all pairs, the open intervals that ``offset[j] - offset[i]`` must keep out of."""
    at = [replace(problem, size=row) for row in bytes]
    rows = range(len(problem))
    return {
        (i, j): set().union(*(clashes(each, i, j) for each in at))
        for i in rows
        for j in rows
        if i != j
    }


def pushed_down(problem: Problem, bytes: Ints) -> Iterator[Ints]:
    """First fit in every order, one byte after another; nothing is fixed.

    By increasing offset, any layout becomes one of these that is nowhere higher.
    """
    forbidden = apart(problem, bytes)
    for order in permutations(range(len(problem))):
        offset: dict[int, int] = {}
        for row in order:
            at = 0
            while any(
                low < at - offset[other] < high
                for other in offset
                for low, high in forbidden[other, row]
            ):
                at += int(problem.alignment[row])
            offset[row] = at
        yield np.array([offset[row] for row in range(len(problem))], np.int64)


def all_layouts(problem: Problem, bytes: Ints, highest: int) -> Iterator[Ints]:
    """Every layout with offsets up to ``highest``, fixed ones as they are."""
    forbidden = apart(problem, bytes)

    def extend(offset: list[int]) -> Iterator[Ints]:
        row = len(offset)
        if row == len(problem):
            yield np.array(offset, np.int64)
            return
        free = range(0, highest + 1, int(problem.alignment[row]))
        for at in (problem.fixed[row],) if row in problem.fixed else free:
            if not any(
                low < at - placed < high
                for other, placed in enumerate(offset)
                for low, high in forbidden[other, row]
            ):
                yield from extend([*offset, at])

    return extend([])


def arenas(bytes: Ints, offset: Ints) -> tuple[int, ...]:
    """Bytes needed at every size."""
    return tuple(
        max((int(o + s) for o, s in zip(offset, row, strict=True)), default=0) for row in bytes
    )
