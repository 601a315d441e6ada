"""The rows at cuts: every schedule satisfies them, and their optimum is what it should be."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.cases import seeds
from support.remat_oracle import (
    every_schedule,
    first_order,
    least_cost,
    random_remat_problem,
    remat_chain,
)

from cpplan import Graph, Op, Tensor, solve
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.problem import remat_problem
from formulations.integer_rows import ONE, ZERO, IntegerRows, terms
from formulations.retained_at_cuts import CutModel, Rounding, build, precedence


def some_cuts(problem: RematProblem, before: np.ndarray, rng: random.Random) -> tuple[int, ...]:
    """Units of a path, chosen at random."""
    cuts: list[int] = []
    for unit in rng.sample(range(len(problem)), len(problem)):
        if all(before[unit, other] or before[other, unit] for other in cuts):
            cuts.append(unit)
    cuts = [unit for unit in cuts if rng.random() < 0.8] or cuts[:1]
    return tuple(sorted(cuts, key=lambda unit: int(before[:, unit].sum())))


def some_roundings(model: CutModel, rng: random.Random) -> list[Rounding]:
    """Rounded rows at cuts, chosen at random."""
    rounded = []
    for j, unit in enumerate(model.cuts, 1):
        storages = np.flatnonzero(model.live[j] >= 0).tolist()
        absent = rng.sample(storages, rng.randint(0, len(storages)))
        rounded.append(Rounding(unit, rng.randint(1, 9), tuple(absent)))
    return rounded


def longer(problem: RematProblem, rng: random.Random) -> list[int]:
    """A schedule at random that repeats what it may."""
    schedule: list[int] = []
    while not problem.is_schedule(schedule):
        done = set(schedule)
        schedule.append(
            rng.choice(
                [
                    unit
                    for unit, waits_for in enumerate(problem.ordering.predecessors)
                    if done.issuperset(waits_for)
                    and (unit not in done or (problem.repeatable[unit] and rng.random() < 0.4))
                ]
                or [unit for unit in first_order(problem) if unit not in done][:1]
            )
        )
    return schedule


def facts(model: CutModel, schedule: list[int]) -> dict[int, int]:
    """Values of the columns r, d and k in a schedule, by their definitions."""
    problem, last = model.problem, len(model.cuts)
    moments = [schedule.index(unit) for unit in model.cuts]
    interval = [sum(p > moment for moment in moments) for p in range(len(schedule))]
    ran = [
        {i for i, v in zip(interval, schedule, strict=True) if v == u} for u in range(len(problem))
    ]
    values: dict[int, int] = {ZERO: 0, ONE: 1}

    def put(column: int, value: bool) -> None:
        assert values.setdefault(int(column), int(value)) == value

    for v, when in enumerate(ran):
        for j in range(last + 1):
            put(model.done[j + 1, v], min(when) <= j)
        for place, (i, j) in enumerate(zip(model.begins, model.ends, strict=True)):
            put(model.ran[place, v], any(i <= each <= j for each in when))
    retentions = problem.retentions(schedule)
    for j, moment in enumerate(moments, 1):
        live = {s for s, first, until in retentions if first <= moment < until}
        for s in range(len(problem.ordering.size)):
            if model.live[j, s] == ZERO and s in live:
                # Of some nothing is said; of the others, ZERO says that they are not there yet.
                assert problem.ordering.present[s]
            else:
                put(model.live[j, s], s in live)
    return values


def stranger(problem: RematProblem, rng: random.Random) -> RematProblem:
    """The problem with a base, entry bytes, results written in place, parts, and what is present.

    A second unit begins some storage too; another is there before its writer runs.
    """
    ordering, units = problem.ordering, range(len(problem))
    before = precedence(problem)
    writes, accessed = list(problem.writes), list(ordering.accessed_by)
    repeatable, present = problem.repeatable.copy(), ordering.present.copy()
    for storage in range(len(ordering.size)):
        by = [v for v in units if storage in writes[v]]
        others = [
            v for v in units if by and before[by[0], v] and storage not in ordering.accesses[v]
        ]
        if others and rng.random() < 0.2:
            other = rng.choice(others)
            writes[other] = tuple(sorted((*writes[other], storage)))
            accessed[storage] = tuple(sorted((*accessed[storage], other)))
            repeatable[[by[0], other]] = False
        elif rng.random() < 0.1:
            present[storage] = True
    return replace(
        problem,
        writes=tuple(writes),
        repeatable=repeatable,
        ordering=replace(
            ordering,
            accessed_by=tuple(accessed),
            present=present,
            entry=rng.choice((0, 0, 5)),
            base=rng.choice((0, 3)),
        ),
        overwrites=tuple(
            tuple(storage for storage in read if rng.random() < 0.3) for read in problem.reads
        ),
    )


@pytest.mark.parametrize("seed", seeds(60))
def test_every_schedule_satisfies_the_rows(seed):
    """With its own peak as the limit; what is not fixed by it (g, G) has some value that fits."""
    rng = random.Random(seed)
    problem = random_remat_problem(seed, rng.choice((4, 5, 6)))
    if seed % 2:
        problem = stranger(problem, rng)
    for _ in range(3):
        schedule = longer(problem, rng)
        order = tuple(dict.fromkeys(schedule)) if rng.random() < 0.3 else None
        before = precedence(problem, order)
        cuts = some_cuts(problem, before, rng)
        limit = problem.peak(schedule)
        rounded = some_roundings(build(problem, memory_limit=limit, cuts=cuts, before=before), rng)
        model = build(problem, memory_limit=limit, cuts=cuts, before=before, rounded=rounded)
        assert not model.rows.impossible
        program = model.model
        for column, value in facts(model, schedule).items():
            if column >= 0:
                program.add(program.get_int_var_from_proto_index(column) == value)
        program.clear_objective()
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        assert solver.solve(program) == cp_model.OPTIMAL


@pytest.mark.parametrize("seed", seeds(15))
def test_no_short_schedule_costs_less_than_the_bound(seed):
    """All schedules of up to two repetitions, each with the bound at its own peak."""
    problem = random_remat_problem(seed, 4)
    before = precedence(problem)
    cuts = some_cuts(problem, before, random.Random(seed))
    cheapest: dict[int, float] = {}
    for schedule in every_schedule(problem, len(problem) + 2):
        peak, cost = problem.peak(schedule), problem.total_cost(schedule)
        cheapest[peak] = min(cost, cheapest.get(peak, cost))
    for peak, cost in cheapest.items():
        model = build(problem, memory_limit=peak, cuts=cuts, before=before)
        relaxed = model.rows.relaxed(60.0)
        assert not relaxed.infeasible
        assert relaxed.bound is not None
        assert model.cost_of(relaxed.bound) <= cost


def knapsack() -> RematProblem:
    """Values of 2, 3 and 4 bytes meet in y: 9 bytes; while z is made, 5 of them must do.

    To make them again costs 10, 1 and 12. Four bytes go: 4 for 12, or 2 and 3 for 11; in fractions,
    3 and a quarter of 4 for 4.
    """
    tensors = tuple(Tensor(f"v{k}", k + 2) for k in range(3))
    tensors += Tensor("s", 6, kind="workspace"), Tensor("z", 1), Tensor("y", 1, kind="output")
    values = tuple(f"v{k}" for k in range(3))
    ops = tuple(Op(f"f{k}", outputs=(f"v{k}",), cost=cost) for k, cost in enumerate((10, 1, 12)))
    ops += (
        Op("g", outputs=("z",), workspaces=("s",), after=tuple(op.name for op in ops)),
        Op("h", inputs=(*values, "z"), outputs=("y",)),
    )
    return remat_problem(Graph("knapsack", tensors, ops))


def test_one_cut_is_a_knapsack():
    problem = knapsack()
    model = build(problem, memory_limit=12, cuts=(3,), before=precedence(problem))
    solver = cp_model.CpSolver()
    assert solver.solve(model.model) == cp_model.OPTIMAL
    assert model.cost_of(model.in_bytes(solver.objective_value)) == 25 + 11
    assert model.cost_of(model.rows.relaxed(60.0).bound) == 25 + 4
    assert least_cost(problem, 12) == 25 + 11


def test_rounded_rows_raise_the_bound():
    """With one rounded row of the knapsack above, the relaxation proves what it costs, 11."""
    problem, facts = knapsack(), {"memory_limit": 12, "cuts": (3,)}
    before = precedence(problem)
    model, bounds = build(problem, **facts, before=before), []
    for _ in range(3):
        relaxed = model.rows.relaxed(60.0)
        bounds.append(model.cost_of(relaxed.bound) - 25)
        rounded = model.roundings(relaxed)[3]
        model = build(problem, **facts, before=before, rounded=rounded)
    assert bounds == [4, 11, 11]


def test_what_must_stay_leaves_no_room_for_larger_values():
    """v0 may not be made again and leaves 3 bytes for v1, of 2, and v2, of 4.

    So v2 is made again, for 12; in fractions three quarters of it would stay.
    """
    tensors = Tensor("v0", 3), Tensor("v1", 2), Tensor("v2", 4)
    tensors += Tensor("s", 5, kind="workspace"), Tensor("z", 1), Tensor("y", 1, kind="output")
    ops = tuple(
        Op(f"f{k}", outputs=(f"v{k}",), cost=cost, recomputable=k > 0)
        for k, cost in enumerate((5, 100, 12))
    )
    ops += (
        Op("g", outputs=("z",), workspaces=("s",), after=tuple(op.name for op in ops)),
        Op("h", inputs=("v0", "v1", "v2", "z"), outputs=("y",)),
    )
    problem = remat_problem(Graph("no room", tensors, ops))
    model = build(problem, memory_limit=12, cuts=(3,), before=precedence(problem))
    assert model.cost_of(model.rows.relaxed(60.0).bound) == 119 + 12
    assert least_cost(problem, 12) == 119 + 12


def test_a_chain_in_its_order_with_all_cuts():
    """n = 2 in 3 slots costs 6: every unit a cut, f0 runs twice."""
    problem = remat_problem(remat_chain(2))
    order = tuple(range(5))
    model = build(problem, memory_limit=3, cuts=order, before=precedence(problem, order))
    assert model.cost_of(model.rows.relaxed(60.0).bound) == 6


@pytest.mark.parametrize(
    ("nodes", "limit", "bound", "least"), [(6, 4, 18, 18), (9, 4, 29, 30), (12, 4, 42, 45)]
)
def test_more_cuts_of_a_chain_prove_more(nodes: int, limit: int, bound: int, least: int):
    """Each interval alone would prove 17, 26 and 35: half a run in each of two makes one."""
    problem = remat_problem(remat_chain(nodes))
    before = precedence(problem)
    found = []
    for cuts in (range(nodes + 1, 2 * nodes + 1, 4), range(2 * nodes + 1)):
        model = build(problem, memory_limit=limit, cuts=tuple(cuts), before=before)
        found.append(model.cost_of(model.rows.relaxed(60.0).bound))
    assert found[0] < found[1] == bound <= least
    chain = solve(remat_chain(nodes), remat=True, memory_limit=limit, time_limit=5)
    assert (chain.status, chain.cost) == ("optimal", least)


def test_a_given_order_says_more():
    """Two branches of 8 and 1 bytes that end in 1 each: one after the other 9 bytes are enough.

    In the order a0 b0 a1 b1, with 9 bytes, a0's 8 and b0's 8 do not fit: a0 runs again.
    """
    tensors = tuple(Tensor(name, size) for name, size in (("a", 8), ("b", 8)))
    tensors += tuple(Tensor(name, 1, kind="output") for name in ("x", "y"))
    ops = Op("a0", outputs=("a",)), Op("b0", outputs=("b",))
    ops += Op("a1", inputs=("a",), outputs=("x",)), Op("b1", inputs=("b",), outputs=("y",))
    problem = remat_problem(Graph("branches", tensors, ops))
    bounds = []
    for order in (None, (0, 1, 2, 3)):
        before = precedence(problem, order)
        model = build(problem, memory_limit=10, cuts=(1,), before=before)
        bounds.append(model.cost_of(model.rows.relaxed(60.0).bound))
    assert bounds == [4, 5]


def test_duals_that_are_wrong_prove_no_falsehood():
    """Whatever the duals, the certified value is at most the optimum, here 3."""
    rows = IntegerRows()
    rows.add(1, 2, [terms(rows.variables([3, 5, 4]), [2, 3, 1], row=0)])
    rng = random.Random(7)
    values = [rows._certified(np.array([rng.uniform(-1, 10)]), rows.cost) for _ in range(200)]
    assert max(values) == 3
    assert rows._certified(np.array([float("nan")]), rows.cost) == 0
    assert rows._certified(np.array([float("inf")]), rows.cost) == 0
