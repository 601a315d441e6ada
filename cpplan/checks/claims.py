"""What a plan claims of itself: peak, capacities, bound, objective, status."""

from __future__ import annotations

import numpy as np

from cpplan.checks.pool_bounds import objective_bound
from cpplan.checks.pool_objective import objective_value, pool_peaks
from cpplan.checks.rectangles import Rectangles, check_bound
from cpplan.errors import VerificationError
from cpplan.plan import Plan
from cpplan.problem import Ints, Problem

SHARED, FOOTPRINT = "live bytes, shared", "least footprint"
# Bounds that are proved again here, and searches whose word is taken for theirs.
RECOMPUTED = (
    "live bytes",
    SHARED,
    "fixed offset",
    "largest buffer",
    "live bytes beyond the other pools",
    "accesses",
    FOOTPRINT,
)
# What proves something about one order's packing, and what about every order.
PACKING_SEARCHES = ("CP-SAT", "canonical search", "niche search")
ORDER_SEARCHES = (
    "forced live bytes",
    "minimum cut",
    "downset search",
    "Liu's algorithm",
    "least reach",
    "optimum of the chain",
    "live bytes at cuts",
)
OF_EVERY_ORDER = ("CP-SAT order", FOOTPRINT, *ORDER_SEARCHES)
# What may prove that no plan within the limit costs less; the first is proved again here.
COST_BOUNDS = (
    "every op once",
    "chain program",
    "linear bound at cuts",
    "CP-SAT at cuts",
    "CP-SAT rematerialization",
)


def check_peak(needed: Problem, plan: Plan, pool: Ints, offset: Ints) -> None:
    """Check the peak, and that no capacity is exceeded.

    Raises
    ------
    VerificationError
        Names the claim, or the highest buffer of the pool and where it ends.

    Examples
    --------
    >>> none = np.zeros(0, np.int64)
    >>> plan = Plan("p", "optimal", (), none, none, none, none, peak=0)
    >>> check_peak(Problem((), none, none, none), plan, none, none)
    """
    peaks = pool_peaks(needed, pool, offset).tolist()
    if not _is_integer(plan.peak) or plan.peak != sum(peaks):
        raise VerificationError(
            f"the plan claims a peak of {plan.peak!r} B, but it is {sum(peaks)} B"
        )
    limits = [(sum(peaks), "the plan's", plan.capacity, np.arange(len(needed)))]
    for number, (region, peak) in enumerate(zip(needed.pools, peaks, strict=True)):
        rows = np.flatnonzero(pool == number)
        limits.append((peak, f"pool {region.name!r}'s", region.capacity, rows))
    for peak, what, capacity, rows in limits:
        if capacity is not None and not (_is_integer(capacity) and peak <= capacity):
            highest = needed.names[int(rows[np.argmax((offset + needed.size)[rows])])]
            raise VerificationError(
                f"buffer {highest!r} ends at {peak} B, beyond {what} capacity of {capacity!r} B"
            )


def check_claims(
    needed: Problem,
    plan: Plan,
    rectangles: Rectangles,
    least: int | None = None,
    footprint: int | None = None,
) -> None:
    """Check bound and status of a plan for one pool.

    Parameters
    ----------
    least
        Bytes that are needed whatever is shared, if the plan could choose to share.
    footprint
        Bytes that are needed in any order, whatever runs again, if that is what the plan claims.

    Raises
    ------
    VerificationError
        Names the claim and what can be proved.

    Examples
    --------
    >>> none = np.zeros(0, np.int64)
    >>> plan = Plan("p", "feasible", (), none, none, none, none, peak=0)
    >>> problem = Problem((), none, none, none)
    >>> from cpplan.checks.rectangles import cut_gaps
    >>> check_claims(problem, plan, cut_gaps(problem))
    """
    bound, peak = plan.lower_bound, plan.peak
    if bound is not None:
        _check_integer_bound(plan)
        _check_proof(needed, plan, rectangles, least)
        if plan.bound_by == FOOTPRINT and (footprint is None or bound > footprint):
            raise VerificationError(
                f"the ops prove a least footprint of {footprint} B, but the plan claims {bound} B"
            )
    if plan.objective_value or plan.objective_bound:
        raise VerificationError("the plan has an objective, which only several pools have")
    if plan.cost_bound is not None:
        _check_cost(plan)
    else:
        _check_status(plan, (peak,), None if bound is None else (bound,))


def check_pooled_claims(
    needed: Problem,
    plan: Plan,
    pool: Ints,
    offset: Ints,
    least: int | None = None,
    apart: Problem | None = None,
) -> None:
    """Check objective, bounds and status of a plan for several pools.

    Parameters
    ----------
    least, apart
        Bytes that are needed whatever is shared, and the buffers with gaps wherever they may share
        bytes; if the plan could choose to share.

    Raises
    ------
    VerificationError
        Names the claim and what can be proved.

    Examples
    --------
    >>> from cpplan.pool import Pool
    >>> pools = Pool("p"), Pool("q")
    >>> problem = Problem(("a",), [0], [1], [4], pools=pools)
    >>> columns = dict(size=problem.size, lower=problem.lower, upper=problem.upper)
    >>> plan = Plan(
    ...     "p", "feasible", ("a",), offset=np.array([0]), pools=pools, peak=4, **columns,
    ...     objective_value=(4,),
    ... )
    >>> check_pooled_claims(problem, plan, plan.pool, plan.offset)
    """
    value = objective_value(needed, plan.objective, pool, offset)
    # A plan of symbolic sizes at some values claims none.
    silent = plan.status == "feasible" and not (plan.objective_value or plan.objective_bound)
    if tuple(plan.objective_value) != value and not silent:
        raise VerificationError(
            f"the plan claims an objective ({plan.objective}) of {list(plan.objective_value)}, "
            f"but it is {list(value)}"
        )
    bound = tuple(plan.objective_bound)
    if bound:
        if len(bound) != len(value) or bound > value:
            raise VerificationError(
                f"the objective's bound {list(bound)} is above its value {list(value)}"
            )
        by_search = "CP-SAT" in str(plan.bound_by)
        least_problem = needed if apart is None else apart
        proved, _ = objective_bound(least_problem, plan.objective, value, least or 0)
        if bound > proved and (least is not None or not by_search):
            raise VerificationError(
                f"the plan claims that no objective is below {list(bound)}, but what "
                f"{plan.bound_by!r} proves is {list(proved)}"
            )
    if plan.lower_bound is not None:
        _check_integer_bound(plan)
        total = least
        if total is None:
            total = int(objective_bound(needed, "total", (0,))[0][0])
        if plan.lower_bound > total:
            raise VerificationError(
                f"live bytes prove a lower bound of {total} B, but the plan claims "
                f"{plan.lower_bound} B"
            )
    if plan.cost_bound is not None:
        _check_cost(plan)
    else:
        _check_status(plan, value, bound or None)


def _check_cost(plan: Plan) -> None:
    """Of a plan that runs ops again to fit: it is optimal if it costs no more than it must."""
    cost, bound = plan.cost, plan.cost_bound
    limited = plan.capacity is not None or all(pool.capacity is not None for pool in plan.pools)
    if cost is None or bound is None or not limited:
        raise VerificationError("a bound on the cost needs a cost and a capacity")
    if plan.cost_bound_by not in COST_BOUNDS:
        raise VerificationError(f"{plan.cost_bound_by!r} is not known to bound the cost")
    if plan.cost_bound_by == COST_BOUNDS[0] and bound != plan.base_cost:
        raise VerificationError(
            f"every op once costs {plan.base_cost}, but the plan's bound on the cost is {bound}"
        )
    if bound > cost:
        raise VerificationError(f"the bound on the cost, {bound}, is above the cost of {cost}")
    if plan.status != ("optimal" if cost == bound else "feasible"):
        raise VerificationError(
            f"status {plan.status!r} contradicts cost {cost} and its bound {bound}"
        )


def _check_integer_bound(plan: Plan) -> None:
    bound, peak = plan.lower_bound, plan.peak
    if not _is_integer(bound) or bound < 0:  # type: ignore[operator]
        raise VerificationError(f"the lower bound must be a byte count, not {bound!r}")
    if bound > peak:  # type: ignore[operator]
        raise VerificationError(f"lower bound {bound} B is above the peak of {peak} B")


def _check_proof(needed: Problem, plan: Plan, rectangles: Rectangles, least: int | None) -> None:
    """Whether what the bound claims to be proved by proves as much."""
    bound, by = plan.lower_bound, plan.bound_by
    assert bound is not None
    if by not in RECOMPUTED and not str(by).startswith(PACKING_SEARCHES + ORDER_SEARCHES):
        raise VerificationError(f"the lower bound has no known proof: {by!r}")
    if plan.scope == "every order" and not str(by).startswith(OF_EVERY_ORDER):
        raise VerificationError(f"{by} of one order prove nothing about every order")
    if by == SHARED:
        if least is None:
            raise VerificationError("nothing shares bytes by choice, but the bound says so")
        if bound > least:
            raise VerificationError(
                f"live bytes, shared, prove a lower bound of {least} B, but the plan claims "
                f"{bound} B"
            )
    if by == "live bytes":
        if plan.sharing:
            raise VerificationError("live bytes prove nothing where tensors may share bytes")
        check_bound(rectangles, needed.alignment, bound)
    if by == "fixed offset":
        ends = [at + int(needed.size[k]) for k, at in needed.fixed.items()]
        if bound > max(ends, default=0):
            raise VerificationError(f"no fixed offset proves a lower bound of {bound} B")
    if by == "largest buffer" and bound > needed.size.max(initial=0):
        raise VerificationError(f"no buffer is so large as to prove a lower bound of {bound} B")


def _check_status(plan: Plan, value: tuple[object, ...], bound: tuple[object, ...] | None) -> None:
    if plan.status not in ("optimal", "feasible"):
        raise VerificationError(f"the plan holds offsets, but claims to be {plan.status!r}")
    if (plan.status == "optimal") != (value == bound):
        shown = [", ".join(map(str, numbers or ("None",))) for numbers in (value, bound)]
        what = "peak {} B and lower bound {} B" if len(value) == 1 else "objective {} and bound {}"
        raise VerificationError(f"status {plan.status!r} contradicts {what.format(*shown)}")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
