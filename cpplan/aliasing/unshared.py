"""The problem of the bytes that no choice of candidates shares, for bounds over several pools.

Every plan that shares bytes is also a layout of a smaller problem in which nothing is shared:

* a result that an op may write over an input ending there is live only from the next step on;
* of storages that placements join, with those that results are written over or from, only the
  largest live one counts at a step.

Bounds of this problem therefore hold for every choice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.aliasing.lives import ProgramLives
from cpplan.model.problem import Gap, Ints, Problem


def unshared_problem(
    problem: Problem, candidates: Sequence[AliasCandidate], lives: ProgramLives
) -> Problem:
    """The problem with gaps wherever all bytes of a buffer may be those of another one.

    O(n + candidates + the square of the storages that placements join).

    Examples
    --------
    >>> from cpplan.aliasing.alias_candidates import find_candidates
    >>> from cpplan.model.residency import Residency
    >>> from cpplan.model.small_graphs import relu_in_place
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.program.liveness import to_problem
    >>> graph = relu_in_place()
    >>> program, residency = to_anf(graph), Residency()
    >>> problem = to_problem(program, residency)
    >>> lives = ProgramLives(program, problem, residency)
    >>> found = unshared_problem(problem, find_candidates(graph, residency), lives)
    >>> problem.live_bytes().tolist(), found.live_bytes().tolist()
    ([16], [8])
    """
    row = {name: k for k, name in enumerate(problem.names)}
    handed_over = [
        candidate
        for candidate in candidates
        if candidate.in_place and lives.hands_over(candidate.outer, candidate.inner, candidate.op)
    ]
    placements = [candidate for candidate in candidates if not candidate.in_place]
    gaps = {
        row[candidate.inner]: [Gap(step, step + 1)]
        for candidate in handed_over
        for step in [lives.step[candidate.op]]
    }
    for names in _joined(placements, handed_over):
        rows = np.array(sorted(row[name] for name in names), np.int64)
        for k in rows.tolist():
            gaps.pop(k, None)
        gaps.update(_hidden_behind_the_largest(problem, rows))
    return replace(problem, gaps={**problem.gaps, **gaps})


def _joined(
    placements: Sequence[AliasCandidate], handed_over: Sequence[AliasCandidate]
) -> Iterator[set[str]]:
    """Sets of storages that candidates connect, if one of these is a placement."""
    neighbours: dict[str, list[str]] = defaultdict(list)
    for candidate in (*placements, *handed_over):
        neighbours[candidate.inner].append(candidate.outer)
        neighbours[candidate.outer].append(candidate.inner)
    seen: set[str] = set()
    for start in dict.fromkeys(candidate.outer for candidate in placements):
        if start in seen:
            continue
        found, waiting = {start}, [start]
        while waiting:
            others = set(neighbours[waiting.pop()]) - found
            found |= others
            waiting += others
        seen |= found
        yield found


def _hidden_behind_the_largest(problem: Problem, rows: Ints) -> dict[int, list[Gap]]:
    """Row -> the stretches of steps at which another of the live rows is larger."""
    lower, upper, size = problem.lower[rows], problem.upper[rows], problem.size[rows]
    times = np.unique(np.concatenate([lower, upper]))
    first, last = np.searchsorted(times, lower), np.searchsorted(times, upper)
    # From each time to the next, the largest live row; the smallest number if several are.
    largest = np.full(len(times), -1, np.int64)
    for k in np.lexsort((-rows, size)).tolist():
        largest[first[k] : last[k]] = k
    return {
        int(rows[k]): [
            Gap(int(times[t]), int(times[t + 1]))
            for t in range(int(first[k]), int(last[k]))
            if largest[t] != k
        ]
        for k in range(len(rows))
        if (largest[first[k] : last[k]] != k).any()
    }
