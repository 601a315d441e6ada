"""Evictions step by step: if a step does not fit, the gap with the largest score is dropped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.heuristics.registered import register
from cpplan.spilling.loads import Loads

Score = Callable[[SpillProblem, Loads, int, Ints], NDArray[np.float64]]
_LOOKAHEAD = 16


def evict(problem: SpillProblem, score: Score, deadline: Deadline) -> Flags | None:
    """Gaps kept after evictions by a score, or ``None`` if a step cannot be made to fit.

    O(steps + full steps × gaps there), and O(length) for each gap dropped.

    Parameters
    ----------
    problem
        The problem.
    score
        Function of the problem, the loads, the step and the gaps that may be dropped. The gap with
        the largest score is dropped first.
    deadline
        Deadline after which ``TimeUpError`` is raised.
    """
    loads = Loads(problem, problem.all_kept())
    lower, upper = problem.gap_lower, problem.gap_upper
    free = np.flatnonzero(loads.kept & (problem.gap_fixed < 0))
    by_lower = free[np.argsort(lower[free], kind="stable")]
    starts = lower[by_lower]
    live, seen = np.zeros(0, np.int64), 0
    for step in range(problem.steps):
        if step % 16 == 0:
            deadline.check()
        if loads.load[step] <= problem.capacity:
            continue
        # Gaps that contain this step, or end or begin next to it.
        last = int(np.searchsorted(starts, step + 1, side="right"))
        live = np.concatenate([live[upper[live] >= step], by_lower[seen:last]])
        seen = last
        while loads.load[step] > problem.capacity:
            live = live[loads.kept[live]]
            over = live[(lower[live] <= step) & (step < upper[live])]
            if len(over):
                drop_gaps(loads, [int(over[np.argmax(score(problem, loads, step, over))])])
                continue
            # A gap next to the step helps if the op may access it elsewhere or overwrite it.
            by_score = live[np.argsort(-score(problem, loads, step, live), kind="stable")]
            if not any(_relieve(loads, step, gaps) for gaps in _together(problem, by_score, step)):
                return None
    return loads.kept


def _together(problem: SpillProblem, gaps: Ints, step: int) -> list[list[int]]:
    """Groups of gaps to drop: each gap right after the step, then all gaps of each storage."""
    after = [gap for gap in gaps.tolist() if problem.gap_lower[gap] == step + 1]
    groups: dict[int, list[int]] = {}
    for gap in gaps.tolist():
        groups.setdefault(int(problem.gap_storage[gap]), []).append(gap)
    return [[gap] for gap in after] + list(groups.values())


def _relieve(loads: Loads, step: int, gaps: list[int]) -> bool:
    """Drop these gaps if that lowers the load of a step, and return true if it does."""
    before, kept = int(loads.load[step]), loads.kept.copy()
    drop_gaps(loads, gaps)
    if int(loads.load[step]) < before:
        return True
    for gap in np.flatnonzero(kept & ~loads.kept).tolist():
        loads.keep(gap)
    return False


def drop_gaps(loads: Loads, gaps: list[int]) -> None:
    """Drop gaps. If an input must stay to the end, drop all its gaps with one of them."""
    problem = loads.problem
    for gap in gaps:
        storage = int(problem.gap_storage[gap])
        all_of = [gap]
        if problem.stay[storage]:
            all_of = np.flatnonzero(problem.gap_storage == storage).tolist()
        for one in all_of:
            if loads.kept[one] and problem.gap_fixed[one] != 1:
                loads.drop(one)


def drop_cost(problem: SpillProblem, loads: Loads, gaps: Ints) -> NDArray[np.float64]:
    """Cost of dropping each gap: a reload, plus a spill unless the storage is spilled already."""
    storage = problem.gap_storage[gaps]
    reload = np.where(problem.gap_after[gaps] >= 0, problem.reload_cost[storage], 0)
    clean = (problem.gap_before[gaps] < 0) | (loads.dropped[storage] > 0)
    cost: NDArray[np.float64] = reload + np.where(clean, 0.0, problem.spill_cost[storage])
    return cost


@register("belady")
def belady(problem: SpillProblem, deadline: Deadline) -> Flags | None:
    """Gaps kept if the tensor with the furthest next use is evicted.

    Source: L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
    """
    return evict(problem, lambda p, loads, step, gaps: p.gap_upper[gaps].astype(float), deadline)


@register("belady, 16 ops ahead")
def belady_ahead(problem: SpillProblem, deadline: Deadline) -> Flags | None:
    """Gaps kept by Belady's rule within 16 ops; beyond, the tensor unused longest is evicted."""

    def score(p: SpillProblem, loads: Loads, step: int, gaps: Ints) -> NDArray[np.float64]:
        ahead = (p.gap_upper[gaps] - step).astype(float)
        idle = (step - p.gap_lower[gaps]).astype(float)
        return np.where(ahead > _LOOKAHEAD, p.steps + idle, ahead)

    return evict(problem, score, deadline)


@register("least recently used")
def least_recently_used(problem: SpillProblem, deadline: Deadline) -> Flags | None:
    """Gaps kept if the tensor unused for the longest time is evicted."""
    return evict(problem, lambda p, loads, step, gaps: -p.gap_lower[gaps].astype(float), deadline)


@register("cheapest first")
def cheapest_first(problem: SpillProblem, deadline: Deadline) -> Flags | None:
    """Gaps kept if the tensor that is cheapest to move is evicted; ties by the furthest use."""

    def score(p: SpillProblem, loads: Loads, step: int, gaps: Ints) -> NDArray[np.float64]:
        far = p.gap_upper[gaps] / (p.steps + 1)
        return far - drop_cost(p, loads, gaps)

    return evict(problem, score, deadline)


@register("cost per byte and step")
def cost_per_byte(problem: SpillProblem, deadline: Deadline) -> Flags | None:
    """Gaps kept if the tensor with the least cost per byte and step freed is evicted."""

    def score(p: SpillProblem, loads: Loads, step: int, gaps: Ints) -> NDArray[np.float64]:
        freed = p.room[p.gap_storage[gaps]] * np.maximum(p.gap_upper[gaps] - step, 1.0)
        return freed / np.maximum(drop_cost(p, loads, gaps), 0.5)

    return evict(problem, score, deadline)


@register("largest first")
def largest_first(problem: SpillProblem, deadline: Deadline) -> Flags | None:
    """Gaps kept if the largest tensor is evicted; ties by the furthest next use."""

    def score(p: SpillProblem, loads: Loads, step: int, gaps: Ints) -> NDArray[np.float64]:
        return p.room[p.gap_storage[gaps]] + p.gap_upper[gaps] / (p.steps + 1)

    return evict(problem, score, deadline)
