"""The contract of every named heuristic, in each room that has some.

Packing heuristics, orders and rematerialization baselines are picked up by their names. An answer
is valid, never better than the best by exhaustion, the same each time, and not late.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from support.cases import seeds
from support.oracles import brute_force_peak, random_problem
from support.random_orders import brute_force_order_peak, random_order_problem
from support.remat_oracle import least_cost, random_remat_problem

from cpplan.model.errors import InputError
from cpplan.ordering import heuristics as orders
from cpplan.packing import heuristics as packing
from cpplan.remat import heuristics as remat
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.verifier import check_offsets


@dataclass(frozen=True)
class Room:
    """Heuristics by name, small instances each with its best value, and a check of an answer.

    ``value`` raises if the answer is not valid and returns its value, ``None`` if there is none.
    """

    registry: Any
    names: tuple[str, ...]
    cases: Callable[[], Iterable[tuple[Any, float | None]]]
    run: Callable[[str, Any, Deadline], Any]
    value: Callable[[str, Any, Any], float | None]


@cache
def packing_cases() -> list[tuple[Any, int]]:
    """Gaps, windows, alignments and fixed offsets, up to seven buffers."""
    problems = [random_problem(random.Random(f"heuristics {k}"), k % 8) for k in seeds(80)]
    return [(problem, brute_force_peak(problem)) for problem in problems]


def packing_value(name: str, problem: Any, offsets: Any) -> int:
    """The peak of valid offsets."""
    check_offsets(problem, offsets, name)
    return int((offsets + problem.size).max(initial=0))


@cache
def order_cases() -> list[tuple[Any, int]]:
    """Control edges, storages present or kept, ops' own bytes, up to seven ops."""
    problems = [random_order_problem(random.Random(f"orders {k}"), k % 8) for k in seeds(64)]
    return [(problem, brute_force_order_peak(problem)) for problem in problems]


def order_value(name: str, problem: Any, order: Any) -> int:
    """The peak of an order."""
    assert problem.is_order(order.tolist())
    return problem.peak(order.tolist())


@cache
def remat_cases() -> list[tuple[Any, float | None]]:
    """Limits from the given order's peak down to half of it."""
    cases = []
    for seed in seeds(12):
        problem = random_remat_problem(seed, 5)
        peak = problem.peak(remat.given_order(problem, 0, Deadline(60)))
        cases += [(problem, limit) for limit in (peak, peak - 1, 3 * peak // 4, peak // 2)]
    return [((problem, limit), least_cost(problem, limit)) for problem, limit in cases]


def remat_value(name: str, case: Any, schedule: Any) -> float | None:
    """The cost of a schedule within the limit; two baselines look at none."""
    problem, limit = case
    if schedule is None:
        return None
    assert problem.is_schedule(schedule)
    if problem.peak(schedule) > limit:
        assert name in ("given_order", "chen_sqrt_n")
        return None
    return problem.total_cost(schedule)


ROOMS = {
    "packing": Room(
        packing,
        packing.names(as_published=False),
        packing_cases,
        lambda name, problem, deadline: packing.get(name)(problem, deadline),
        packing_value,
    ),
    "ordering": Room(
        orders,
        orders.names(),
        order_cases,
        lambda name, problem, deadline: orders.get(name)(problem, deadline),
        order_value,
    ),
    "remat": Room(
        remat,
        remat.names(),
        remat_cases,
        lambda name, case, deadline: remat.get(name)(*case, deadline),
        remat_value,
    ),
}
every_room = pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
every_heuristic = pytest.mark.parametrize(
    ("room", "name"),
    [
        pytest.param(room, name, id=f"{key}-{name}")
        for key, room in ROOMS.items()
        for name in room.names
    ],
)


@every_heuristic
def test_answers_are_valid_and_never_better_than_the_best(room, name):
    found = 0
    for case, best in room.cases():
        value = room.value(name, case, room.run(name, case, Deadline(math.inf)))
        if value is not None:
            found += 1
            assert best is not None
            assert value >= best
    assert found > 10


@every_heuristic
def test_the_same_case_has_the_same_answer(room, name):
    for case, _ in list(room.cases())[-8:]:
        one, other = (room.run(name, case, Deadline(math.inf)) for _ in range(2))
        assert one is other is None or list(one) == list(other)


@every_heuristic
def test_a_spent_deadline_ends_it_or_leaves_a_valid_answer(room, name):
    deadline = Deadline(10)
    deadline.cancel()
    case, _ = list(room.cases())[-1]
    try:
        answer = room.run(name, case, deadline)
    except TimeUpError:
        return
    room.value(name, case, answer)


@every_room
def test_an_unknown_name_is_refused_with_those_that_are_known(room):
    with pytest.raises(
        InputError, match=f"'magic' is not understood: expected one of.*{room.names[-1]}"
    ):
        room.registry.get("magic")


@every_room
def test_a_name_is_taken_once(room):
    name = room.names[0]
    with pytest.raises(InputError, match=f"'{name}' is already registered"):
        room.registry.register(name)(room.registry.get(name))
