"""Options that need or exclude one another, or a kind of model: one table.

Requests are checked against it, before any planning; the documentation lists it, and the tests of
pairs draw from it what they plan, and what must be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.refusals import Refusal
from cpplan.runtime.search_options import ONE_WORKER

if TYPE_CHECKING:
    from cpplan.program.anf import Program

_LIMITS = "needs either a memory_limit or a cost_limit, and no capacity"
_ONE_PASS = "needs a program that runs every op once"
_MOVING = ("preference", "time")


class _Asked(Protocol):
    """The options of a request that several rules read."""

    @property
    def pools(self) -> tuple[Pool, ...] | None: ...
    @property
    def remat(self) -> bool: ...
    @property
    def split(self) -> bool: ...
    @property
    def spill(self) -> bool: ...


def _pools(request: _Asked) -> tuple[Pool, ...]:
    return request.pools or ()


def _reruns(request: _Asked) -> bool:
    """True if the cost of a plan may be larger than that of every op once, in one memory."""
    return (request.remat or request.split) and not (request.spill and request.remat)


def _has_full_pools(request: _Asked) -> bool:
    pools = _pools(request)
    return bool(pools) and all(pool.capacity is not None for pool in pools)


def _is_peak(objective: str) -> bool:
    from cpplan.packing.pools.objective import is_peak

    return is_peak(None, objective)


# Called with a request.
OPTION_RULES = (
    ONE_WORKER,
    Refusal(
        ("piece_bytes", "split"),
        "piece_bytes weighs the pieces of one pool: it needs split=True, and no spill",
        lambda r: bool(r.piece_bytes) and not r.split,
    ),
    Refusal(
        ("piece_bytes", "spill"),
        "piece_bytes weighs the pieces of one pool: it needs split=True, and no spill",
        lambda r: bool(r.piece_bytes) and r.spill,
    ),
    Refusal(
        ("cost_limit", "remat", "split"),
        "cost_limit limits what runs again: it needs remat=True or split=True",
        lambda r: r.cost_limit is not None and not (r.remat or r.split),
    ),
    Refusal(
        ("spill", "remat", "split"),
        "spill=True goes with remat=True or with split=True, not with both",
        lambda r: r.spill and r.remat and r.split,
    ),
    *(
        Refusal(
            (option, "capacity"),
            f"{option}=True {_LIMITS}",
            lambda r, option=option: getattr(r, option) and _reruns(r) and r.capacity is not None,
        )
        for option in ("remat", "split")
    ),
    Refusal(
        ("memory_limit", "cost_limit"),
        "remat=True and split=True take either a memory_limit or a cost_limit, not both",
        lambda r: _reruns(r) and r.memory_limit is not None and r.cost_limit is not None,
    ),
    Refusal(
        ("remat", "memory_limit", "cost_limit"),
        "remat=True needs either a memory_limit or a cost_limit, or a capacity of every pool",
        lambda r: (
            r.remat
            and not r.spill
            and r.memory_limit is None
            and r.cost_limit is None
            and not _has_full_pools(r)
        ),
    ),
    *(
        Refusal(
            (option, end),
            f"{option}=True cannot be combined with first and last",
            lambda r, option=option, end=end: (
                getattr(r, option) and _reruns(r) and bool(getattr(r, end))
            ),
        )
        for option in ("remat", "split")
        for end in ("first", "last")
    ),
    Refusal(
        ("split", "pools"),
        "split=True plans one pool: give no others in pools, except with spill=True",
        lambda r: r.split and not r.spill and len(_pools(r)) > 1,
    ),
    Refusal(
        ("spill", "pools"),
        "spill=True needs two workspace pools: a fast one with a capacity, and a slow one",
        lambda r: (
            r.spill and (len(_pools(r)) != 2 or any(pool.kind != "workspace" for pool in _pools(r)))
        ),
    ),
    Refusal(
        ("spill", "capacity of the fast pool"),
        "spill=True needs a capacity of the fast pool {!r}",
        lambda r: r.spill and [pool.capacity for pool in _pools(r)[:1]] == [None],
        lambda r: _pools(r)[0].name,
    ),
    *(
        Refusal(
            ("spill", other),
            f"spill=True cannot be combined with {other}",
            lambda r, other=other: r.spill and bool(getattr(r, other)),
        )
        for other in ("first", "last", "algorithm", "placement")
    ),
    Refusal(
        ("spill", "objective"),
        "spill=True minimises the bytes moved, or the time with objective='time': objective={!r} "
        "is for pools between which nothing moves",
        lambda r: r.spill and r.objective not in _MOVING,
        lambda r: r.objective,
    ),
    Refusal(
        ("objective='time'", "spill"),
        "objective='time' is for tensors that move: it needs spill=True",
        lambda r: r.objective == "time" and not r.spill,
    ),
    Refusal(
        ("spill", "remat", "objective"),
        "spill=True with remat=True weighs moves against work: it needs objective='time'",
        lambda r: r.spill and r.remat and r.objective != "time",
    ),
    Refusal(
        ("spill", "remat", "order='search'"),
        "spill=True with remat=True cannot be combined with order='search'",
        lambda r: r.spill and r.remat and r.order == "search",
    ),
    Refusal(
        ("spill", "remat", "cost_limit"),
        "spill=True with remat=True cannot be combined with a cost_limit",
        lambda r: r.spill and r.remat and r.cost_limit is not None,
    ),
    Refusal(
        ("objective='time'", "bandwidth"),
        "objective='time' needs a read_bandwidth and a write_bandwidth of pool {!r}",
        lambda r: (
            r.spill
            and r.objective == "time"
            and any(None in (pool.read_bandwidth, pool.write_bandwidth) for pool in _pools(r)[1:2])
        ),
        lambda r: _pools(r)[1].name,
    ),
    Refusal(
        ("first", "order='search'"),
        "first and last constrain a searched order: they need order='search'",
        lambda r: bool(r.first or r.last) and r.order != "search",
    ),
    *(
        Refusal(
            ("pools", limit),
            "with several pools, each has its own capacity: give neither capacity nor memory_limit",
            lambda r, limit=limit: len(_pools(r)) > 1 and getattr(r, limit) is not None,
        )
        for limit in ("capacity", "memory_limit")
    ),
    *(
        Refusal(
            ("objective", limit),
            "objective={!r} is more than a peak: limit pools by their capacity, not by capacity or "
            "memory_limit",
            lambda r, limit=limit: (
                r.objective not in _MOVING
                and not _is_peak(r.objective)
                and getattr(r, limit) is not None
            ),
            lambda r: r.objective,
        )
        for limit in ("capacity", "memory_limit")
    ),
)


def _is_bare(source: Program | Problem) -> bool:
    return isinstance(source, Problem)


def _is_symbolic(source: Program | Problem) -> bool:
    return not isinstance(source, Problem) and source.graph.symbols is not None


def _repeats(source: Program | Problem) -> bool:
    return not isinstance(source, Problem) and len(source.order) > len(source.graph.ops)


def _with_bodies(source: Program | Problem) -> str | None:
    """Name of the first op with bodies, if there is one."""
    ops = () if isinstance(source, Problem) else source.graph.ops
    return next((op.name for op in ops if op.bodies), None)


# Called with a request and a program or problem.
SOURCE_RULES = (
    Refusal(
        ("pools", "a bare problem"),
        "a bare problem names its pools itself: give pools for graphs only",
        lambda r, source: r.pools is not None and _is_bare(source),
    ),
    *(
        Refusal(
            ("pools", limit, "a bare problem"),
            "a bare problem with several pools has their own capacity: give neither capacity nor "
            "memory_limit",
            lambda r, source, limit=limit: (
                _is_bare(source) and len(source.pools) > 1 and getattr(r, limit) is not None
            ),
        )
        for limit in ("capacity", "memory_limit")
    ),
    *(
        Refusal(
            (option, "a bare problem"),
            "in_place and placement need a graph: a bare problem has no ops",
            lambda r, source, option=option: bool(getattr(r, option)) and _is_bare(source),
        )
        for option in ("in_place", "placement")
    ),
    Refusal(
        ("order='search'", "a bare problem"),
        "order='search' needs a graph: a bare problem has no ops to order",
        lambda r, source: r.order == "search" and not r.remat and _is_bare(source),
    ),
    Refusal(
        ("remat", "a bare problem"),
        "remat=True needs a graph: a bare problem has no ops to run again",
        lambda r, source: r.remat and _is_bare(source),
    ),
    Refusal(
        ("split", "a bare problem"),
        "split=True needs a graph: a bare problem has no ops to split",
        lambda r, source: r.split and _is_bare(source),
    ),
    Refusal(
        ("split", "symbolic dimensions"),
        "split=True needs fixed sizes: give extents of all symbolic dimensions",
        lambda r, source: r.split and _is_symbolic(source),
    ),
    Refusal(
        ("spill", "symbolic dimensions"),
        "spill=True needs fixed sizes: give extents of all symbolic dimensions",
        lambda r, source: r.spill and _is_symbolic(source),
    ),
    *(
        Refusal(
            (f"{option}=True", "a program that runs ops again"),
            f"{option}=True {_ONE_PASS}, not a program that runs ops again",
            lambda r, source, option=option: getattr(r, option) and _repeats(source),
        )
        for option in ("remat", "split", "spill")
    ),
    Refusal(
        ("order='search'", "a program that runs ops again"),
        f"order='search' {_ONE_PASS}, not a program that runs ops again",
        lambda r, source: r.order == "search" and _repeats(source),
    ),
    Refusal(
        ("spill", "bodies"),
        "spill=True cannot plan op {!r}, which has bodies",
        lambda r, source: r.spill and _with_bodies(source) is not None,
        lambda r, source: _with_bodies(source),
    ),
)
