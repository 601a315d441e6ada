"""First plans for a great many buffers, with or without compiled loops.

A compiled allocator serves a million requests in a second, but compiling its loops takes seconds.
Until they are compiled, heuristics without loops are tried if they take less time than that.
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
    """Offer quick plans to the incumbent, and compile the loops.

    Raises ``TimeUpError`` if the deadline passes first; the incumbent keeps the plans offered so
    far.
    """
    if deadline.endless:
        return
    problem = incumbent.reduction.problem
    plain = _plain_seconds(problem)
    quickest, *others = plain
    if len(problem) <= active().uncompiled_buffers or plain[quickest] > deadline.remaining():
        # Asking if the loops are ready takes longer than this plan. If reading the problem used up
        # the time, allow this plan a grace: it takes only a fraction of the time of reading.
        late = not deadline.cancelled and plain[quickest] > deadline.remaining()
        offer_packing(quickest, incumbent, Deadline(active().grace) if late else deadline)
        deadline.check()
    in_time = may_load(deadline)
    if in_time and all(map(is_ready, LOOPS)):
        return
    if len(problem) > active().uncompiled_buffers:
        offer_packing(quickest, incumbent, deadline)
    soon = active().uncompiled_seconds
    for name in others:
        if plain[name] < min(soon, deadline.remaining()) and not incumbent.done:
            offer_packing(name, incumbent, deadline)
    if not in_time:
        raise TimeUpError
    if incumbent.done or prepare_all(LOOPS, deadline.share(active().compiling_share)):
        return
    for name in others:
        if soon <= plain[name] < deadline.remaining():
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
        deadline.reserve(active().check_reserve * (deadline.elapsed() - start))
    incumbent.offer(offsets, name)


def _plain_seconds(problem: Problem) -> dict[str, float]:
    """Approximate seconds of each heuristic without compiled loops, the quickest first."""
    count = len(problem)
    seconds = {"size_classes": 2e-6 * count}
    if not (problem.gaps or problem.fixed):
        seconds["first_fit"] = 1e-5 * count
    seconds["lowest_offset_first"] = count * placement_seconds(count)
    return seconds
