"""One cell: a model planned with some options, and all that must hold of the answer.

Beside the cell's own plan, those with each freedom less and with the other limit are made. Every
plan is a point (bytes and cost, levels of several pools, or bytes moved) that some freedoms allow,
and every answer claims that no plan of its freedoms is better than its bounds: each claim is held
against each point that lies within it.
"""

from __future__ import annotations

import json
import math
import shutil
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.pairs.models import Model, make_model
from support.pairs.options import OPTIONS, Cell, exists, fields_of, refused_by
from support.pairs.uses import USES

from cpplan import Plan, Problem, simulate, solve, verify
from cpplan.io.plan_json import plan_from_dict, plan_text
from cpplan.model.errors import DefectWarning
from cpplan.model.residency import Residency
from cpplan.packing.problem import as_problem, as_program

# Units of work, about seconds, of each plan: by default, and in the slow run. What a search claims
# after more work is other than what it claims at once.
TIME_LIMIT, SLOW_TIME_LIMIT = 0.2, 1.0
# Freedoms, and the values that are none.
FREEDOMS = {
    "order": "given", "in_place": False, "placement": False, "remat": False, "split": False,
}  # fmt: skip
# What must be the same for two answers to be about the same plans.
_SAME = ("pools", "objective", "inputs", "outputs", "constants", "ends", "algorithm")


@dataclass(frozen=True)
class Answer:
    """A cell and its plan."""

    cell: Cell
    plan: Plan

    @property
    def freedoms(self) -> set[str]:
        found = {name for name, off in FREEDOMS.items() if self.cell[name] not in (off, None)}
        if self.cell["placement"] is None and self.cell["in_place"]:
            found.add("placement")
        return found

    @property
    def goal(self) -> str:
        """The name of what is minimised."""
        cell, plan = self.cell, self.plan
        if cell["spill"]:
            return "time" if cell["objective"] == "time" else "moved"
        if plan.cost_bound is not None:
            return "cost"
        return "levels" if plan.objective_value or len(plan.pools) > 1 else "peak"

    def value(self, goal: str) -> Any:
        """The value of a goal that the plan has, if it has a plan and the goal is its own."""
        plan = self.plan
        if plan.offset is None:
            return None
        if goal in ("moved", "time") and not plan.spills:
            return plan.cost if goal == "time" else 0
        return {
            "time": plan.time, "moved": plan.moved_bytes, "cost": plan.cost, "peak": plan.peak,
            "levels": plan.objective_value,
        }[goal]  # fmt: skip

    @property
    def bound(self) -> Any:
        plan = self.plan
        found = {
            "time": plan.time_bound, "moved": plan.moved_bytes_bound, "cost": plan.cost_bound,
            "peak": plan.lower_bound, "levels": plan.objective_bound,
        }[self.goal]  # fmt: skip
        return None if found == () else found

    def limit_of_bytes(self) -> float:
        return math.inf if self.plan.capacity is None else self.plan.capacity

    def holds(self, other: Answer) -> bool:
        """True if the other's plan is one of those that this answer is about."""
        cell, plan = other.cell, other.plan
        alike = without_moves(self.cell) if self.cell["spill"] > cell["spill"] else self.cell
        if plan.offset is None or alike is None or not other.freedoms <= self.freedoms:
            return False
        if any(cell[name] != alike[name] for name in _SAME):
            return False
        if plan.peak is not None and plan.peak > self.limit_of_bytes():
            return False
        most = self.cell["cost_limit"]
        if plan.cost is None or plan.base_cost is None or not (other.freedoms & {"remat", "split"}):
            return True
        return (most is not None and plan.cost <= most * plan.base_cost) or (
            most is None and self.goal == "cost"
        )

    def may_be_worse_than(self, other: Answer) -> bool:
        """True if the other's plan may be better than this one, though it is one of its own.

        The limits differ, so that another value was minimised or less was asked for; or one
        heuristic alone packs.
        """
        cell, less = self.cell, other.cell
        if cell["capacity"] is not None or cell["piece_bytes"] or cell["algorithm"] is not None:
            return True
        if cell["memory_limit"] != less["memory_limit"]:
            return True
        reruns = other.freedoms & {"remat", "split"}
        return bool(reruns) and cell["cost_limit"] != less["cost_limit"]


def without_moves(cell: Cell) -> Cell | None:
    """The cell in the fast pool alone, where nothing moves; ``None`` if constants would."""
    if cell["constants"] == "keep":
        return None
    less = {"spill": False, "remat": False, "objective": "preference"}
    return {**cell, **less, "pools": f"fast of {cell['pools']}"}


class Run:
    """The cells of one model; ``finds`` has what is false, each as a line."""

    def __init__(self, model: Model, folder: Path, *, time_limit: float = TIME_LIMIT):
        self.model, self.folder, self.time_limit = model, folder, time_limit
        source = as_program(model.source)
        self.names = () if isinstance(source, Problem) else _ends(source)
        problem = as_problem(source, Residency(), None)
        self.room = int(problem.live_bytes().max(initial=0))
        self.answers: list[Answer] = []
        self.finds: list[str] = []

    def options(self, cell: Cell) -> dict[str, Any]:
        """Keywords of ``solve`` for a cell."""
        return {**fields_of(cell, self.room, self.names), "time_limit": self.time_limit}

    def check(self, cell: Cell) -> list[str]:
        """Everything false about a cell, and about those with each freedom less."""
        answer = self.answer(cell)
        if cell["deterministic"]:
            again = solve(self.model.source, **self.options(cell))
            if "".join(plan_text(again)) != "".join(plan_text(answer.plan)):
                self.finds.append("the same seed gave another plan")
            for other in self.others(cell):
                self.answer(other)
            self.finds += contradictions(self.answers)
        USES[cell["use"]](self, answer)
        return self.finds

    def answer(self, cell: Cell) -> Answer:
        """The plan of a cell, checked by both checkers, also after it was written and read."""
        plan = solve(self.model.source, **self.options(cell))
        self.finds += false_history(plan, weighed=bool(cell["piece_bytes"]))
        if plan.offset is not None:
            verify(self.model.source, plan)
            simulate(self.model.source, plan)
            read = plan_from_dict(json.loads("".join(plan_text(plan))))
            assert read == plan
            verify(self.model.source, read)
        self.answers.append(Answer(cell, plan))
        return self.answers[-1]

    def others(self, cell: Cell) -> Iterator[Cell]:
        """Cells with one freedom less, without the limit on bytes, or with the other limit."""
        plan = self.answers[-1].plan
        made: list[Cell] = []
        for name, off in FREEDOMS.items():
            less = {**cell, name: off}
            if name == "in_place" and cell["placement"] is None:
                less["placement"] = cell["in_place"] or None
            if not (less["remat"] or less["split"]):
                less["cost_limit"] = None
                less["piece_bytes"] = 0
            made.append(less)
        made.append({**cell, "memory_limit": None, "capacity": None})
        if cell["spill"] and (alone := without_moves(cell)) is not None:
            made.append(alone)
        if plan.offset is not None and plan.cost and plan.peak and len(plan.pools) == 1:
            if cell["cost_limit"] is not None:
                made.append({**cell, "cost_limit": None, "memory_limit": plan.peak})
            elif plan.cost_bound is not None and plan.base_cost:
                ratio = plan.cost / plan.base_cost
                made.append({**cell, "memory_limit": None, "cost_limit": ratio})
        for other in made:
            if other != cell and exists(other) and refused_by(other) is None:
                yield other


def false_cell(
    cell: Cell, number: int, folder: Path, *, time_limit: float = TIME_LIMIT
) -> list[str]:
    """Everything false about a cell on the model with a number; any error at all is a find."""
    folder = folder / str(number)
    folder.mkdir()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what other packages warn of
            warnings.simplefilter("error", DefectWarning)
            if cell["source"] == "executorch":
                from support.pairs.lowered import false_program

                return false_program(cell, number)
            model = make_model(cell["source"], cell["sizes"], number, folder)
            return Run(model, folder, time_limit=time_limit).check(cell)
    except Exception:
        return [traceback.format_exc()]
    finally:
        shutil.rmtree(folder)


def false_history(plan: Plan, *, weighed: bool) -> Iterator[str]:
    """Events out of their turn, bounds that the plan does not keep, and peaks below its bound."""
    seconds = [0.0, *(event.seconds for event in plan.history), plan.runtime or math.inf]
    if seconds != sorted(seconds):
        yield f"the history goes back in time: {seconds}"
    for event in plan.history:
        if (event.lower_bound or 0) > (math.inf if plan.lower_bound is None else plan.lower_bound):
            yield f"an event has a bound of {event.lower_bound}, the plan {plan.lower_bound}"
        if event.peak is not None and not weighed and event.peak < (plan.lower_bound or 0):
            yield f"an event has a peak of {event.peak}, below the bound {plan.lower_bound}"


def contradictions(answers: list[Answer]) -> Iterator[str]:
    """Claims of one answer that the plan of another refutes; and plans worse than with less."""
    for claim in answers:
        for point in answers:
            if point is claim or not claim.holds(point):
                continue
            which = f"{_name(claim, point)}: {claim.plan.status}"
            if claim.plan.status == "infeasible":
                yield f"infeasible, but there is a plan: {which}"
            value, bound = point.value(claim.goal), claim.bound
            if bound is not None and value is not None and bound > value:
                yield f"bound of the {claim.goal} {bound} above {value}: {which}"
            own = claim.value(claim.goal)
            if value is None or claim.may_be_worse_than(point):
                continue
            if own is None or own > value:
                yield f"{claim.goal} {own} worse than {value}: {which}"


def _name(claim: Answer, point: Answer) -> str:
    """The options that differ, with the values of both cells."""
    differ = {
        name: (claim.cell[name], point.cell[name])
        for name in OPTIONS
        if claim.cell[name] != point.cell[name]
    }
    return ", ".join(f"{name} {one!r} against {other!r}" for name, (one, other) in differ.items())


def _ends(program: Any) -> tuple[str, ...]:
    """An op that waits for nothing, and one that nothing waits for."""
    waited = {k for before in program.graph.predecessors for k in before}
    ops, before = program.graph.ops, program.graph.predecessors
    first = [op.name for k, op in enumerate(ops) if not before[k]]
    last = [op.name for k, op in enumerate(ops) if k not in waited]
    return (*first[:1], *last[-1:])
