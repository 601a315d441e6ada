"""Best schedule of a graph: ops may run again, so that tensors need not be kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cpplan.aliasing.packed import Packed
from cpplan.model.problem import Problem
from cpplan.ordering.problem import order_problem
from cpplan.packing.bounds import largest_buffer_bound
from cpplan.program.anf import Program
from cpplan.remat.cut_bounds import RUNS_ONCE
from cpplan.remat.footprint import FOOTPRINT, accessed_footprint
from cpplan.remat.known_schedules import RematOutcome
from cpplan.remat.tuning import RematTuning
from cpplan.solving.best_order import search_within
from cpplan.solving.order_turns import has_many_ops
from cpplan.solving.run import Run, is_short

if TYPE_CHECKING:
    from cpplan.remat.solve import Rematerialized

# Time for making and checking the plan of many ops, as a multiple of the time to begin the
# search.
_CHECKED = 1.2

NO_TIME_TO_REPEAT = "too little time is left to look for ops that run again"


def rematerialize(run: Run, source: Program | Problem) -> Rematerialized:
    """The cheapest program within the limit, or the smallest within a limit on the cost."""
    from cpplan.aliasing.alias_candidates import find_candidates
    from cpplan.remat.solve import RematSearch

    assert isinstance(source, Program)
    joint, cost_limit = run.request.order == "search", run.request.cost_limit
    tuning, begin = run.budget.tuned(RematTuning), run.deadline.elapsed()
    if has_many_ops(source) and is_short(run.deadline, tuning.seconds_an_op * len(source.order)):
        run.stop_early(NO_TIME_TO_REPEAT)
        return _without_repetition(run, source)
    candidates = find_candidates(source.graph, run.residency, run.sharing)
    # Without alias candidates, bounds on live bytes hold.
    run = run if candidates else replace(run, sharing=frozenset())
    search = RematSearch(
        source,
        run.residency,
        run.deadline,
        joint=joint,
        order=search_within(run, source) if joint else None,
        pack=run.pack,
        candidates=candidates,
        report=lambda text: run.record(None, None, text),
        stop_early=run.stop_early,
    )
    if has_many_ops(source):
        run.deadline.reserve(_CHECKED * (run.deadline.elapsed() - begin))
    if cost_limit is not None:
        return _within_pool(run, search.smallest(cost_limit * search.base, run.budget))
    return _packed_freely(run, search.cheapest(_limit(run), run.budget))


def _packed_freely(run: Run, found: Rematerialized) -> Rematerialized:
    """The result, packed by all heuristics if it exceeds the limit of one pool.

    A program that cannot fit is packed only until that is known; the message tells what it needs.
    """
    packed, limit = found.packed, found.limit
    if packed.pooled is not None or limit is None or packed.peak <= limit:
        return found
    free = replace(run, target=None, limit=None)
    again = free.pack(packed.source, run.deadline, quick=True)
    return replace(found, packed=again) if again.peak < packed.peak else found


def _within_pool(run: Run, found: Rematerialized) -> Rematerialized:
    """The result of a limited cost; its limit is that of the one pool if that does not hold it."""
    packed, limit = found.packed, run.limit
    above = packed.pooled is None and limit is not None and packed.peak > limit
    return replace(found, limit=limit) if above else found


def _limit(run: Run) -> int:
    """Bytes of all pools together, or the limit."""
    if run.limit is not None:
        return run.limit
    return sum(pool.capacity or 0 for pool in run.request.pools or ())


def _without_repetition(run: Run, source: Program) -> Rematerialized:
    """The program with every op once, packed, with a bound that takes linear time."""
    from cpplan.remat.solve import Rematerialized

    joint, name = run.request.order == "search", "given order"
    free = replace(run, target=None, limit=None)
    if joint:
        packed, name = search_within(free, source)(run.deadline)
    else:
        packed = free.pack(source, run.deadline)
    assert isinstance(packed.source, Program)
    live, cost = int(packed.problem.live_bytes().max(initial=0)), packed.source.cost
    outcome = RematOutcome((), live, cost, cost, name, RUNS_ONCE)
    found = Rematerialized(packed, outcome, None, *least_at_once(run, packed), joint)
    if run.request.cost_limit is not None:
        return _within_pool(run, found)
    return replace(found, limit=_limit(run))


def least_at_once(run: Run, packed: Packed) -> tuple[int, str, str | None]:
    """Bytes that every schedule needs, the name of the bound, and the op that needs them."""
    if run.sharing:
        least = largest_buffer_bound(packed.problem)
        return least.value, least.name, None
    assert isinstance(packed.source, Program)
    ordering = order_problem(packed.source.graph, run.residency)
    found = accessed_footprint(ordering)
    return found.bytes, FOOTPRINT, None if found.unit is None else ordering.names[found.unit]
