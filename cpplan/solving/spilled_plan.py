"""Plans in which tensors move, made from the outcome of the search for moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.costs import sum_costs
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Progress, Scope, Status
from cpplan.model.pool import Pool
from cpplan.model.printable import printable
from cpplan.model.residency import Residency
from cpplan.program.timeline import least_time, run_time
from cpplan.spilling.outcome import Spilled
from cpplan.spilling.packed import Layout


def make_spilled_plan(
    found: Spilled,
    model: Graph,
    pools: tuple[Pool, Pool],
    residency: Residency,
    *,
    share: bool,
    time: bool = False,
    scope: Scope | None = None,
    runtime: float,
    history: Sequence[Progress],
) -> Plan:
    """The plan of a search for moves; if nothing fits, without offsets and with a reason.

    Parameters
    ----------
    found
        The outcome of the search.
    model
        The model; the search may have planned a graph of its runs.
    pools
        The fast and the slow pool.
    residency
        Residency of the model's boundary.
    share
        True if aliases in place were allowed.
    time
        True if the time was minimised instead of the bytes moved.
    scope
        Plans that the bound covers; those that the search says, if left out.
    runtime
        Seconds so far.
    history
        Every improvement.
    """
    graph, layout, bound = found.program.graph, found.layout, found.bound
    origin = found.origin or {}
    if scope is None:
        scope = "every order" if found.every_order else "given order"
    base_cost = sum_costs(op.cost for op in model.ops)
    least = least_time(base_cost, bound.value, pools[1]) if time else None
    common: dict[str, Any] = {
        "pools": pools,
        "cost": found.program.cost,
        "base_cost": base_cost,
        "residency": residency,
        "scope": scope,
        "sharing": ("in place",) if share else (),
        "moved_certificate": bound.certificate,
        "runtime": runtime,
        "history": tuple(history),
    }
    if time:
        common |= {"time_bound": least, "time_bound_by": bound.name}
    else:
        common |= {"moved_bytes_bound": bound.value, "moved_bytes_bound_by": bound.name}
    if layout is None or found.choice is None:
        none = np.zeros(0, np.int64)
        order = tuple(origin.get(name, name) for name in found.program.names)
        proved = found.exhausted or (found.shortfall is not None and not found.shortfall.tried)
        status: Status = "infeasible" if proved else "unknown"
        message = _reason(found, pools)
        return Plan(
            graph.name, status, (), none, none, none, None, order=order, message=message, **common
        )
    return _placed_plan(found, layout, pools[1], least, common)


def _placed_plan(
    found: Spilled, layout: Layout, slow: Pool, least: int | float | None, common: dict[str, Any]
) -> Plan:
    """The plan of a layout; ``least`` bounds its time, if that was minimised."""
    assert found.choice is not None
    graph, buffers, origin = found.program.graph, layout.problem, found.origin or {}
    placed = set(buffers.names)
    places = {n: p for n, p in layout.moved.places(graph).items() if p[0] in placed}
    boundary = {
        kind: tuple(t.name for t in graph.tensors if t.kind == kind and t.name in places)
        for kind in ("input", "output")
    }
    if least is None:
        spent, meets = None, found.choice.paid == found.bound.value
    else:
        spent = run_time(graph, layout.order, layout.moves, slow)
        meets = spent == least
    return Plan(
        graph.name,
        "optimal" if meets else "feasible",
        tuple(buffers.names),
        buffers.size,
        buffers.lower,
        buffers.upper,
        layout.offset,
        pool=layout.pool,
        peak=sum(layout.peaks),
        found_by=found.found_by,
        order=tuple(origin.get(n, n) if n in graph.op else n for n in layout.order),
        inputs=boundary["input"],
        outputs=boundary["output"],
        views={name: place for name, place in places.items() if place != (name, 0)},
        relations=layout.relations,
        objective="total",
        moves=layout.moves,
        time=spent,
        **common,
    )


def _reason(found: Spilled, pools: tuple[Pool, Pool]) -> str:
    """Reason why there is no plan."""
    fast, slow = pools
    short = found.shortfall
    if short is not None:
        needs = (
            f"op {printable(short.op)} needs {short.needed} B of pool {printable(fast.name)}, "
            f"which holds {fast.capacity} B: {short.missing} B are missing"
        )
        return f"no pieces that fit were found: {needs}" if short.tried else needs
    if found.exhausted:
        return f"no moves fit into {fast.capacity} B of pool {printable(fast.name)}: all were tried"
    slow_size = "" if slow.capacity is None else f" of {format_bytes(slow.capacity)}"
    return (
        f"no plan within {fast.capacity} B of pool {printable(fast.name)} and pool "
        f"{printable(slow.name)}{slow_size} was found in time"
    )
