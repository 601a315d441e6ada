"""``verify`` rejects every plan that was right before one thing in it was changed."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.oracles import (
    brute_force_peak,
    clashes,
    held,
    plan_for,
    random_problem,
    random_program,
)

import cpplan
from cpplan import Plan, Problem, verify
from cpplan.model.errors import VerificationError
from cpplan.model.pool import Pool

Mutation = Callable[[random.Random, Problem, Plan], Plan | None]


def _moved_into_neighbour(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    pairs = [
        (i, j, low, high)
        for i, j in itertools.permutations(range(len(problem)), 2)
        for low, high in clashes(problem, i, j)
        if j not in problem.fixed
    ]
    rng.shuffle(pairs)
    for i, j, low, high in pairs:
        start = int(plan.offset[i])
        unit = int(problem.alignment[j])
        choices = [o for o in range(max(0, start + low + 1), start + high) if o % unit == 0]
        if choices:
            offset = plan.offset.copy()
            offset[j] = rng.choice(choices)
            peak = int(max(offset + problem.size))
            return replace(plan, offset=offset, peak=peak, lower_bound=None, status="feasible")
    return None


def _shifted(by: Callable[[int, int], int]) -> Mutation:
    """Move one buffer, from an offset of this alignment."""

    def mutate(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
        offset, row = plan.offset.copy(), rng.randrange(len(problem))
        offset[row] = by(int(offset[row]), int(problem.alignment[row]))
        if offset[row] == plan.offset[row]:
            return None
        peak = int(max(offset + problem.size))
        return replace(plan, offset=offset, peak=peak, lower_bound=None, status="feasible")

    return mutate


def _fixed_moved(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    if not problem.fixed:
        return None
    offset, row = plan.offset.copy(), rng.choice(sorted(problem.fixed))
    offset[row] += 1000 * problem.alignment[row]
    return replace(plan, offset=offset, peak=int(max(offset + problem.size)))


def _rows(choose: Callable[[list[int], int], list[int]]) -> Mutation:
    def mutate(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
        rows = choose(list(range(len(problem))), rng.randrange(len(problem)))
        columns = {c: getattr(plan, c)[rows] for c in ("size", "lower", "upper", "offset")}
        return replace(plan, buffers=tuple(plan.buffers[k] for k in rows), **columns)

    return mutate


def _column(name: str, by: int) -> Mutation:
    def mutate(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
        values = getattr(plan, name).copy()
        values[rng.randrange(len(values))] += by
        return replace(plan, **{name: values})

    return mutate


def _claim(**values: Callable[[Plan], object]) -> Mutation:
    return lambda rng, problem, plan: replace(plan, **{k: f(plan) for k, f in values.items()})


def _falsely_optimal(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    if brute_force_peak(problem) == plan.peak:
        return None
    return replace(plan, status="optimal", lower_bound=plan.peak)


def _claimed_only_feasible(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    return replace(plan, status="feasible") if plan.status == "optimal" else None


def _falsely_called_optimal(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    return replace(plan, status="optimal") if plan.status == "feasible" else None


MUTATIONS: dict[str, Mutation] = {
    "moved into a live neighbour": _moved_into_neighbour,
    "misaligned": _shifted(lambda offset, unit: offset + 1 if unit > 1 else offset),
    "negative": _shifted(lambda offset, unit: -unit),
    "fixed offset moved": _fixed_moved,
    "dropped": _rows(lambda rows, k: rows[:k] + rows[k + 1 :]),
    "duplicated": _rows(lambda rows, k: [*rows, k]),
    "one row for another": _rows(lambda rows, k: [*rows[1:], rows[1]] if len(rows) > 1 else []),
    "begins later": _column("lower", 1),
    "ends earlier": _column("upper", -1),
    "larger": _column("size", 1),
    "smaller": _column("size", -1),
    "peak too high": _claim(peak=lambda plan: plan.peak + 1),
    "peak too low": _claim(peak=lambda plan: plan.peak - 1),
    "bound above peak": _claim(lower_bound=lambda plan: plan.peak + 1),
    "capacity exceeded": _claim(capacity=lambda plan: plan.peak - 1),
    "bound raised to the peak": _falsely_optimal,
    "called optimal": _falsely_called_optimal,
    "called feasible": _claimed_only_feasible,
    "called unknown": _claim(status=lambda plan: "unknown"),
    "other pool": _claim(pools=lambda plan: (Pool("sram"),)),
    "an order": _claim(order=lambda plan: ("a",)),
}


def test_rejects_500_of_500_mutated_plans() -> None:
    rng, tried, kinds = random.Random(2), 0, itertools.cycle(MUTATIONS.items())
    while tried < 500:
        kind, mutate = next(kinds)
        mutated = None
        while mutated is None:
            problem = random_problem(rng, rng.randint(1, 7))
            plan = plan_for(problem)
            verify(problem, plan)
            mutated = mutate(rng, problem, plan)
        tried += 1
        with pytest.raises(VerificationError) as caught:
            verify(problem, mutated)
        if kind == "moved into a live neighbour":
            _check_overlap_is_real(problem, mutated, str(caught.value))


def _check_overlap_is_real(problem: Problem, plan: Plan, message: str) -> None:
    found = re.match(r"buffers '(\w+)' and '(\w+)' overlap at step (\d+):", message)
    assert found, message
    pieces = []
    for name in found.group(1, 2):
        row = problem.names.index(name)
        at = int(plan.offset[row])
        here = held(problem, row, int(found[3]))
        pieces.append({at + byte for piece in here for byte in range(*piece)})
    assert pieces[0] & pieces[1]


def test_rejects_every_order_that_changes_what_is_needed() -> None:
    rng, tried = random.Random(3), 0
    while tried < 100:
        program = random_program(rng)
        plan = plan_for(program)
        order = list(plan.order)
        one, other = rng.randrange(len(order)), rng.randrange(len(order))
        match rng.randrange(3):
            case 0:
                order[one], order[other] = order[other], order[one]
            case 1:
                del order[one]
            case _:
                order.insert(one, order[other])
        mutated = replace(plan, order=tuple(order))
        try:
            again = cpplan.to_anf(program.graph, order)
        except cpplan.errors.InputError:
            pass
        else:
            needs, had = (plan_for(p) for p in (again, program))
            rows = [
                sorted(zip(p.buffers, p.lower.tolist(), p.upper.tolist(), strict=True))
                for p in (needs, had)
            ]
            if rows[0] == rows[1] and again.cost == program.cost:
                continue
        tried += 1
        with pytest.raises(VerificationError):
            verify(program, mutated)
