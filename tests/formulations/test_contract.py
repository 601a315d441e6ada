"""The contract of every formulation: exact against brute force, sound bounds, complete hints.

An entry of ``QUESTIONS`` makes small random models, each with the optimum by exhaustion, a check of
what is extracted, and a solution to hint at.
"""

from __future__ import annotations

import math
import pkgutil
import random
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.cases import seeds
from support.layouts_oracle import (
    alignments,
    any_layout,
    best_over_all_orders,
    check_shared_layout,
    check_shifts,
    least_with_shifts,
    packing_of,
    rows_of,
    stacked,
    with_meetings,
)
from support.oracles import brute_force_peak, first_fit, random_problem
from support.pool_oracles import OBJECTIVES, brute_force_objective, check_pooled, random_pooled
from support.random_orders import brute_force_order_peak, random_order_problem, random_topological
from support.remat_oracle import (
    cheapest_schedule,
    interesting_limits,
    least_cost,
    random_remat_problem,
)
from support.sharing_instances import random_read_graph, setting
from support.sharing_oracle import random_sharing_graph
from support.sizes_oracle import arenas, pushed_down, random_sizes
from support.solvers import new_solver
from support.spill_oracle import random_spill_case
from support.storage_oracle import brute_force_total, random_storages

import formulations
from cpplan.aliasing.distances import allowed_shifts
from cpplan.model.graph import Graph
from cpplan.model.levels import ArenaLevel
from cpplan.model.problem import Problem
from cpplan.packing.heuristics.in_pools import PoolFit
from cpplan.packing.pools.cp_sat_pools import pool_units
from cpplan.packing.pools.objective import objective_levels
from cpplan.packing.reduction import address_unit
from cpplan.packing.sizes.size_set import SizeSet
from cpplan.packing.storage_ids.assignment import make_assignment
from cpplan.packing.storage_ids.checker import check_assignment
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets
from formulations import (
    joint,
    joint_sharing,
    ordering,
    packing,
    packing_sizes,
    pools,
    rematerialization,
    retained_at_cuts,
    shared_storage,
    sharing,
    spilling,
    storage_classes,
)

Value = int | float


@dataclass(frozen=True)
class Question:
    """A model, its optimum by exhaustion (``None``: infeasible), and ways to read the model.

    ``value`` checks what was extracted against the definitions and returns its objective; ``shown``
    turns the solver's objective into that value; ``hint`` hints at a solution, if there is one at
    hand. A relaxation extracts nothing: its optimum may lie below.
    """

    model: Any
    least: Value | None
    shown: Callable[[float], Value]
    value: Callable[[cp_model.CpSolver], Value] | None = None
    hint: Callable[[], object] | None = None


def ask_packing(seed: int) -> Question:
    """Gaps, windows, alignments and fixed offsets; hinted from the last buffer to the first."""
    problem = random_problem(random.Random(1000 + seed), 1 + seed % 6)
    if seed % 8 == 7:
        # Hinted the other way round than the model wants equal buffers.
        problem = Problem(tuple("abcd"), [0] * 4, [2, 2, 2, 1], [3, 3, 3, 2])
    filled = problem.spans.end > problem.spans.begin
    problem = problem.subset(np.unique(problem.spans.buffer[filled]))
    offsets = first_fit(problem, range(len(problem) - 1, -1, -1))
    upper = int((offsets + problem.size).max(initial=0))
    unit = math.gcd(address_unit(problem), *offsets.tolist())
    built = packing.build(problem, unit=unit, upper=upper, minimise=True)

    def value(solver: cp_model.CpSolver) -> int:
        found = built.extract(solver)
        check_offsets(problem, found, "formulation")
        return int((found + problem.size).max(initial=0))

    def shown(objective: float) -> int:
        return built.proved_bound(SimpleNamespace(best_objective_bound=objective))

    least = brute_force_peak(problem)
    return Question(built, least, shown, value, lambda: built.hint(offsets))


def ask_packing_sizes(seed: int) -> Question:
    """Several sizes at once; the largest arena over all of them."""
    problem, bytes = random_sizes(random.Random(500 + seed), 1 + seed % 5)
    if seed % 6 == 5:
        problem = Problem(tuple("abcd"), [0] * 4, [1] * 4, [0] * 4)
        bytes = np.array([[1, 2, 1, 1], [9, 8, 9, 8]])
    sizes = SizeSet(problem, bytes)
    ones = np.ones(len(bytes), np.int64)
    level = ArenaLevel("level", np.arange(len(bytes)), ones, 0 * ones)
    offsets = first_fit(sizes.merged, range(len(problem) - 1, -1, -1))
    upper = max(arenas(bytes, offsets))
    built = packing_sizes.build(
        sizes.merged,
        bytes,
        unit=1,
        limits=np.full(len(bytes), upper),
        level=level,
        lower=0,
        upper=upper,
    )

    def value(solver: cp_model.CpSolver) -> int:
        found = built.extract(solver)
        for k in range(len(sizes)):
            check_offsets(sizes.at(k), found, "formulation")
        return max(arenas(bytes, found))

    least = min(max(arenas(bytes, offset)) for offset in pushed_down(problem, bytes))
    return Question(built, least, built.in_bytes, value, lambda: built.hint(offsets))


def ask_pools(seed: int) -> Question:
    """Up to three pools; the first level of an objective."""
    problem = random_pooled(random.Random(f"formulation {seed}"))
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    level = objective_levels(problem, objective)[0]
    limits = [pool.capacity for pool in problem.pools]
    built = pools.build(problem, level, units=pool_units(problem), limits=limits)
    values = brute_force_objective(problem, objective)
    layout = PoolFit(problem).place(list(range(len(problem))), Deadline(60))
    placed = pools.Placement(*layout)
    tops = [
        int((layout.offset + problem.size)[layout.pool == k].max(initial=0))
        for k in range(len(limits))
    ]
    within = all(limit is None or top <= limit for top, limit in zip(tops, limits, strict=True))

    def value(solver: cp_model.CpSolver) -> Value:
        found = built.extract(solver)
        check_pooled(problem, found.pool, found.offset)
        return level.shown(built.in_bytes(solver.objective_value))

    return Question(
        built,
        None if values is None else values[0],
        lambda objective: level.shown(built.in_bytes(objective)),
        value,
        (lambda: built.hint(placed)) if within else None,
    )


def ask_ordering(seed: int) -> Question:
    """Random order problems of up to six ops."""
    rng = random.Random(seed)
    problem = random_order_problem(rng, 1 + seed % 6, unit=rng.choice((1, 64)))
    order = random_topological(rng, problem)
    built = ordering.build(problem, upper=problem.peak(order))

    def value(solver: cp_model.CpSolver) -> int:
        found = built.extract(solver)
        assert problem.is_order(found)
        return problem.peak(found)

    least = brute_force_order_peak(problem)
    return Question(built, least, built.in_bytes, value, lambda: built.hint(order))


def ask_joint(seed: int) -> Question:
    """Order and offsets together, with alignments."""
    rng = random.Random(seed)
    problem = random_order_problem(rng, 1 + seed % 5)
    # The exhaustive packer takes about six buffers.
    while np.count_nonzero([*problem.size, *problem.extra, problem.base, problem.entry]) > 6:
        problem = random_order_problem(rng, 1 + seed % 5)
    alignment, extra = alignments(rng, problem)
    start = any_layout(problem, random_topological(rng, problem), alignment, extra)
    built = joint.build(problem, alignment, extra, unit=1, upper=start.peak(problem))

    def value(solver: cp_model.CpSolver) -> int:
        found = built.extract(solver)
        assert problem.is_order(found.order)
        buffers = packing_of(problem, found.order, alignment, extra)
        check_offsets(buffers, rows_of(found), "formulation")
        return found.peak(problem)

    least = best_over_all_orders(problem, alignment, extra)
    return Question(built, least, built.in_bytes, value, lambda: built.hint(start))


def ask_sharing(seed: int) -> Question:
    """One order; some pairs may lie at listed distances."""
    found = setting(random_sharing_graph(seed, 1 + seed % 4))
    problem = found.problem
    shifts = allowed_shifts(problem, found.candidates, found.rules)
    start = np.cumsum(problem.size) - problem.size
    built = sharing.build(problem, shifts, unit=1, upper=int(problem.size.sum()))

    def value(solver: cp_model.CpSolver) -> int:
        offsets = built.extract(solver)
        check_shifts(problem, shifts, offsets)
        return int((offsets + problem.size).max(initial=0))

    least = least_with_shifts(problem, shifts)
    return Question(built, least, built.in_bytes, value, lambda: built.hint(start))


def ask_joint_sharing(seed: int) -> Question:
    """All orders, each with the distances that it allows."""
    graph = random_read_graph(seed, 1 + seed % 4)
    problem, meetings = with_meetings(graph)
    ones = [1] * len(problem.size)
    start = stacked(problem, ones, range(len(problem)))
    upper = int((start.offset + problem.size).max(initial=0))
    built = joint_sharing.build(problem, ones, meetings, unit=1, upper=upper)
    peaks = []
    for order in permutations(range(len(graph.ops))):
        if problem.is_order(order):
            listed = Graph(graph.name, graph.tensors, tuple(graph.ops[k] for k in order))
            at = setting(listed)
            shifts = allowed_shifts(at.problem, at.candidates, at.rules)
            peaks.append(least_with_shifts(at.problem, shifts))

    def value(solver: cp_model.CpSolver) -> int:
        found = built.extract(solver)
        assert problem.is_order(found.order)
        check_shared_layout(problem, meetings, found)
        return int((found.offset + problem.size).max(initial=0))

    return Question(built, min(peaks), built.in_bytes, value, lambda: built.hint(start))


def ask_rematerialization(seed: int) -> Question:
    """Least cost within a limit; each unit runs at most twice."""
    problem = random_remat_problem(seed, (1, 4, 5, 5)[seed % 4])
    limits = interesting_limits(problem)
    limit = limits[(-2, -2, -1, 1)[seed // 4 % 4]]
    built = rematerialization.build(problem, memory_limit=limit)

    def value(solver: cp_model.CpSolver) -> float:
        schedule = built.extract(solver)
        assert problem.is_schedule(schedule)
        assert problem.peak(schedule) <= limit
        return problem.total_cost(schedule)

    least = least_cost(problem, limit, copies=2)
    schedule = None if least is None else cheapest_schedule(problem, limit, copies=2)
    hint = None if schedule is None else (lambda: built.hint(schedule))
    return Question(built, least, built.cost_of, value, hint)


def ask_retained_at_cuts(seed: int) -> Question:
    """A relaxation: its least cost is at most that of any schedule."""
    problem = random_remat_problem(seed, 5)
    limit, before = interesting_limits(problem)[-2], retained_at_cuts.precedence(problem)
    cuts = tuple(
        k for k in range(len(problem)) if all(before[k, j] or before[j, k] for j in range(k))
    )
    built = retained_at_cuts.build(problem, memory_limit=limit, cuts=cuts, before=before)
    return Question(
        built,
        least_cost(problem, limit),
        lambda objective: built.cost_of(built.in_bytes(objective)),
    )


def ask_storages(model: Any, *, gaps: bool) -> Callable[[int], Question]:
    """Whole storages; groups keep apart."""

    def ask(seed: int) -> Question:
        problem, group = random_storages(seed, gaps=gaps)
        built = model.build(problem, group, upper=int(problem.size.sum()))
        keys = [str(label) for label in group.tolist()]

        def value(solver: cp_model.CpSolver) -> int:
            assignment = make_assignment(problem, built.extract(solver), keys)
            check_assignment(problem, assignment, keys)
            return assignment.total

        each = np.arange(len(problem))
        least = brute_force_total(problem, group)
        return Question(built, least, built.in_bytes, value, lambda: built.hint(each))

    return ask


def ask_spilling(seed: int) -> Question:
    """Direct and other slow pools, in-place pairs and kept inputs; hinted to keep nothing."""
    case = random_spill_case(3000 + seed)
    problem, least = case.problem(), case.least(any_order=False)
    built = spilling.build(problem)

    def value(solver: cp_model.CpSolver) -> int:
        kept = built.extract(solver)
        assert (problem.load(kept) <= problem.capacity).all()
        return int(problem.paid(kept).sum())

    dropped = problem.gap_fixed == 1
    fits = (problem.load(dropped) <= problem.capacity).all()
    hint = (lambda: built.hint(dropped)) if fits else None
    return Question(built, least, built.in_bytes, value, hint)


QUESTIONS = {
    "packing": (ask_packing, 40),
    "packing_sizes": (ask_packing_sizes, 30),
    "pools": (ask_pools, 45),
    "ordering": (ask_ordering, 40),
    "joint": (ask_joint, 20),
    "sharing": (ask_sharing, 30),
    "joint_sharing": (ask_joint_sharing, 20),
    "rematerialization": (ask_rematerialization, 48),
    "retained_at_cuts": (ask_retained_at_cuts, 10),
    "spilling": (ask_spilling, 40),
    "shared_storage": (ask_storages(shared_storage, gaps=True), 50),
    "storage_classes": (ask_storages(storage_classes, gaps=False), 40),
}

every_formulation = pytest.mark.parametrize(("ask", "count"), QUESTIONS.values(), ids=QUESTIONS)


def test_every_cp_sat_model_has_a_question():
    """Checkmate's is a mixed-integer program: ``test_checkmate.py`` asks it the same."""
    modules = [module.name for module in pkgutil.iter_modules(formulations.__path__)]
    models = {name for name in modules if hasattr(import_module(f"formulations.{name}"), "build")}
    assert models == {*QUESTIONS, "checkmate"}


@every_formulation
def test_the_optimum_is_that_of_brute_force(ask, count):
    for seed in seeds(count):
        question, solver = ask(seed), new_solver()
        status = solver.solve(question.model.model)
        if question.value is None:
            assert question.least is None or status == cp_model.OPTIMAL, seed
            if question.least is not None:
                assert question.shown(solver.best_objective_bound) <= question.least, seed
        elif question.least is None:
            assert status == cp_model.INFEASIBLE, seed
        else:
            assert status == cp_model.OPTIMAL, seed
            assert question.value(solver) == question.least, seed
            assert question.shown(solver.objective_value) == question.least, seed
            assert question.shown(solver.best_objective_bound) == question.least, seed


@every_formulation
def test_a_bound_before_the_end_is_sound(ask, count):
    """Stopped at the first solution: the bound is at most the optimum, the value at least."""
    for seed in seeds(max(4, count // 5)):
        question, solver = ask(seed), new_solver()
        solver.parameters.stop_after_first_solution = True
        solver.parameters.cp_model_presolve = False
        status = solver.solve(question.model.model)
        if question.least is None or status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            assert question.value is None or question.least is None, seed
            continue
        assert question.shown(solver.best_objective_bound) <= question.least, seed
        if question.value is not None:
            assert question.value(solver) >= question.least, seed


@every_formulation
def test_the_hint_is_complete_and_feasible(ask, count):
    """Every variable has a value, and the solver says that all constraints hold."""
    hinted = 0
    for seed in seeds(max(6, count // 4)):
        question = ask(seed)
        if question.hint is None:
            continue
        question.hint()
        proto = question.model.model.proto
        hint = proto.solution_hint
        assert sorted(hint.vars) == list(range(len(proto.variables))), seed
        solver, lines = new_solver(), list[str]()
        solver.parameters.cp_model_presolve = False
        solver.parameters.stop_after_first_solution = True
        solver.parameters.log_search_progress = True
        solver.parameters.log_to_stdout = False
        solver.log_callback = lines.append
        assert solver.solve(question.model.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE), seed
        if hint.vars:
            hinted += 1
            log = "\n".join(lines)
            assert "is complete and is feasible" in log or "complete_hint" in log, seed
    assert hinted or ask is ask_retained_at_cuts
