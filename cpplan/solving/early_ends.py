"""Reasons for the early end of a run, for the message and the history of its plan."""

from __future__ import annotations

from dataclasses import replace

from cpplan.model.plan import Plan
from cpplan.solving.run import Run

# First words of the message if a run ends before its time limit without a proof; default reason.
ENDED_EARLY = "ended before the time limit"
ALL_ENDED = "every search that applies has ended without a proof"
BY_THE_CLOCK = "the time limit has ended the search: another run may end with another plan"
POOLS_SHARED = (
    "all choices of aliases that are tried over several pools have been packed, and the bound "
    "holds for any choice"
)


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
