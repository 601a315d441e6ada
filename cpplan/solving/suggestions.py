"""Decisions that were not asked for, and the bytes with them: what a plan leaves on the table.

Those that cost no work are tried for a moment once a plan is made: another order and results over
operands, pieces, and all together. Plans are for one pool, and run every op once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from cpplan.model.errors import CpplanError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Suggestion
from cpplan.model.problem import Problem
from cpplan.packing.problem import as_program
from cpplan.program.anf import Program
from cpplan.solving.freedoms import useful_freedoms
from cpplan.solving.request import Freedom, Request
from cpplan.solving.whole_arena import arena_limit, needed_arena

# Largest share of the time limit for suggestions.
_SHARE = 0.1
# Decisions that cost no work, and what a user writes to allow them.
FREE: Mapping[Freedom, tuple[str, str | bool]] = {
    "order": ("order", "search"),
    "in place": ("in_place", True),
    "split": ("split", True),
}


def suggesting_time(source: Graph | Program | Problem, request: Request) -> float:
    """Seconds of the time limit for suggestions; 0 if there is nothing to suggest."""
    if not request.suggest or not any(_further(source, request, FREE)):
        return 0.0
    return min(request.suggest, _SHARE * request.time_limit)


def suggest_decisions(
    source: Graph | Program | Problem,
    plan: Plan,
    request: Request,
    seconds: float,
    solve: Callable[[Graph | Program | Problem, Request], Plan],
    allowed: Collection[Freedom] = tuple(FREE),
    arena: Callable[[Plan], int] | None = None,
) -> tuple[Suggestion, ...]:
    """Decisions that were not asked for, each with fewer bytes than the ones before.

    Parameters
    ----------
    source, plan, request
        The model, its plan, and what was asked. Where nothing fits a limit, a plan below what is
        proved without these decisions counts as smaller, whether it fits or not.
    seconds
        Seconds for all of them.
    solve
        Makes the plans.
    allowed
        Decisions that the model's runtime can carry out.
    arena
        Bytes of the arena that a plan needs; if left out, those that a runtime keeps of it count
        as without pieces.
    """
    deadline = time.monotonic() + seconds
    found: list[Suggestion] = []
    least, limit = plan.peak, None
    if plan.offset is None:
        # If nothing fits, fewer bytes than without these decisions are worth telling.
        least = plan.lower_bound if plan.status == "infeasible" else None
        limit = arena_limit(request)
    tried = list(_further(source, request, allowed))
    for number, decisions in enumerate(tried):
        share = (deadline - time.monotonic()) / (len(tried) - number)
        if request.deterministic:
            share = seconds / len(tried)
        options = dict(FREE[decision] for decision in decisions)
        if share <= 0:
            break
        try:
            asked = replace(request, **options, suggest=0.0, progress=None)  # type: ignore[arg-type]
            if limit is not None:
                asked = replace(asked, memory_limit=None, capacity=None)
            better = solve(source, asked.within(share))
        except CpplanError:
            continue  # these options do not go with the others
        if better.offset is None or better.peak is None or _costs_more(better, plan):
            continue
        if least is None or better.peak < least:
            lacking = 0
            if limit is not None:
                needed = needed_arena(better, source, request) if arena is None else arena(better)
                lacking = max(0, needed - limit)
            found.append(Suggestion(options, better.peak, lacking))
            least = better.peak
    return tuple(found)


def _costs_more(better: Plan, plan: Plan) -> bool:
    """True if a plan does more work than another, or than every op once if that has no offsets."""
    most = plan.base_cost if plan.offset is None else plan.cost
    return better.cost is not None and most is not None and better.cost > most


def _further(
    source: Graph | Program | Problem, request: Request, allowed: Collection[Freedom]
) -> Iterator[tuple[Freedom, ...]]:
    """Yield sets of decisions that may make a difference, without those asked for already."""
    pools = request.pools or ()
    if isinstance(source, Problem) or len(pools) > 1 or request.remat or request.algorithm:
        return
    program = as_program(source)
    assert isinstance(program, Program)
    useful = useful_freedoms(program)
    taken = {"order": request.order == "search", "in place": request.in_place}
    taken["split"] = request.split
    may: dict[Freedom, bool] = {
        "order": "order" in useful,
        "in place": not useful.isdisjoint({"in place", "placement"}),
        "split": "split" in useful,
    }
    new = [name for name, use in may.items() if use and not taken[name] and name in allowed]
    plain = tuple(name for name in new if name != "split")
    sets = plain, tuple(name for name in new if name == "split"), tuple(new)
    yield from (each for each in dict.fromkeys(sets) if each)
