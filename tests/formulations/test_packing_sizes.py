"""The model of one layout for several sizes alone: by hand, against brute force, and its hint."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.cases import seeds
from support.sizes_oracle import arenas, pushed_down, random_sizes

from cpplan.model.levels import ArenaLevel
from cpplan.packing.reduction import address_unit, reduce_problem
from cpplan.packing.sizes.arenas import PRICE_SCALE
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
    return ArenaLevel("level", np.array(sizes), ones * base, ones * free, scale)


def minimise(sizes: SizeSet, wanted: ArenaLevel, limits=None):
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


@pytest.mark.parametrize("seed", seeds(10))
def test_a_price_is_the_least_over_all_layouts(seed):
    problem, bytes = random_sizes(random.Random(500 + seed), 1 + seed % 5)
    needed = [arenas(bytes, offset) for offset in pushed_down(problem, bytes)]
    price = level(*range(len(bytes)), base=3, scale=PRICE_SCALE)
    found = minimise(SizeSet(problem, bytes), price)
    assert found == min(-(-PRICE_SCALE * max(each) // 3) for each in needed)


@pytest.mark.parametrize("seed", seeds(10))
def test_arenas_of_other_sizes_keep_their_limits(seed):
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


def test_buffers_equal_at_one_size_only_are_not_equal():
    """a and b both have 4 at most; b, with 1 at size 0, must be allowed on top."""
    problem, _ = random_sizes(random.Random(0), 1)
    problem = type(problem)(("a", "b"), lower=[0, 0], upper=[1, 1], size=[0, 0])
    for bytes in ([[4, 1], [4, 4]], [[1, 4], [4, 4]]):
        assert minimise(SizeSet(problem, np.array(bytes)), level(0)) == 5
