"""Packings of whole storages, one above the other: comparisons with runtimes without offsets.

Each storage is as large as its largest buffer, and its buffers lie at its start (see
``cpplan.storages``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.registered import register
from cpplan.packing.storage_ids.by_size import shared_objects as assign_shared_objects
from cpplan.packing.storage_ids.tokens import storage_tokens as assign_storage_tokens
from cpplan.runtime.deadline import Deadline


@register("storage_tokens")
def storage_tokens(problem: Problem, deadline: Deadline) -> Ints:
    """Relay's storage tokens: by first step; a storage is reused within a factor of 16."""
    return _stack(problem, assign_storage_tokens, deadline)


@register("shared_objects")
def shared_objects(problem: Problem, deadline: Deadline) -> Ints:
    """Largest first, each into the smallest storage that it fits (Pisarchyk and Lee, 2020)."""
    return _stack(problem, assign_shared_objects, deadline)


def _stack(
    problem: Problem, assign: Callable[[Problem, Ints, Deadline], Ints], deadline: Deadline
) -> Ints:
    """Stack the storages from the bottom up, above all fixed buffers."""
    offset = np.zeros(len(problem), np.int64)
    for row, at in problem.fixed.items():
        offset[row] = at
    free = np.array([row for row in range(len(problem)) if row not in problem.fixed], np.int64)
    top = max((at + int(problem.size[row]) for row, at in problem.fixed.items()), default=0)
    rest = problem.subset(free)
    storage = assign(rest, np.zeros(len(rest), np.int64), deadline)
    unit = [1] * (int(storage.max(initial=-1)) + 1)
    for number, alignment in zip(storage.tolist(), rest.alignment.tolist(), strict=True):
        unit[number] = math.lcm(unit[number], alignment)
    height = np.zeros(len(unit), np.int64)
    np.maximum.at(height, storage, rest.size)
    begins = []
    for step, size in zip(unit, height.tolist(), strict=True):
        top = -(-top // step) * step
        begins.append(top)
        top += size
    offset[free] = np.array(begins, np.int64)[storage]
    return offset
