"""The first plans for a great many buffers: soon, and whether or not loops are compiled yet.

Compiled, a plain allocator serves a million requests in a second. Where its loops would have to be
compiled first, which takes seconds, what needs none is tried before, as far as it takes less.
"""

from __future__ import annotations

from cpplan.model.problem import Problem
from cpplan.packing import heuristics
from cpplan.packing.heuristics.layout import placement_seconds
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.loops import MANY_BUFFERS, SKYLINE
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import is_ready, load, may_load, prepare_all
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.loops import SWEEP
from cpplan.verification.verifier import check_offsets

LOOPS = MANY_BUFFERS, SKYLINE


def offer_first_plans(incumbent: Incumbent, deadline: Deadline) -> None:
    """Plans that come soon; once this returns, the loops are compiled.

    Raises ``TimeUpError`` if time is up before; the incumbent then has what was reached.
    """
    if deadline.endless:
        return
    problem = incumbent.reduction.problem
    plain = _plain_seconds(problem)
    at_once, *others = plain
    if len(problem) <= active().at_once or plain[at_once] > deadline.remaining():
        # Even to ask whether loops are ready takes longer. If reading the problem took all the
        # time, a plan that reuses bytes takes but a part of what that took.
        late = not deadline.cancelled and plain[at_once] > deadline.remaining()
        offer_packing(at_once, incumbent, Deadline(active().grace) if late else deadline)
        deadline.check()
    in_time = may_load(deadline)
    if in_time and all(map(is_ready, LOOPS)):
        return
    if len(problem) > active().at_once:
        offer_packing(at_once, incumbent, deadline)
    for name in others:
        if plain[name] < min(active().soon, deadline.remaining()) and not incumbent.done:
            offer_packing(name, incumbent, deadline)
    if not in_time:
        raise TimeUpError
    if incumbent.done or prepare_all(LOOPS, deadline.share(active().compiling_share)):
        return
    for name in others:
        if active().soon <= plain[name] < deadline.remaining():
            offer_packing(name, incumbent, deadline)
    if not prepare_all(LOOPS, deadline):
        raise TimeUpError


def offer_packing(name: str, incumbent: Incumbent, deadline: Deadline) -> None:
    """Offer a heuristic's offsets to the incumbent, after checking them.

    For many buffers, time for the last check of the run is reserved.
    """
    problem = incumbent.reduction.problem
    deadline.check()
    offsets = heuristics.get(name)(problem, deadline)
    many = len(problem) >= active().many_buffers
    if many:
        load(SWEEP)
    start = deadline.elapsed()
    check_offsets(problem, offsets, name)
    if many:
        deadline.reserve(active().checked * (deadline.elapsed() - start))
    incumbent.offer(offsets, name)


def _plain_seconds(problem: Problem) -> dict[str, float]:
    """Heuristics that need no loops here, the quickest first, and about how long they take."""
    count = len(problem)
    seconds = {"size_classes": 2e-6 * count}
    if not (problem.gaps or problem.fixed):
        seconds["first_fit"] = 1e-5 * count
    seconds["lowest_offset_first"] = count * placement_seconds(count)
    return seconds
