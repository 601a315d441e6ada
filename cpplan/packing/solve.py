"""``pack``: the stages that place buffers at a given order, under one deadline.

Reduce, bound, heuristics; where a gap is left, search on the independent part that causes it. The
first proof of optimality ends the run; so does the deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cpplan.packing import heuristics
from cpplan.packing.bounds import lower_bound
from cpplan.packing.first_plans import offer_first_plans, offer_packing
from cpplan.packing.heuristics.by_hint import follow_hint
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.portfolio import Aim, PartSearch
from cpplan.packing.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.turns import Turn, Turns
from cpplan.verification.verifier import check_offsets

if TYPE_CHECKING:
    from cpplan.packing.search.outcome import Outcome


def pack(
    incumbent: Incumbent,
    budget: Budget,
    *,
    most_effort: int | None = None,
    by_heuristics: bool = True,
) -> None:
    """Improve the incumbent until it is good enough, proved smallest, or time is up.

    Parameters
    ----------
    incumbent
        Holds a packing from the start; every improvement is offered to it at once, so that it is
        good at any moment, also if this function is left by ``KeyboardInterrupt``.
    budget
        For all of it.
    most_effort
        End after the turn of search that has this effort (each has four times the last one's, the
        first 1); 0 is heuristics only.
    by_heuristics
        False if the heuristics have been run on this incumbent.
    """
    incumbent.announce()
    searches: dict[int, PartSearch] = {}
    names = heuristics.portfolio(len(incumbent.reduction.problem)) if by_heuristics else ()
    # Those that an exact search may make superfluous: they take longer than a look of it.
    later = names[active().probing_heuristics :] if _probes(incumbent, most_effort) else ()
    try:
        if names:
            run_heuristics(incumbent, budget.deadline, names[: len(names) - len(later)])
        if later and not incumbent.done:
            _probe(incumbent, budget, searches)
            run_heuristics(incumbent, budget.deadline, later)
        _run_search(incumbent, budget, searches, most_effort)
    except TimeUpError:
        return


def pack_by(name: str, incumbent: Incumbent, deadline: Deadline) -> None:
    """Let one heuristic alone pack everything.

    Raises
    ------
    InputError
        If there is none of that name; lists the known ones.
    """
    heuristic = heuristics.get(name)
    problem = incumbent.reduction.problem
    try:
        offsets = heuristic(problem, deadline)
    except TimeUpError:
        return
    check_offsets(problem, offsets, name)
    incumbent.replace(offsets, name)


def run_heuristics(
    incumbent: Incumbent, deadline: Deadline, names: Sequence[str] | None = None
) -> None:
    """One heuristic after another, those of the portfolio if not named, until one meets the bound.

    With many buffers, a plain allocator's plan comes first, before anything that may end late.
    """
    problem = incumbent.reduction.problem
    many = len(problem) >= active().many_buffers
    if many:
        offer_first_plans(incumbent, deadline)
    else:
        _follow_hint(incumbent, deadline)
    for k, name in enumerate(heuristics.portfolio(len(problem)) if names is None else names):
        if incumbent.done:
            return
        offer_packing(name, incumbent, deadline)
        if k == 0 and many:
            _follow_hint(incumbent, deadline)


def _follow_hint(incumbent: Incumbent, deadline: Deadline) -> None:
    problem = incumbent.reduction.problem
    if problem.hint and not incumbent.done:
        incumbent.offer(follow_hint(problem, deadline), "hint")


def _probes(incumbent: Incumbent, most_effort: int | None) -> bool:
    """True if an exact search comes before the slower heuristics."""
    count = len(incumbent.reduction.problem)
    return most_effort != 0 and active().probing_buffers <= count < active().many_buffers


def _probe(incumbent: Incumbent, budget: Budget, searches: dict[int, PartSearch]) -> None:
    """Look at the highest part by exact search, as long as the slower heuristics would take."""
    part, state, aim = _next_turn(incumbent, budget, searches)
    aim.offer(searches[part].probe(state, aim))


def _run_search(
    incumbent: Incumbent,
    budget: Budget,
    searches: dict[int, PartSearch],
    most_effort: int | None,
) -> None:
    """Search on the part that is highest.

    The peak is the highest part's, so that once it is the smallest it can be, all is done. Each
    turn is longer than the last, because nothing tells beforehand which search will be quick.
    """

    def turn(effort: int) -> Turn:
        part, state, aim = _next_turn(incumbent, budget, searches)
        settled = searches[part].turn(state, effort, aim)
        return Turn.AGAIN if settled else Turn.LONGER

    turns = Turns(active().most_effort, last=most_effort)
    turns.run(turn, lambda: incumbent.done, budget.deadline)


def _next_turn(
    incumbent: Incumbent, budget: Budget, searches: dict[int, PartSearch]
) -> tuple[int, Outcome, Aim]:
    """The highest part, its best packing, and what a turn on it is for."""
    part = incumbent.highest_part()
    problem, rows = incumbent.reduction.part_problem(part)
    if part not in searches:
        searches[part] = PartSearch(problem, budget)
        incumbent.bound_part(part, lower_bound(problem))

    def offer(outcome: Outcome) -> bool:
        incumbent.offer_part(part, rows, outcome)
        return incumbent.done or incumbent.highest_part() != part

    # A part that another would still exceed has to fit below the limit nevertheless.
    enough = incumbent.next_peak()
    if incumbent.limit is not None:
        enough = min(enough, incumbent.limit)
    aim = Aim(
        target=max(incumbent.target or 0, incumbent.bound.value, enough),
        limit=incumbent.limit,
        deadline=budget.deadline,
        offer=offer,
    )
    return part, incumbent.part_state(part, rows), aim
