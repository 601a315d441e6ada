"""Reasons why a run ends early: what its plan and its history say of them."""

from __future__ import annotations

from dataclasses import replace

from cpplan.model.plan import Plan
from cpplan.solving.run import Run

# How the message of a plan begins whose run left a gap and time, and its reason if no other is.
ENDED_EARLY = "ended before the time limit"
ALL_ENDED = "every search that applies has ended without a proof"
BY_THE_CLOCK = "the time limit has ended the search: another run may end with another plan"
POOLS_SHARED = (
    "the choices of what to share that are tried over several pools have been packed, and the "
    "bound holds whatever is shared"
)


def with_reason(plan: Plan, run: Run) -> Plan:
    """The plan, with the reason why the run ended if both a gap and time are left."""
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
