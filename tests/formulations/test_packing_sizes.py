"""The model of one layout for several sizes alone: by hand, against brute force, and its hint."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.sizes_oracle import arenas, pushed_down, random_sizes

from cpplan.packing.reduction import address_unit, reduce_problem
from cpplan.packing.sizes.levels import PRICE_SCALE, Level
from cpplan.packing.sizes.size_set import SizeSet
from cpplan.verification.verifier import check_offsets
from formulations.packing_sizes import build


def solve(model, **parameters):
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.presolve_inclusion_work_limit = 0
    for name, value in parameters.items():
        setattr(solver.parameters, name, value)
    return solver, solver.solve(model)


def level(*sizes, base=1, free=0, scale=1):
    ones = np.ones(len(sizes), np.int64)
    return Level("level", np.array(sizes), ones * base, ones * free, scale)


def minimise(sizes: SizeSet, wanted: Level, limits=None):
    """The smallest value of a level, or ``None`` if nothing is within the limits."""
    reduction = reduce_problem(sizes.merged)
    problem, bytes = reduction.problem, sizes.bytes[:, reduction.rows]
    total = int(problem.size.sum() + problem.alignment.sum())
    packing = build(
        problem,
        bytes,
        unit=address_unit(problem),
        limits=np.full(len(bytes), total) if limits is None else np.array(limits),
        level=wanted,
        lower=0,
        upper=wanted.scale * total,
    )
    solver, status = solve(packing.model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL
    offset = reduction.restore(packing.extract(solver), sizes.merged)
    for k in range(len(sizes)):
        check_offsets(sizes.at(k), offset, "formulation")
    value = packing.in_bytes(solver.objective_value)
    assert value == wanted.value(np.array(arenas(sizes.bytes, offset)))
    assert value == packing.in_bytes(solver.best_objective_bound)
    return value


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_brute_force(seed):
    problem, bytes = random_sizes(random.Random(500 + seed), 1 + seed % 5)
    sizes = SizeSet(problem, bytes)
    needed = [arenas(bytes, offset) for offset in pushed_down(problem, bytes)]
    for k in range(len(bytes)):
        assert minimise(sizes, level(k)) == min(each[k] for each in needed)
    assert minimise(sizes, level(*range(len(bytes)))) == min(map(max, needed))
    price = level(*range(len(bytes)), base=3, scale=PRICE_SCALE)
    assert minimise(sizes, price) == min(-(-PRICE_SCALE * max(each) // 3) for each in needed)


@pytest.mark.parametrize("seed", range(20))
def test_limits_are_kept(seed):
    """The smallest arena at size 0 with every other arena at most its own smallest, plus one."""
    problem, bytes = random_sizes(random.Random(900 + seed), 4)
    sizes = SizeSet(problem, bytes)
    needed = [arenas(bytes, offset) for offset in pushed_down(problem, bytes)]
    limits = [
        max(each[0] for each in needed),
        *(min(column) + 1 for column in list(zip(*needed, strict=True))[1:]),
    ]
    within = [each[0] for each in needed if all(a <= b for a, b in zip(each, limits, strict=True))]
    assert minimise(sizes, level(0), limits) == min(within, default=None)


def test_what_is_above_a_capacity():
    """a and b of 4 each need 8: 3 more than 5."""
    problem, _ = random_sizes(random.Random(0), 1)
    sizes = SizeSet(problem, np.array([[8]]))
    assert minimise(sizes, level(0, free=5)) == 3
    assert minimise(sizes, level(0, free=9)) == 0


def test_the_hint_is_complete_and_feasible():
    """Stacked downwards, so that the two equal buffers come in the order that is forbidden."""
    problem, _ = random_sizes(random.Random(0), 1)
    count = 6
    columns = {"lower": [0] * count, "upper": [1] * count, "size": [0] * count}
    problem = type(problem)(tuple("abcdef"), **columns)
    sizes = SizeSet(problem, np.array([[1, 2, 3, 4, 1, 1], [9, 8, 7, 6, 9, 8]]))
    stacked = np.cumsum(sizes.merged.size[::-1])[::-1] - sizes.merged.size
    packing = build(
        sizes.merged,
        sizes.bytes,
        unit=1,
        limits=np.array([47, 47]),
        level=level(0),
        lower=0,
        upper=47,
    )
    packing.hint(stacked)
    lines: list[str] = []
    solver = cp_model.CpSolver()
    solver.log_callback = lines.append
    solver.parameters.log_search_progress = True
    solver.parameters.log_to_stdout = False
    solver.parameters.num_workers = 1
    assert solver.solve(packing.model) == cp_model.OPTIMAL
    assert any("complete_hint" in line or "is complete and feasible" in line for line in lines)
    # The sum of all is 47; on top what grows from 1 to 9: it starts at 38.
    assert packing.in_bytes(solver.objective_value) == 39


def test_buffers_equal_at_one_size_only_are_not_equal():
    """a and b both have 4 at most; b, with 1 at size 0, must be allowed on top."""
    problem, _ = random_sizes(random.Random(0), 1)
    problem = type(problem)(("a", "b"), lower=[0, 0], upper=[1, 1], size=[0, 0])
    for bytes in ([[4, 1], [4, 4]], [[1, 4], [4, 4]]):
        assert minimise(SizeSet(problem, np.array(bytes)), level(0)) == 5
