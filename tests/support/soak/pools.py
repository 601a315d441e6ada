"""Several pools: every assignment of buffers to pools, every pool packed by trying all offsets."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import lcm

from cpplan import Problem, simulate, solve, verify

from .boxes import Box, apart, boxes_of, least_height
from .case import Case, python_of
from .made import random_pools, random_problem
from .packing import arguments

Value = tuple[Fraction, ...]


def pools(rng: random.Random) -> Case:
    """A problem of several pools, by one of the objectives."""
    base, regions = random_problem(rng, 4, fixed=False), random_pools(rng)
    candidates = {
        row: tuple(rng.sample(range(len(regions)), rng.randint(1, len(regions))))
        for row in range(len(base))
        if rng.random() < 0.5
    }
    counts = {k: [rng.randint(0, 3) for _ in range(len(base))] for k in ("reads", "writes")}
    problem = replace(base, pools=regions, candidates=candidates, **counts)
    objective = rng.choice(["total", "preference", "cost"])
    options = {"objective": objective, "deterministic": True, "time_limit": 3.0}
    lines = f"problem = {python_of(problem)}", f"plan = solve(problem, {arguments(options)})"

    def false() -> list[str]:
        plan = solve(problem, **options)
        best = least_value(problem, objective)
        if plan.offset is None:
            if plan.status == "infeasible" and best is not None:
                return [f"assert plan.status != 'infeasible'  # {_shown(best)} can be had"]
            return []
        verify(problem, plan)
        simulate(problem, plan)
        value = value_of(problem, objective, plan.pool.tolist(), plan.offset.tolist())
        wrong = []
        if value is None:
            wrong.append(f"assert plan.offset.tolist() != {plan.offset.tolist()}  # not apart")
        elif [float(v) for v in value] != [float(v) for v in plan.objective_value]:
            wrong.append(f"assert plan.objective_value == {_shown(value)}")
        if best is None:
            wrong.append("assert plan.offset is None  # nothing fits")
        elif plan.objective_bound and tuple(plan.objective_bound) > tuple(map(float, best)):
            wrong.append(f"assert plan.objective_bound <= {_shown(best)}")
        elif plan.status == "optimal" and value != best:
            wrong.append(f"assert plan.objective_value == {_shown(best)}  # called optimal")
        return wrong

    return Case(lines, false)


def least_value(problem: Problem, objective: str) -> Value | None:
    """The least value of all assignments that keep the capacities; ``None`` if none does."""
    known: dict[tuple[int, frozenset[int]], int | None] = {}
    best: Value | None = None
    every = range(len(problem.pools))
    for pool in product(*(problem.candidates.get(row, every) for row in range(len(problem)))):
        heights = []
        for number in every:
            rows = frozenset(row for row, other in enumerate(pool) if other == number)
            if (number, rows) not in known:
                boxes = _boxes_in(problem, number, rows)
                known[number, rows] = least_height(boxes, problem.pools[number].capacity)
            heights.append(known[number, rows])
        if None not in heights:
            value = _value(problem, objective, pool, [h or 0 for h in heights])
            best = value if best is None else min(best, value)
    return best


def value_of(problem: Problem, objective: str, pool: list[int], offset: list[int]) -> Value | None:
    """The value of a layout; ``None`` if it breaks a rule."""
    heights = []
    for number, region in enumerate(problem.pools):
        rows = frozenset(row for row, other in enumerate(pool) if other == number)
        boxes = _boxes_in(problem, number, rows)
        heights.append(
            max((offset[r] + b.size for r, b in zip(sorted(rows), boxes, strict=True)), default=0)
        )
        allowed = all(number in problem.candidates.get(r, range(len(problem.pools))) for r in rows)
        room = region.capacity is None or heights[-1] <= region.capacity
        if not allowed or not room or apart(boxes, [offset[r] for r in sorted(rows)]) is not None:
            return None
    return _value(problem, objective, tuple(pool), heights)


def _boxes_in(problem: Problem, number: int, rows: frozenset[int]) -> list[Box]:
    boxes = boxes_of(problem)
    unit = problem.pools[number].alignment
    return [boxes[r]._replace(alignment=lcm(boxes[r].alignment, unit)) for r in sorted(rows)]


def _value(problem: Problem, objective: str, pool: tuple[int, ...], heights: list[int]) -> Value:
    if objective == "total":
        return (Fraction(sum(heights)),)
    every = range(len(problem.pools))
    if objective == "preference":
        misplaced = sum(
            int(problem.size[row]) * list(problem.candidates.get(row, every)).index(number)
            for row, number in enumerate(pool)
        )
        return tuple(map(Fraction, (*heights[:0:-1], misplaced, heights[0])))
    cost = Fraction(0)
    for region, height in zip(problem.pools, heights, strict=True):
        cost += Fraction(str(region.cost_per_byte)) * height
    for row, number in enumerate(pool):
        region, size = problem.pools[number], int(problem.size[row])
        for count, latency, width in (
            (problem.reads[row], region.read_latency, region.read_bandwidth),
            (problem.writes[row], region.write_latency, region.write_bandwidth),
        ):
            each = Fraction(str(latency)) + (Fraction(size) / Fraction(str(width)) if width else 0)
            cost += int(count) * each
    return (cost,)


def _shown(value: Value) -> tuple[float, ...]:
    return tuple(float(v) for v in value)
