"""Checks of a plan's claims: peak, capacities, bound, objective, status."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.plan import Plan
from cpplan.model.problem import Ints, Problem
from cpplan.verification.bound_table import (
    COST_BOUNDS,
    FIXED,
    LARGEST,
    LIVE,
    PEAK_BOUNDS,
    POOL_BOUNDS,
    Proof,
    applying,
)
from cpplan.verification.pool_bounds import proved_levels, proved_total
from cpplan.verification.pool_objective import objective_levels, pool_peaks
from cpplan.verification.rectangles import Rectangles, check_bound


class Proofs(NamedTuple):
    """Kinds of proof of a plan's bounds; ``None`` for a bound that the plan does not claim."""

    bound: Proof | None = None
    cost_bound: Proof | None = None
    moved_bound: Proof | None = None


def check_peak(needed: Problem, plan: Plan, pool: Ints, offset: Ints) -> None:
    """Check the peak, and that no capacity is exceeded."""
    peaks = pool_peaks(needed, pool, offset)
    if not is_integer(plan.peak) or plan.peak != sum(peaks):
        raise VerificationError(
            f"the plan claims a peak of {plan.peak!r} B, but it is {sum(peaks)} B"
        )
    limits = [(sum(peaks), "the plan's", plan.capacity, np.arange(len(needed)))]
    for number, (region, peak) in enumerate(zip(needed.pools, peaks, strict=True)):
        rows = np.flatnonzero(pool == number)
        limits.append((peak, f"pool {region.name!r}'s", region.capacity, rows))
    for peak, what, capacity, rows in limits:
        if capacity is not None and not (is_integer(capacity) and peak <= capacity):
            highest = needed.names[int(rows[np.argmax((offset + needed.size)[rows])])]
            raise VerificationError(
                f"buffer {highest!r} ends at {peak} B, beyond {what} capacity of {capacity!r} B"
            )


def check_claims(
    needed: Problem,
    plan: Plan,
    rectangles: Rectangles,
    proved: int | None = None,
    least_cost: int | float | None = None,
) -> Proofs:
    """Check bound and status of a plan for one pool, and say how.

    ``proved`` has the bytes that the bound cited proves, ``least_cost`` the cost that the plan's
    duals prove.
    """
    bound, proof = plan.lower_bound, None
    if bound is not None:
        _check_integer_bound(plan)
        proof = _check_proof(needed, plan, rectangles, proved)
    elif plan.certificate is not None:
        raise VerificationError("the plan has a certificate, but claims no bound")
    if plan.objective_value or plan.objective_bound:
        raise VerificationError(
            "the plan has an objective, but only plans of several pools have one"
        )
    if plan.cost_bound is not None:
        return Proofs(proof, _check_cost(plan, least_cost))
    _check_no_cost_proof(plan)
    check_status(plan, (plan.peak,), None if bound is None else (bound,))
    return Proofs(proof)


def check_pooled_claims(
    needed: Problem,
    plan: Plan,
    pool: Ints,
    offset: Ints,
    least: int | None = None,
    apart: Problem | None = None,
    least_cost: int | float | None = None,
) -> Proofs:
    """Check objective, bounds and status of a plan for several pools, and say how.

    Parameters
    ----------
    least, apart
        If the plan could choose to share: bytes needed with any aliases, and the buffers with
        gaps wherever they may share bytes.
    least_cost
        Lower bound on the cost of every schedule that fits, proved by the plan's duals.

    Raises
    ------
    VerificationError
        Names the claim and what can be proved.
    """
    levels = objective_levels(needed, plan.objective)
    value = tuple(level.shown(level.of(needed, pool, offset)) for level in levels)
    # A plan of symbolic sizes at some values claims none.
    silent = plan.status == "feasible" and not (plan.objective_value or plan.objective_bound)
    if tuple(plan.objective_value) != value and not silent:
        raise VerificationError(
            f"the plan claims an objective ({plan.objective}) of {list(plan.objective_value)}, "
            f"but it is {list(value)}"
        )
    if plan.certificate is not None:
        raise VerificationError("the plan has a certificate, but bounds of several pools have none")
    if plan.scope != "given order":
        raise VerificationError(
            f"bounds of several pools are of one order, but the plan's scope is {plan.scope!r}"
        )
    bound = tuple(plan.objective_bound)
    proof: Proof | None = None
    if bound:
        if len(bound) != len(value) or bound > value:
            raise VerificationError(
                f"the objective's bound {list(bound)} is above its value {list(value)}"
            )
        proof = _check_levels(needed if apart is None else apart, plan, value, least)
    if plan.lower_bound is not None:
        _check_integer_bound(plan)
        total = proved_total(needed) if least is None else least
        if plan.lower_bound > total:
            raise VerificationError(
                f"live bytes prove a lower bound of {total} B, but the plan claims "
                f"{plan.lower_bound} B"
            )
        proof = proof or "recomputed"
    if plan.cost_bound is not None:
        return Proofs(proof, _check_cost(plan, least_cost))
    _check_no_cost_proof(plan)
    check_status(plan, value, bound or None)
    return Proofs(proof)


def _check_levels(
    needed: Problem, plan: Plan, value: tuple[int | float, ...], least: int | None
) -> Proof:
    """Check the bounds on an objective's levels, and say how; ``needed`` as for sharing."""
    cited = [applying(POOL_BOUNDS, name, plan, None) for name in str(plan.bound_by).split("; ")]
    bound = tuple(plan.objective_bound)
    proved = proved_levels(needed, plan.objective, value, least or 0)
    if bound <= proved:
        return "recomputed"
    if all(one.proof == "recomputed" for one in cited):
        raise VerificationError(
            f"the plan claims that no objective is below {list(bound)}, but {plan.bound_by!r} "
            f"proves only {list(proved)}"
        )
    return "searched"


def _check_cost(plan: Plan, proved: int | float | None) -> Proof:
    """Check the bound on the cost; a plan that runs ops again is optimal if its cost meets it."""
    cost, bound = plan.cost, plan.cost_bound
    limited = plan.capacity is not None or all(pool.capacity is not None for pool in plan.pools)
    if cost is None or bound is None or not limited:
        raise VerificationError("a bound on the cost needs a cost and a capacity")
    found = applying(COST_BOUNDS, plan.cost_bound_by, plan, plan.cost_certificate)
    if found.proof == "recomputed" and bound != plan.base_cost:
        raise VerificationError(
            f"running every op once costs {plan.base_cost}, but the bound on the cost is {bound}"
        )
    if found.proof == "certificate" and (proved is None or not bound <= proved):
        raise VerificationError(
            f"the duals prove a cost of {proved}, but the plan's bound on the cost is {bound}"
        )
    if bound > cost:
        raise VerificationError(f"the bound on the cost, {bound}, is above the cost of {cost}")
    if plan.status != ("optimal" if cost == bound else "feasible"):
        raise VerificationError(
            f"status {plan.status!r} contradicts cost {cost} and its bound {bound}"
        )
    return found.proof


def _check_no_cost_proof(plan: Plan) -> None:
    if plan.cost_bound_by is not None:
        raise VerificationError(
            f"{plan.cost_bound_by!r} bounds the cost, but the plan claims no bound on it"
        )
    if plan.cost_certificate is not None:
        raise VerificationError("the plan has a cost_certificate, but claims no bound on the cost")


def _check_integer_bound(plan: Plan) -> None:
    bound, peak = plan.lower_bound, plan.peak
    if not is_integer(bound) or bound < 0:  # type: ignore[operator]
        raise VerificationError(f"the lower bound must be a byte count, not {bound!r}")
    if bound > peak:  # type: ignore[operator]
        raise VerificationError(f"lower bound {bound} B is above the peak of {peak} B")


def _check_proof(needed: Problem, plan: Plan, rectangles: Rectangles, proved: int | None) -> Proof:
    """Check that the cited bound proves what the plan claims, and return the kind of proof."""
    bound, found = plan.lower_bound, applying(PEAK_BOUNDS, plan.bound_by, plan, plan.certificate)
    assert bound is not None
    if found.name == LIVE:
        check_bound(rectangles, needed.alignment, bound)
    elif found.name == FIXED:
        ends = [at + int(needed.size[k]) for k, at in needed.fixed.items()]
        if bound > max(ends, default=0):
            raise VerificationError(
                f"no buffer of fixed offset ends at {bound} B or above, as the lower bound claims"
            )
    elif found.name == LARGEST:
        if bound > needed.size.max(initial=0):
            raise VerificationError(f"no buffer has {bound} B, as the lower bound claims")
    elif found.proof != "searched" and (proved is None or bound > proved):
        raise VerificationError(
            f"{found.name!r} proves a lower bound of {proved} B, but the plan claims {bound} B"
        )
    return found.proof


def check_status(plan: Plan, value: tuple[object, ...], bound: tuple[object, ...] | None) -> None:
    """Raise unless the plan claims to be optimal exactly when its value meets the bound.

    A plan in pieces may claim less: it may have been ranked by more than its peak.
    """
    if plan.status not in ("optimal", "feasible"):
        raise VerificationError(f"the plan holds offsets, but claims to be {plan.status!r}")
    claims_less = bool(plan.pieces) and plan.status == "feasible"
    if (plan.status == "optimal") != (value == bound) and not claims_less:
        shown = [", ".join(map(str, numbers or ("None",))) for numbers in (value, bound)]
        what = "peak {} B and lower bound {} B" if len(value) == 1 else "objective {} and bound {}"
        what = "{} B moved and their bound {} B" if plan.spills else what
        what = "time {} and its bound {}" if plan.time is not None else what
        raise VerificationError(f"status {plan.status!r} contradicts {what.format(*shown)}")


def is_number(value: object) -> bool:
    """True for a number, but not for ``True``."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    """True for an integer, but not for ``True``."""
    return isinstance(value, int) and not isinstance(value, bool)
