"""Order and offsets at once: every order with its best packing, and layouts to start from."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

import numpy as np
from support.oracles import brute_force_peak, first_fit
from support.random_orders import every_order

from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.aliasing.distances import find_meetings
from cpplan.aliasing.value_numbers import Origins
from cpplan.model.graph import Graph
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.ordering.problem import order_problem
from formulations.joint import Layout
from formulations.joint_sharing import Meeting, SharedLayout

Meetings = Mapping[tuple[int, int], Sequence[Meeting]]


def packing_of(
    problem: OrderProblem, order: Sequence[int], alignment: Sequence[int], extra: Sequence[int]
) -> Problem:
    """The buffers of an order: storages, extras of all ops, base, entry; empty ones too."""
    count = len(problem)
    step = {int(op): k for k, op in enumerate(order)}
    lower, upper = [], []
    for storage, ops in enumerate(problem.accessed_by):
        lower.append(0 if problem.present[storage] else min(step[op] for op in ops))
        upper.append(count if problem.kept[storage] else max(step[op] for op in ops) + 1)
    lower += [step[op] for op in range(count)] + [0, 0]
    upper += [step[op] + 1 for op in range(count)] + [count, 1]
    size = np.array([*problem.size, *problem.extra, problem.base, problem.entry])
    names = tuple(f"b{row}" for row in range(len(size)))
    return Problem(names, lower, upper, size, [*alignment, *extra, 1, 1])


def rows_of(layout: Layout) -> Ints:
    """The offsets of a layout in the order of ``packing_of``."""
    return np.array([*layout.offset, *layout.extra_offset, layout.base_offset, layout.entry_offset])


def best_over_all_orders(
    problem: OrderProblem, alignment: Sequence[int], extra: Sequence[int]
) -> int:
    """The smallest peak over all orders, each packed exhaustively."""
    packings = {}
    for order in every_order(problem):
        packing = packing_of(problem, order, alignment, extra)
        packings[tuple(packing.lower), tuple(packing.upper)] = packing
    return min(brute_force_peak(packing) for packing in packings.values())


def any_layout(
    problem: OrderProblem, order: Sequence[int], alignment: Sequence[int], extra: Sequence[int]
) -> Layout:
    """First fit at an order."""
    offset, storages = first_fit(packing_of(problem, order, alignment, extra)), len(problem.size)
    return Layout(
        np.array(order, np.int64),
        offset[:storages],
        offset[storages : storages + len(problem)],
        int(offset[-2]),
        int(offset[-1]),
    )


def alignments(rng: random.Random, problem: OrderProblem) -> tuple[list[int], list[int]]:
    """Random alignments of storages, and of the ops' own bytes."""
    one, other = (
        [rng.choice((1, 1, 2, 3, 4)) for _ in range(count)]
        for count in (len(problem.size), len(problem))
    )
    return one, other


def stacked(problem: OrderProblem, alignment: Sequence[int], order: Sequence[int]) -> SharedLayout:
    """Every storage behind the last one, aligned."""
    offsets, top = [], 0
    for size, step in zip(problem.size.tolist(), alignment, strict=True):
        offsets.append(-(-top // step) * step)
        top = offsets[-1] + size
    return SharedLayout(np.array(order, np.int64), np.array(offsets, np.int64))


def check_shared_layout(problem: OrderProblem, meetings: Meetings, layout: SharedLayout) -> None:
    """Who shares bytes while live: at a listed distance, and after all other readers of the old."""
    step = {int(op): k for k, op in enumerate(layout.order)}
    lives = [
        (
            0 if problem.present[row] else min(step[op] for op in ops),
            len(problem) if problem.kept[row] else max(step[op] for op in ops) + 1,
        )
        for row, ops in enumerate(problem.accessed_by)
    ]
    offset = layout.offset.tolist()
    for i, j in itertools.combinations(range(len(lives)), 2):
        together = max(lives[i][0], lives[j][0]) < min(lives[i][1], lives[j][1])
        low, high = (
            max(offset[i], offset[j]),
            min(offset[i] + problem.size[i], offset[j] + problem.size[j]),
        )
        if not together or low >= high:
            continue
        (meeting, *_) = [m for m in meetings.get((i, j), ()) if m.shift == offset[j] - offset[i]]
        if meeting.op is not None:
            assert lives[meeting.old][1] == step[meeting.op] + 1
            assert not problem.kept[meeting.old]


def with_meetings(graph: Graph) -> tuple[OrderProblem, dict[tuple[int, int], list[Meeting]]]:
    """The order problem of a graph, and what may share bytes in any order."""
    problem = order_problem(graph)
    row = {name: k for k, name in enumerate(problem.storages)}
    candidates = [
        k for k in find_candidates(graph, Residency()) if k.inner in row and k.outer in row
    ]
    origins = Origins(graph, find_candidates(graph, Residency()))
    return problem, find_meetings(row, problem.size.tolist(), candidates, origins)


def check_shifts(problem: Problem, shifts: Mapping, offsets: Ints) -> None:
    """Buffers that meet lie apart, or at one of the distances that are allowed to them."""
    assert not (offsets % problem.alignment).any()
    for j in range(len(problem)):
        for i in range(j):
            if _overlap(problem, i, j, int(offsets[i]), int(offsets[j])):
                assert offsets[j] - offsets[i] in shifts.get((i, j), ())


def least_with_shifts(problem: Problem, shifts: Mapping) -> int:
    """The smallest peak where pairs may lie at listed distances; every offset is tried."""

    def fits(offsets: list[int], height: int) -> bool:
        j = len(offsets)
        if j == len(problem):
            return True
        for at in range(0, height - int(problem.size[j]) + 1, int(problem.alignment[j])):
            if all(
                at - offsets[i] in shifts.get((i, j), ())
                or not _overlap(problem, i, j, offsets[i], at)
                for i in range(j)
            ) and fits([*offsets, at], height):
                return True
        return False

    return next(height for height in itertools.count() if fits([], height))


def _overlap(problem: Problem, i: int, j: int, one: int, other: int) -> bool:
    """True if two buffers at these offsets hold a byte at the same step."""
    meet = max(problem.lower[i], problem.lower[j]) < min(problem.upper[i], problem.upper[j])
    high = min(one + int(problem.size[i]), other + int(problem.size[j]))
    return bool(meet) and max(one, other) < high
