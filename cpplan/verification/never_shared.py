"""A problem of the bytes that no two tensors share, whichever bytes a plan shares.

Every plan that shares bytes is also a layout without sharing of a smaller problem:

* a buffer that an op may write over an input that ends with it is live only from the step after the
  op's;
* of the storages that placements join, with the buffers that may be written over them, only the
  largest live one counts at a step.

In no plan do two buffers of this problem share a byte at a step, so its bounds hold for all plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from cpplan.model.problem import Gap, Problem
from cpplan.verification.access_trace import Access
from cpplan.verification.runs import Run
from cpplan.verification.shared_bound import Sharing


def never_shared(
    problem: Problem, kinds: Collection[str], accesses: Sequence[Access], runs: Sequence[Run]
) -> Problem:
    """The problem with gaps wherever a buffer may share all of its bytes.

    Parameters
    ----------
    problem
        The buffers of the program, without gaps.
    kinds
        Kinds of the relations that a plan may choose.
    accesses, runs
        Accesses and runs of the program.
    """
    sharing = Sharing(kinds, accesses, runs)
    row = {name: k for k, name in enumerate(problem.names)}
    pairs = [
        (row[output.name], row[source.name], step)
        for step in sharing.run_at
        for output, source, _ in sharing.in_place_at(step)
    ]
    placed = [[row[name] for name in group] for group in sharing.groups]
    gaps: dict[int, list[Gap]] = {}
    joined = set()
    for rows in _joined(placed, pairs):
        joined.update(rows)
        gaps.update(_all_but_the_largest(problem, rows))
    for output, _, step in pairs:
        if output not in joined:
            gaps[output] = [Gap(step, step + 1)]
    return replace(problem, gaps={**problem.gaps, **gaps})


def _joined(
    placed: Sequence[Sequence[int]], pairs: Sequence[tuple[int, int, int]]
) -> Iterator[list[int]]:
    """Groups of rows that placements join, with all rows that in-place pairs connect to them."""
    neighbours: dict[int, list[int]] = {}
    for one, other in [
        *((rows[0], row) for rows in placed for row in rows),
        *((output, source) for output, source, _ in pairs),
    ]:
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    seen: set[int] = set()
    for rows in placed:
        waiting, found = [rows[0]], []
        while waiting:
            row = waiting.pop()
            if row not in seen:
                seen.add(row)
                found.append(row)
                waiting += neighbours[row]
        if found:
            yield sorted(found)


def _all_but_the_largest(problem: Problem, rows: Sequence[int]) -> Mapping[int, list[Gap]]:
    """Gaps after which only the largest live row of these is left at every step."""
    lower, upper = problem.lower.tolist(), problem.upper.tolist()
    times = sorted({time for row in rows for time in (lower[row], upper[row])})
    gaps: dict[int, list[Gap]] = {}
    for begin, end in pairwise(times):
        live = [row for row in rows if lower[row] <= begin < upper[row]]
        if not live:
            continue
        largest = max(live, key=lambda row: (int(problem.size[row]), -row))
        for row in live:
            if row != largest:
                gaps.setdefault(row, []).append(Gap(begin, end))
    return gaps
