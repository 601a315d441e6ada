"""``pack``: the stages that place buffers for a given order, under one deadline.

Reduce, bound, heuristics; if peak and bound still differ, search on the highest independent part.
The first proof of optimality ends the run, or the deadline.

First plans for a great many buffers, with or without compiled loops.

A compiled allocator serves a million requests in a second, but compiling its loops takes seconds.
Until they are compiled, heuristics without loops are tried if they take less time than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cpplan.model.errors import VerificationError, warn_of_defect
from cpplan.model.problem import Problem
from cpplan.packing import heuristics
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.greedy import follow_hint
from cpplan.packing.heuristics.layout import placement_seconds
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.loops import MANY_BUFFERS, SKYLINE
from cpplan.packing.portfolio import Aim, PartSearch
from cpplan.packing.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.compiled import is_ready, load, may_load, prepare_all
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.turns import Turn, Turns
from cpplan.verification.loops import SWEEP
from cpplan.verification.verifier import check_offsets

if TYPE_CHECKING:
    from cpplan.packing.search.outcome import Outcome

# Share of the time left for compiling loops before slower first plans: nearly every method that
# improves on them needs the loops.
_COMPILING_SHARE = 0.5
# Buffers up to which a plan is made and checked in less time than loading a compiled loop.
_UNCOMPILED_BUFFERS = 200_000
# Heuristics that still come before a brief exact search.
_PROBING_HEURISTICS = 3
# Time reserved for the final check of the plan and its claims, as a multiple of the time that
# checking the offsets takes.
_CHECK_RESERVE = 2.5

LOOPS = MANY_BUFFERS, SKYLINE


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
        Holds a packing from the start. Every improvement is offered to it at once, so that it has
        the best packing at any time, also after ``KeyboardInterrupt``.
    budget
        Deadline, workers and seed of the run.
    most_effort
        Effort of the last turn of search: the first turn has effort 1, each later one four times
        as much; 0 runs heuristics only.
    by_heuristics
        False if the heuristics have already run on this incumbent.
    """
    incumbent.announce()
    searches: dict[int, PartSearch] = {}
    names = heuristics.portfolio(len(incumbent.reduction.problem)) if by_heuristics else ()
    # These take longer than a brief exact search, which may make them superfluous.
    later = names[_PROBING_HEURISTICS:] if _probes(incumbent, most_effort) else ()
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
    """Pack by a single heuristic."""
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
    """Run heuristics, by default those of the portfolio, until one meets the bound.

    With many buffers, the quick plans of a plain allocator come first.
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
    """True if a brief exact search comes before the slower heuristics."""
    count = len(incumbent.reduction.problem)
    return most_effort != 0 and active().probing_buffers <= count < active().many_buffers


def _probe(incumbent: Incumbent, budget: Budget, searches: dict[int, PartSearch]) -> None:
    """Search the highest part exactly, for about as long as the slower heuristics would take."""
    part, state, aim = _next_turn(incumbent, budget, searches)
    aim.offer(searches[part].probe(state, aim))


def _run_search(
    incumbent: Incumbent,
    budget: Budget,
    searches: dict[int, PartSearch],
    most_effort: int | None,
) -> None:
    """Search on the highest part, in turns.

    The peak is that of the highest part; the run ends once that peak is proved smallest. Each turn
    is longer than the last, because it is not known beforehand which search will be quick.
    """

    def turn(effort: int) -> Turn:
        part, state, aim = _next_turn(incumbent, budget, searches)
        if searches[part].turn(state, effort, aim):
            return Turn.AGAIN
        return Turn.LAST if searches[part].idle else Turn.LONGER

    turns = Turns(active().most_effort, last=most_effort)
    turns.run(turn, lambda: incumbent.done, budget.deadline)


def _next_turn(
    incumbent: Incumbent, budget: Budget, searches: dict[int, PartSearch]
) -> tuple[int, Outcome, Aim]:
    """The highest part, its best packing, and the aim of a turn on it."""
    part = incumbent.highest_part()
    problem, rows = incumbent.reduction.part_problem(part)
    if part not in searches:
        searches[part] = PartSearch(problem, budget)
        incumbent.bound_part(part, lower_bound(problem))

    def offer(outcome: Outcome) -> bool:
        incumbent.offer_part(part, rows, outcome)
        return incumbent.done or incumbent.highest_part() != part

    # Below the second highest part nothing is gained, but the limit must be kept in any case.
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


def offer_first_plans(incumbent: Incumbent, deadline: Deadline) -> None:
    """Offer quick plans to the incumbent, and compile the loops.

    Raises ``TimeUpError`` if the deadline passes first; the incumbent keeps the plans offered so
    far.
    """
    if deadline.endless:
        return
    problem = incumbent.reduction.problem
    plain = _plain_seconds(problem)
    quickest, *others = plain
    if len(problem) <= _UNCOMPILED_BUFFERS or plain[quickest] > deadline.remaining():
        # Asking if the loops are ready takes longer than this plan. If reading the problem used up
        # the time, allow this plan a grace: it takes only a fraction of the time of reading.
        late = not deadline.cancelled and plain[quickest] > deadline.remaining()
        offer_packing(quickest, incumbent, Deadline(active().grace) if late else deadline)
        deadline.check()
    in_time = may_load(deadline)
    if in_time and all(map(is_ready, LOOPS)):
        return
    if len(problem) > _UNCOMPILED_BUFFERS:
        offer_packing(quickest, incumbent, deadline)
    soon = active().uncompiled_seconds
    for name in others:
        if plain[name] < min(soon, deadline.remaining()) and not incumbent.done:
            offer_packing(name, incumbent, deadline)
    if not in_time:
        raise TimeUpError
    if incumbent.done or prepare_all(LOOPS, deadline.share(_COMPILING_SHARE)):
        return
    for name in others:
        if soon <= plain[name] < deadline.remaining():
            offer_packing(name, incumbent, deadline)
    if not prepare_all(LOOPS, deadline):
        raise TimeUpError


def offer_packing(name: str, incumbent: Incumbent, deadline: Deadline) -> None:
    """Offer a heuristic's offsets to the incumbent, or warn if they do not pass the check.

    For many buffers, time for the last check of the run is reserved.
    """
    problem = incumbent.reduction.problem
    deadline.check()
    offsets = heuristics.get(name)(problem, deadline)
    many = len(problem) >= active().many_buffers
    if many:
        load(SWEEP)
    start = deadline.elapsed()
    try:
        check_offsets(problem, offsets, name)
    except VerificationError as error:
        warn_of_defect(f"{error}; its packing is left out")
        return
    if many:
        deadline.reserve(_CHECK_RESERVE * (deadline.elapsed() - start))
    incumbent.offer(offsets, name)


def _plain_seconds(problem: Problem) -> dict[str, float]:
    """Approximate seconds of each heuristic without compiled loops, the quickest first."""
    count = len(problem)
    seconds = {"size_classes": 2e-6 * count}
    if not (problem.gaps or problem.fixed):
        seconds["first_fit"] = 1e-5 * count
    seconds["lowest_offset_first"] = count * placement_seconds(count)
    return seconds
