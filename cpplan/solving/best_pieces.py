"""Best pieces of a graph's ops: some ops are cut, and ops may also run again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cpplan.aliasing.packed import Packed
from cpplan.model.plan import Plan
from cpplan.model.problem import Problem
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from cpplan.solving.best_order import search_within
from cpplan.solving.best_schedule import least_at_once, rematerialize
from cpplan.solving.order_turns import has_many_ops
from cpplan.solving.plan_maker import make_split_plan
from cpplan.solving.run import Run, is_short
from cpplan.splitting.bounds import LeastPiece
from cpplan.splitting.lines import can_split
from cpplan.splitting.tuning import SplittingTuning
from cpplan.verification.verifier import verify

if TYPE_CHECKING:
    from cpplan.splitting.outcome import Split
    from cpplan.splitting.solve import SplitSearch

# Share of the time for the plan without pieces, a candidate that also gives the order.
_UNSPLIT_SHARE = 0.2
# If pieces may run again: shares of the time left for plans in which each piece runs once, then for
# plans in which halos run again; for the fewest bytes, and within a limit, where the first seldom
# fit. Then the share for plans in which whole ops run again.
_SMALLEST_SHARES, _FITTING_SHARES, _WHOLE_AGAIN_SHARE = (0.75, 0.3), (0.4, 0.4), 0.3

NO_TIME_TO_SPLIT = "too little time is left to look for pieces"


def cannot_split(source: Program | Problem) -> bool:
    """True if no op of a program can be cut."""
    return (
        isinstance(source, Program)
        and source.graph.symbols is None
        and len(source.order) == len(source.graph.ops)
        and not can_split(source.graph)
    )


def uncut(plan: Plan) -> Plan:
    """The plan of a program whose ops cannot be cut, with a message if pieces were requested."""
    if plan.offset is None:
        return plan
    reason = "no op can be cut along an axis"
    message = reason if plan.message is None else f"{plan.message}; {reason}"
    return replace(plan, message=message, copied_bytes=None if plan.spills else 0)


def is_late_to_split(source: Program, budget: Budget) -> bool:
    """True if the time left is too short even to begin a search for pieces."""
    seconds = budget.tuned(SplittingTuning).seconds_an_op * len(source.order)
    return has_many_ops(source) and is_short(budget.deadline, seconds)


def split_ops(run: Run, source: Program | Problem) -> Split:
    """The split of fewest bytes within a cost, or of least cost within the limit."""
    from cpplan.splitting.outcome import Split

    assert isinstance(source, Program)
    if is_late_to_split(source, run.budget):
        run.stop_early(NO_TIME_TO_SPLIT)
        packed = _unsplit(run, source, run.deadline)
        return Split(
            packed, (), None, source.cost, source.cost, LeastPiece(0, None), limit=run.limit
        )
    search, limit = split_search(run, source), run.limit
    again = run.request.remat and search.unsplit.packed.peak > search.least.bytes
    no_more_work = run.request.cost_limit == 1.0
    fitting = limit is not None and run.request.cost_limit is None
    first, then = _FITTING_SHARES if fitting else _SMALLEST_SHARES
    once: Split | None = None
    if again:
        once = replace(search.smallest(1.0, run.deadline.share(first)), limit=limit)
    deadline = run.deadline.share(then) if again else run.deadline
    if limit is not None and fitting:
        found = search.cheapest(limit, deadline)
    elif once is not None and no_more_work:
        found = once
    else:
        found = search.smallest(run.request.cost_limit or 1.0, deadline, once)
    found = replace(found, limit=limit)
    if search.hurried:
        run.stop_early(NO_TIME_TO_SPLIT)
    if once is None:
        return found
    # Pieces alone, or whole ops that run again, may be better than both together: compare all.
    # Within a limit, fewer bytes are not better, but less work is.
    most = max(found.packed.peak, limit + 1) if limit is not None and fitting else found.packed.peak
    least = least_at_once(run, search.unsplit.packed)[0]
    if search.unsplit.packed.source is not once.packed.source and least < most:
        share = _WHOLE_AGAIN_SHARE
        whole = _run_again(run, search.unsplit, run.deadline.share(share))
        found = _better(run, found, whole)
    return _better(run, found, _run_again(run, once, run.deadline))


def split_search(run: Run, source: Program | Problem) -> SplitSearch:
    """The search for pieces, with the program without pieces already packed."""
    from cpplan.splitting.solve import SplitSearch

    assert isinstance(source, Program)
    free = replace(run, target=None, limit=None)
    share = run.deadline.share(_UNSPLIT_SHARE)
    return SplitSearch(
        _unsplit(run, source, share),
        run.residency,
        run.sharing,
        run.deadline,
        pack=free.pack,
        pack_more=free.pack_more,
        order=partial(search_within, free),
        free=run.request.order == "search",
        piece_bytes=run.request.bytes_of_runs(source.graph),
        report=lambda text: run.record(None, None, text),
    )


def _unsplit(run: Run, source: Program, deadline: Deadline) -> Packed:
    """The packing of the program without pieces, whatever the limit."""
    free = replace(run, target=None, limit=None)
    if run.request.order == "search":
        return search_within(free, source)(deadline)[0]
    return free.pack(source, deadline)


def _run_again(run: Run, once: Split, deadline: Deadline) -> Split:
    """The split with some of its ops or pieces run again."""
    program = once.program
    order = tuple(dict.fromkeys(program.order))
    run = replace(run, budget=run.budget.until(deadline))
    packed = rematerialize(run, Program(program.graph, order)).packed
    assert isinstance(packed.source, Program)
    return replace(once, packed=packed, cost=packed.source.cost, limit=run.limit, between=None)


def _better(run: Run, one: Split, other: Split) -> Split:
    """The split with fewer bytes, or the cheaper one if both are within the limit."""
    limit = run.limit if run.request.cost_limit is None else None

    def value(split: Split) -> tuple[float, float]:
        bytes_over = max(split.packed.peak, limit or 0)
        return bytes_over, split.cost if limit is not None else split.packed.peak

    return min(one, other, key=value)


def finish_split(source: Program, run: Run, found: Split) -> Plan:
    """The verified plan of a split."""
    history = run.history
    plan = make_split_plan(found, run.residency, runtime=run.deadline.elapsed(), history=history)
    if plan.offset is not None:
        verify(source, plan)
    return plan
