"""Plans with one thing changed: ``verify`` and ``simulate`` must see what the definitions see."""

from __future__ import annotations

import random
from dataclasses import replace

from cpplan import Plan, Problem, simulate, solve, verify
from cpplan.model.errors import VerificationError

from .boxes import apart, boxes_of, least_height
from .case import Case, python_of
from .made import random_problem

# Searches: the checker takes their word, where they apply.
SEARCHES = (
    "CP-SAT", "CP-SAT order", "niche search", "downset search", "minimum cut",
    "Liu's algorithm", "least reach", "optimum of the chain", "forced live bytes",
    "live bytes at cuts", "cost at cuts",
)  # fmt: skip
# Bounds that are proved again, or mean nothing here, and names of nothing.
OTHERS = (
    "live bytes", "fixed offset", "largest buffer", "accesses", "least footprint",
    "live bytes, shared", "live bytes beyond the other pools", "CP-SATANIC", "niche searches",
    "niche search of nothing", "",
)  # fmt: skip


def mutated(rng: random.Random) -> Case:
    """A plan of a problem with an offset, a column or a claim changed."""
    problem = random_problem(rng, 6)
    while not len(problem):
        problem = random_problem(rng, 6)
    row, by = rng.randrange(len(problem)), rng.choice([-4, -2, -1, 1, 2, 4])
    column = rng.choice(["offset", "offset", "offset", "size", "lower", "upper"])
    claim = rng.choice(["peak", "lower_bound", "status", "bound_by", None, None, None])
    status = rng.choice(["optimal", "feasible", "infeasible", "unknown"])
    name = rng.choice([*OTHERS, *OTHERS, *SEARCHES])
    algorithm = rng.choice([None, "bump", "bump"]) if claim == "bound_by" else None
    lines = [
        f"problem = {python_of(problem)}",
        f"plan = solve(problem, algorithm={algorithm!r}, deterministic=True, time_limit=3)",
    ]
    if claim is None:
        lines.append(f"{column} = plan.{column}.copy()")
        lines.append(f"{column}[{row}] += {by}")
        change = f"{column}={column}"
        if column == "offset":
            lines.append("peak = int((offset + plan.size).max())")
            change += ", peak=peak, status='feasible', lower_bound=None, bound_by=None"
    elif claim == "status":
        change = f"status={status!r}"
    elif claim == "bound_by":
        change = f"lower_bound=plan.peak, bound_by={name!r}, status='optimal'"
    else:
        change = f"{claim}=plan.{claim} + {by}"
    lines.append(f"changed = replace(plan, {change})")

    def false() -> list[str]:
        known: dict[str, object] = {"Problem": Problem, "solve": solve, "replace": replace}
        exec("\n".join(_imports(lines)), known)
        plan, changed = known["plan"], known["changed"]
        assert isinstance(plan, Plan)
        assert isinstance(changed, Plan)
        sound = _sound(problem, plan, changed)
        seen = _refusal(problem, changed)
        if sound is None or sound == (seen is None):
            return []
        if sound:
            return [f"verify(problem, changed)  # it is sound, but refused: {seen}"]
        return ["with pytest.raises(VerificationError):", "    verify(problem, changed)"]

    return Case(tuple(lines), false)


def _imports(lines: list[str]) -> list[str]:
    return ["from cpplan.model.problem import Gap", *lines]


def _refusal(problem: Problem, plan: Plan) -> str | None:
    """The reason for which a plan is refused."""
    try:
        verify(problem, plan)
    except VerificationError as error:
        return str(error)
    simulate(problem, plan)  # what verify accepts runs
    return None


def _sound(problem: Problem, plan: Plan, changed: Plan) -> bool | None:
    """True if every claim of the changed plan is right; ``None`` if only a search can know."""
    assert changed.offset is not None
    for column in ("size", "lower", "upper"):
        if getattr(changed, column).tolist() != getattr(problem, column).tolist():
            return False
    offset = changed.offset.tolist()
    if apart(boxes_of(problem), offset) is not None:
        return False
    if changed.peak != max(at + s for at, s in zip(offset, problem.size.tolist(), strict=True)):
        return False
    least = least_height(boxes_of(problem))
    bound = changed.lower_bound
    assert least is not None
    if changed.status in ("infeasible", "unknown"):
        return False
    if (changed.status == "optimal") != (bound == changed.peak):
        return False
    if bound is not None and bound > least:
        searched = plan.bound_by == changed.bound_by and str(plan.bound_by).startswith(SEARCHES)
        return None if searched or changed.bound_by in SEARCHES else False
    if changed.bound_by != plan.bound_by or bound != plan.lower_bound:
        return None  # a bound that holds, by a name that may not prove it
    return True
