"""``verify`` rejects every plan that was right before one thing in it was changed.

What it accepts of a changed plan is harmless, for a reason in ``HARMLESS``, the table in
``support.plan_mutations``.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.cases import seeds
from support.oracles import (
    brute_force_peak,
    clashes,
    held,
    plan_for,
    random_problem,
    random_program,
)
from support.plan_kinds import KINDS, UNFITTING, planned
from support.plan_mutations import HARMLESS, mutations, reasons, unexplained

import cpplan
from cpplan import Plan, Problem, verify
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.errors import CpplanError, VerificationError
from cpplan.model.shapes import Range, parse_dim

Change = Callable[[random.Random, Problem, Plan], Plan | None]


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


def _shifted(by: Callable[[int, int], int]) -> Change:
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


def _rows(choose: Callable[[list[int], int], list[int]]) -> Change:
    def mutate(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
        rows = choose(list(range(len(problem))), rng.randrange(len(problem)))
        columns = {c: getattr(plan, c)[rows] for c in ("size", "lower", "upper", "offset")}
        return replace(plan, buffers=tuple(plan.buffers[k] for k in rows), **columns)

    return mutate


def _claim(**values: Callable[[Plan], object]) -> Change:
    return lambda rng, problem, plan: replace(plan, **{k: f(plan) for k, f in values.items()})


def _falsely_optimal(rng: random.Random, problem: Problem, plan: Plan) -> Plan | None:
    if brute_force_peak(problem) == plan.peak:
        return None
    return replace(plan, status="optimal", lower_bound=plan.peak)


MUTATIONS: dict[str, Change] = {
    "moved into a live neighbour": _moved_into_neighbour,
    "misaligned": _shifted(lambda offset, unit: offset + 1 if unit > 1 else offset),
    "negative": _shifted(lambda offset, unit: -unit),
    "fixed offset moved": _fixed_moved,
    "dropped": _rows(lambda rows, k: rows[:k] + rows[k + 1 :]),
    "duplicated": _rows(lambda rows, k: [*rows, k]),
    "one row for another": _rows(lambda rows, k: [*rows[1:], rows[1]] if len(rows) > 1 else []),
    "capacity exceeded": _claim(capacity=lambda plan: plan.peak - 1),
    "bound raised to the peak": _falsely_optimal,
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_plan_is_refused_or_harmless(kind: str) -> None:
    source, plan = planned(kind)
    verify(source, plan)
    assert unexplained(source, plan, few=40) == []


@pytest.mark.slow
def test_every_changed_plan_is_refused_or_harmless() -> None:
    used = set()
    for kind in KINDS:
        source, plan = planned(kind)
        for mutation in mutations(plan):
            found = reasons(source, plan, mutation)
            assert found != [], f"{kind}: {mutation.label}"
            used |= {row.why for row in found or ()}
    assert used == {row.why for row in HARMLESS}


def test_changed_plans_of_random_problems_are_refused_or_harmless() -> None:
    rng = random.Random(4)
    for _ in seeds(15):
        problem = random_problem(rng, rng.randint(1, 7))
        assert unexplained(problem, plan_for(problem), few=30) == []


@pytest.mark.parametrize("kind", UNFITTING)
def test_no_change_makes_an_unfitting_plan_verify(kind: str) -> None:
    source, plan = UNFITTING[kind]()
    assert plan.status == "infeasible"
    for mutation in mutations(plan):
        with pytest.raises(CpplanError):
            verify(source, plan_from_dict(mutation.values))


@pytest.mark.parametrize("field", ["inputs", "outputs", "sharing", "relations"])
def test_an_entry_listed_twice_is_refused(field: str) -> None:
    source, plan = planned("in place")
    entries = getattr(plan, field) or ("y",)
    with pytest.raises(VerificationError, match=f"the plan's {field} have .* twice"):
        verify(source, replace(plan, **{field: (*entries, entries[0])}))


def test_a_plan_of_a_bare_problem_has_no_inputs_or_outputs() -> None:
    source, plan = planned("problem")
    for field in ("inputs", "outputs"):
        with pytest.raises(VerificationError, match=r"a bare problem has no order, .* inputs or"):
            verify(source, replace(plan, **{field: ("a",)}))


def test_the_bytes_moved_follow_from_the_moves_if_a_file_does_not_say_them() -> None:
    _, plan = planned("moves")
    values = plan_to_dict(plan)
    assert values.pop("moved_bytes") == plan.moved_bytes == 16
    assert plan_from_dict(values) == plan


@pytest.mark.parametrize("kind", ["given order", "moves", "least time", "pools by preference"])
def test_a_bound_of_the_given_order_is_not_one_of_every_order(kind: str) -> None:
    source, plan = planned(kind)
    assert plan.scope == "given order"
    for scope in ("every order", "every splitting"):
        with pytest.raises(VerificationError):
            verify(source, replace(plan, scope=scope))


def symbols_of(kind: str, **changes: object) -> Plan:
    plan = planned(kind)[1]
    return replace(plan, symbols=replace(plan.symbols, **changes))


def test_a_plan_of_symbolic_sizes_says_what_the_model_says() -> None:
    n, size = parse_dim("n"), planned("variables, placed")[1].symbols.tensors
    wrong = {
        "the plan is for 'n' in 2..9, but the model for 2..8": {"dims": {"n": Range(2, 9)}},
        "variable 'm' is one of": {"dims": {"n": Range(2, 8), "m": Range(1, 2)}},
        r"'b' of symbolic size at byte 4\*n of 'y', 3\*n B": {
            "tensors": {**size, "b": size["b"]._replace(nbytes=3 * n)}
        },
        "'b' of symbolic size at byte 32 of 'y'": {
            "tensors": {**size, "b": size["b"]._replace(within=32)}
        },
        "tensors of lost sizes": {"lost": {"a": "no reason"}},
    }
    for message, changes in wrong.items():
        with pytest.raises(VerificationError, match=message):
            verify(planned("variables, placed")[0], symbols_of("variables, placed", **changes))


def test_tensors_of_any_size_share_a_storage_only_one_after_another() -> None:
    source, plan = planned("variables without bounds")
    assert [free.storage for free in plan.symbols.unbounded.values()] == [0, 1]
    free = {name: free._replace(storage=0) for name, free in plan.symbols.unbounded.items()}
    with pytest.raises(VerificationError, match="'a' and 'b' share a storage, but differ in size"):
        verify(source, symbols_of("variables without bounds", unbounded=free))
    with pytest.raises(VerificationError, match="'a' may have any size, of which the plan says"):
        verify(source, replace(plan, symbols=None))
