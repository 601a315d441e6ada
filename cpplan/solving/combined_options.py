"""Checks of options that need or exclude one another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cpplan.model.errors import InputError

if TYPE_CHECKING:
    from cpplan.solving.request import Request


def check_combined(request: Request) -> None:
    """Raise if options of a request contradict each other.

    Raises
    ------
    InputError
        If options contradict each other; the message names them.

    Examples
    --------
    >>> from cpplan.solving.request import Request
    >>> Request(cost_limit=1.1)
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: cost_limit limits what runs again: it needs remat=True or \
split=True
    """
    _check_remat(request)
    _check_spill(request)
    if (request.first or request.last) and request.order != "search":
        raise InputError("first and last constrain a searched order: they need order='search'")
    if request.objective == "time" and not request.spill:
        raise InputError("objective='time' is for tensors that move: it needs spill=True")
    if request.objective not in ("preference", "time"):
        _check_objective(request)


def check_limits(request: Request, pools: int) -> None:
    """Raise if several pools are given together with another limit."""
    if pools > 1 and not (request.capacity is None and request.memory_limit is None):
        raise InputError(
            "with several pools, each has its own capacity: give neither capacity nor memory_limit"
        )


def _check_remat(request: Request) -> None:
    """Raise if recomputation or pieces lack a limit, or are combined with an excluded option."""
    cost_limit = request.cost_limit
    if request.piece_bytes and not (request.split and not request.spill):
        raise InputError(
            "piece_bytes weighs the pieces of one pool: it needs split=True, and no spill"
        )
    if not (request.remat or request.split):
        if cost_limit is not None:
            raise InputError("cost_limit limits what runs again: it needs remat=True or split=True")
        return
    if request.spill and request.remat and request.split:
        raise InputError("spill=True goes with remat=True or with split=True, not with both")
    if request.spill and request.remat:
        return
    asked = "remat=True" if request.remat else "split=True"
    within = request.memory_limit is not None
    if request.capacity is not None or (within and cost_limit is not None):
        raise InputError(f"{asked} needs either a memory_limit or a cost_limit, and no capacity")
    full = bool(request.pools) and all(pool.capacity is not None for pool in request.pools or ())
    if request.remat and not (within or cost_limit is not None or full):
        raise InputError(
            "remat=True needs either a memory_limit or a cost_limit, or a capacity of every pool"
        )
    if cost_limit is not None and not (
        isinstance(cost_limit, (int, float))
        and not isinstance(cost_limit, bool)
        and 1 <= cost_limit < math.inf
    ):
        raise InputError(f"cost_limit must be at least 1, not {cost_limit!r}")
    if request.first or request.last:
        raise InputError(f"{asked} cannot be combined with first and last")
    if request.split and len(request.pools or ()) > 1 and not request.spill:
        raise InputError("split=True plans one pool: give no others")


def _check_spill(request: Request) -> None:
    """Raise if tensors may move but the pools do not allow it, or it is combined wrongly."""
    if not request.spill:
        return
    pools = request.pools or ()
    if len(pools) != 2 or any(pool.kind != "workspace" for pool in pools):
        raise InputError(
            "spill=True needs two workspace pools: a fast one with a capacity, and a slow one"
        )
    if pools[0].capacity is None:
        raise InputError(f"spill=True needs a capacity of the fast pool {pools[0].name!r}")
    alone: dict[str, object] = {"first": request.first, "last": request.last}
    alone |= {"algorithm": request.algorithm, "placement": request.placement}
    other = next((name for name, value in alone.items() if value), None)
    if other is not None:
        raise InputError(f"spill=True cannot be combined with {other}")
    if request.objective not in ("preference", "time"):
        raise InputError(
            f"spill=True minimises the bytes moved, or the time with objective='time': "
            f"objective={request.objective!r} is for pools between which nothing moves"
        )
    if request.remat and request.objective != "time":
        raise InputError(
            "spill=True with remat=True weighs moves against work: it needs objective='time'"
        )
    if request.remat and (request.order == "search" or request.cost_limit is not None):
        other = "order='search'" if request.order == "search" else "a cost_limit"
        raise InputError(f"spill=True with remat=True cannot be combined with {other}")
    slow = pools[1]
    if request.objective == "time" and None in (slow.read_bandwidth, slow.write_bandwidth):
        raise InputError(
            f"objective='time' needs a read_bandwidth and a write_bandwidth of pool {slow.name!r}"
        )


def _check_objective(request: Request) -> None:
    """Raise if the objective is not known, or is no peak to which a limit applies."""
    from cpplan.packing.pools.objective import is_peak

    limited = not (request.capacity is None and request.memory_limit is None)
    if not is_peak(None, request.objective) and limited:
        raise InputError(
            f"objective={request.objective!r} is more than a peak: limit pools by their capacity, "
            "not by capacity or memory_limit"
        )
