"""The message of a plan: why its run ended early, and which gap is open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Progress
from cpplan.solving.request import Request
from cpplan.solving.run import Run

# Part of the time that counts as lately.
_LATELY = 1 / 3
# First words of the message if a run ends before its time limit without a proof; default reason.
ENDED_EARLY = "ended before the time limit"
ALL_ENDED = "every search that applies has ended without a proof"
BY_THE_CLOCK = "the time limit has ended the search: another run may end with another plan"
POOLS_SHARED = (
    "all choices of aliases that are tried over several pools have been packed, and the bound "
    "holds for any choice"
)


def with_open_gap(plan: Plan, request: Request) -> Plan:
    """The plan with a message on the gap between it and its bound, if that is open.

    By the clock, the message tells also what the last third of the time brought.
    """
    feasible = plan.status == "feasible" and plan.offset is not None
    if not feasible or request.algorithm is not None or _only_fits(plan, request):
        return plan
    told = _gap(plan, request)
    if told is None:
        return plan
    texts = [plan.message, told]
    if not request.deterministic:
        texts.append(_trend(plan))
    return replace(plan, message="; ".join(text for text in texts if text))


def _only_fits(plan: Plan, request: Request) -> bool:
    """True if a plan within the limit was all that was asked, or pieces weigh beside the peak."""
    limited = request.capacity is not None or request.memory_limit is not None
    decides = request.remat or request.split or request.spill
    return (limited and not decides) or bool(plan.pieces and request.piece_bytes)


def _gap(plan: Plan, request: Request) -> str | None:
    """The value found, the bound proved, and what would have to be proved; ``None`` if closed."""
    what = _alternatives(request)
    if plan.objective_value or plan.time_bound is not None:
        return None
    if plan.cost_bound is not None and plan.cost is not None and plan.base_cost:
        if plan.cost <= plan.cost_bound:
            return None
        more, least = plan.cost / plan.base_cost - 1, plan.cost_bound / plan.base_cost - 1
        return (
            f"{more:.2%} more work found, {least:.2%} proved ({plan.cost_bound_by}): to prove is "
            f"that no {what} within the limit does less"
        )
    moves = plan.moved_bytes_bound is not None
    found = plan.moved_bytes if moves else plan.peak
    bound = plan.moved_bytes_bound if moves else plan.lower_bound
    by = plan.moved_bytes_bound_by if moves else plan.bound_by
    if found is None or bound is None or found <= bound:
        return None
    claim = f"that no {what} {'moves' if moves else 'needs'} less"
    one, other = format_bytes(found), format_bytes(bound)
    if one == other:
        one, other = f"{found} B", f"{bound} B"
    return f"{one} found, {other} proved ({by}): to prove is {claim}"


def _alternatives(request: Request) -> str:
    """Name of all the plans that the search may choose from."""
    if request.split:
        what = "plan in pieces"
    elif request.remat:
        what = "schedule"
    else:
        what = "order" if request.order == "search" else "plan at the given order"
    if request.cost_limit is not None:
        what += f" of at most {request.cost_limit:g} times the work"
    return what


def _trend(plan: Plan) -> str | None:
    """The improvements that the last part of the time brought; ``None`` for a run without any."""
    if not plan.runtime:
        return None
    since = (1 - _LATELY) * plan.runtime
    early = [event for event in plan.history if event.seconds <= since]
    if not early:
        return None
    changes = list(_changes(early, plan.history))
    lately = "in the last third of the time "
    return lately + (" and ".join(changes) if changes else "neither has moved")


def _changes(early: list[Progress], history: tuple[Progress, ...]) -> Iterator[str]:
    """Yield what has become better since some early events."""
    before, after = (_best(events) for events in (early, history))
    if before.peak and after.peak is not None and after.peak < before.peak:
        yield f"the plan fell by {1 - after.peak / before.peak:.2%}"
    low, high = before.lower_bound, after.lower_bound
    if low and high is not None and high > low:
        yield f"the bound rose by {high / low - 1:.2%}"


def _best(events: Iterable[Progress]) -> Progress:
    """The least peak and the largest bound of some events."""
    events = list(events)
    peaks = (event.peak for event in events if event.peak is not None)
    bounds = (event.lower_bound for event in events if event.lower_bound is not None)
    return Progress(0.0, min(peaks, default=None), max(bounds, default=None), "")


def with_reason(plan: Plan, run: Run) -> Plan:
    """The plan with the reason for the end of the run, if it ended early without a proof."""
    fits = run.target is not None and plan.peak is not None and plan.peak <= run.target
    if plan.status in ("optimal", "infeasible") or fits:
        return plan
    if run.deadline.expired():
        if not (run.deadline.deterministic or run.deadline.cancelled):
            run.record(None, None, BY_THE_CLOCK)
        return replace(plan, history=tuple(run.history))
    if run.request.algorithm is not None:
        why = f"algorithm {run.request.algorithm!r} alone packed, as asked"
    else:
        shared = run.sharing and len(plan.pools) > 1
        why = "; ".join(run.reasons) or (POOLS_SHARED if shared else ALL_ENDED)
    why = f"{ENDED_EARLY}: {why}"
    run.record(None, None, why)
    message = why if plan.message is None else f"{plan.message}; {why}"
    return replace(plan, message=message, history=tuple(run.history))
