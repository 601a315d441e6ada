"""The model of several pools alone: by hand, against brute force, and what its hint is worth."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.cases import seeds
from support.pool_oracles import OBJECTIVES, brute_force_objective, check_pooled, random_pooled
from support.solvers import new_solver

from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem
from cpplan.packing.heuristics.in_pools import PoolFit
from cpplan.packing.pools.cp_sat_pools import pool_units
from cpplan.packing.pools.objective import excess_level, objective_levels
from cpplan.runtime.deadline import Deadline
from formulations.pools import Former, Placement, build


def solve(model):
    solver = new_solver()
    return solver, solver.solve(model.model)


def minimise(problem: Problem, objective: str, *, liquid: bool = False):
    """Level by level; values as users see them, and the layout; ``None`` if nothing fits."""
    former: list[Former] = []
    placement = None
    limits = [pool.capacity for pool in problem.pools]
    for level in objective_levels(problem, objective):
        model = build(
            problem, level, units=pool_units(problem), limits=limits, former=former, liquid=liquid
        )
        solver, status = solve(model)
        if status == cp_model.INFEASIBLE:
            return None, None
        assert status == cp_model.OPTIMAL
        placement = model.extract(solver)
        former.append(Former(level, model.in_bytes(solver.objective_value)))
    return tuple(each.level.shown(each.value) for each in former), placement


def two_pools(capacity: int) -> Problem:
    """a (4 B) meets b (8 B) at step 0 and c (4 B) at step 1."""
    pools = (Pool("fast", capacity), Pool("slow"))
    return Problem(("a", "b", "c"), [0, 0, 1], [2, 1, 2], [4, 8, 4], pools=pools)


def test_preference_fills_the_first_pool_first():
    """8 bytes: b and c take turns in fast, a goes to slow. 12 bytes hold everything."""
    assert minimise(two_pools(8), "preference")[0] == (4, 4, 8)
    assert minimise(two_pools(12), "preference")[0] == (0, 0, 12)
    assert minimise(two_pools(0), "preference")[0] == (12, 16, 0)


def test_preference_puts_as_many_bytes_as_fit_into_the_first_pool():
    """big fits nowhere but into slow, so that its 12 B peak stands; a and b still go to fast."""
    pools = (Pool("fast", 8), Pool("slow"))
    problem = Problem(("big", "a", "b"), [0, 1, 2], [1, 2, 3], [12, 8, 3], pools=pools)
    values, placement = minimise(problem, "preference")
    assert values == (12, 12, 8)
    assert placement.pool.tolist() == [1, 0, 0]


def test_each_pool_further_down_counts_once_more():
    """8 + 8 + 8 B into 8, 8 and any: the second pool's are misplaced once, the last's twice."""
    pools = (Pool("p", 8), Pool("q", 8), Pool("r"))
    problem = Problem(("a", "b", "c"), [0] * 3, [1] * 3, [8] * 3, pools=pools)
    assert minimise(problem, "preference")[0] == (8, 8, 8 + 2 * 8, 8)


def test_total_is_what_is_live_however_it_is_spread():
    assert minimise(two_pools(8), "total")[0] == (12,)


def test_cost_weighs_bytes_against_accesses():
    """All in slow: 12 B. In fast a byte costs 3, but slow takes 10 for each of two reads of c.

    c alone in fast costs 12 and leaves 12 B in slow: 24; all in slow costs 12 + 20 = 32.
    """
    pools = (Pool("fast", cost_per_byte=3), Pool("slow", read_latency=10))
    problem = replace(two_pools(0), pools=pools, reads=[0, 0, 2])
    values, placement = minimise(problem, "cost")
    assert values == (24,)
    assert placement.pool.tolist() == [1, 1, 0]


def test_a_pool_s_alignment_counts_in_that_pool_only():
    """6 and 3 bytes: in the pool of alignment 4 the second starts at 8 (or 4 under 6: 10)."""
    one = Problem(("a", "b"), [0, 0], [1, 1], [6, 3], pools=(Pool("p", alignment=4),))
    assert minimise(one, "total")[0] == (10,)
    two = replace(one, pools=(Pool("p", alignment=4), Pool("q")))
    assert minimise(two, "total")[0] == (9,)


def test_candidates_and_fixed_offsets_are_kept():
    pools = (Pool("p"), Pool("q"))
    problem = Problem(
        ("a", "b"), [0, 0], [1, 1], [4, 4], fixed={0: 2}, pools=pools, candidates={0: (1,), 1: (1,)}
    )
    values, placement = minimise(problem, "preference")
    assert values == (10, 0, 0)  # below a there are 2 bytes, too few for b
    assert placement.offset.tolist() == [2, 6]


def test_too_little_room_is_infeasible_and_misses_bytes():
    problem = replace(two_pools(8), pools=(Pool("fast", 5), Pool("slow", 4)))
    assert minimise(problem, "total") == (None, None)
    level = excess_level(problem)
    model = build(problem, level, units=pool_units(problem), limits=[None, None])
    solver, status = solve(model)
    assert status == cp_model.OPTIMAL
    assert model.in_bytes(solver.objective_value) == 3  # b in fast: 8 of 5; a, then c, in slow


def test_bytes_as_a_liquid_bound_the_layouts_from_below():
    """Any two of three buffers meet: a liquid needs 2 bytes, a layout 3."""
    triangle = Problem(("a", "b", "c"), [0, 0, 1], [3, 2, 3], [1, 1, 1], gaps={0: [Gap(1, 2)]})
    assert minimise(triangle, "total", liquid=True)[0] == (2,)
    assert minimise(triangle, "total")[0] == (3,)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_all_levels_are_those_of_brute_force_and_a_liquid_is_below(objective):
    infeasible = 0
    for seed in seeds(15):
        problem = random_pooled(random.Random(f"formulation {seed}"))
        values, placement = minimise(problem, objective)
        assert values == brute_force_objective(problem, objective)
        infeasible += values is None
        if values is not None:
            check_pooled(problem, placement.pool, placement.offset)
            assert minimise(problem, objective, liquid=True)[0] <= values
    assert infeasible > 0


@pytest.mark.parametrize("liquid", [False, True])
def test_hints_at_liquids_later_levels_and_excess_are_complete(liquid):
    problem = two_pools(8)
    layout = PoolFit(problem).place([0, 1, 2], Deadline(60))
    slow, misplaced, _ = objective_levels(problem, "preference")
    first = slow.value(np.array([4, 8]), layout.pool) + 4
    for level, former in (
        (slow, []),
        (misplaced, [Former(slow, first)]),
        (excess_level(problem), []),
    ):
        model = build(
            problem,
            level,
            units=pool_units(problem),
            limits=[None, None] if level.beyond[0] else [8, None],
            former=former,
            liquid=liquid,
        )
        model.hint(Placement(*layout))
        solver = cp_model.CpSolver()
        lines: list[str] = []
        solver.log_callback = lines.append
        solver.parameters.log_search_progress = True
        solver.parameters.log_to_stdout = False
        solver.parameters.num_workers = 1
        solver.parameters.cp_model_presolve = False
        assert solver.solve(model.model) == cp_model.OPTIMAL
        assert any("complete and feasible" in line or "complete_hint" in line for line in lines)
        assert len(model.model.proto.solution_hint.vars) == len(model.model.proto.variables)
