"""Hill climbing over orders, by an estimate of the cost of moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.graph import Graph
from cpplan.model.problem import Ints
from cpplan.program.storages import overwritten
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.loops import ORDERS
from cpplan.spilling.problem import SpillProblem
from cpplan.spilling.search.order_kernel import climb, estimate, scratch_for
from cpplan.spilling.tuning import active

NAME = "climbing over orders"
# Deterministic seconds of one estimate per access and per op.
_RATE = 4e-8


class FlatOrders(NamedTuple):
    """Accesses, rooms and precedences as arrays, for estimates of orders.

    Attributes
    ----------
    op_start, op_storage, op_bytes, op_near
        Accesses of each op: storage; cost if the access happens in the slow pool; true if it must
        happen in the fast pool.
    over_start, over_input, over_room
        Inputs that each op may write over, and the room that this saves.
    before_start, before, after_start, after
        Predecessors and successors of each op.
    spill, reload, room, written, slow_start, kept, fixed
        For each storage: cost of a spill; cost of a reload; room; true if an op writes it; true if
        it begins in the slow pool; true if it is kept to the end; true if it cannot be evicted.
    extra
        Room taken during each op by storages without an access.
    capacity
        Capacity of the fast pool.
    """

    op_start: Ints
    op_storage: Ints
    op_bytes: Ints
    op_near: NDArray[np.bool_]
    over_start: Ints
    over_input: Ints
    over_room: Ints
    before_start: Ints
    before: Ints
    after_start: Ints
    after: Ints
    spill: Ints
    reload: Ints
    room: Ints
    written: NDArray[np.bool_]
    slow_start: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    fixed: NDArray[np.bool_]
    extra: Ints
    capacity: int


def flatten(
    graph: Graph, problem: SpillProblem, order: Sequence[int], *, share: bool
) -> FlatOrders:
    """Arrays for estimates of orders, from the spilling problem of one order."""
    ops = len(graph.ops)
    accesses: list[list[tuple[int, int, bool]]] = [[] for _ in range(ops)]
    for storage, step, crossing, near in zip(
        problem.access_storage.tolist(), problem.access_step.tolist(),
        problem.access_cost.tolist(), problem.access_near.tolist(), strict=True,
    ):  # fmt: skip
        accesses[order[step]].append((storage, crossing, near))
    number = {name: k for k, name in enumerate(problem.names)}
    over: list[list[tuple[int, int]]] = [[] for _ in range(ops)]
    for op, node in enumerate(graph.ops if share else ()):
        outputs: set[str] = set()
        for output, source in overwritten(graph, node):
            if output in number and source in number and output not in outputs:
                outputs.add(output)
                room = min(int(problem.room[number[output]]), int(problem.room[number[source]]))
                over[op].append((number[source], room))
    after: list[list[int]] = [[] for _ in range(ops)]
    for op, several in enumerate(graph.predecessors):
        for before in several:
            after[before].append(op)
    extra = np.zeros(ops, np.int64)
    extra[np.array(order, np.int64)] = problem.base[: len(order)]
    rows = [row for several in accesses for row in several]
    pairs = [row for several in over for row in several]
    slow_start = np.zeros(len(problem.names), bool)
    fixed = np.zeros(len(problem.names), bool)
    fixed[problem.gap_storage[problem.gap_fixed == 1]] = True
    first = problem.gap_before < 0
    slow_start[problem.gap_storage[first & (problem.gap_fixed == 0)]] = True
    return FlatOrders(
        op_start=_starts(accesses),
        op_storage=np.array([row[0] for row in rows], np.int64),
        op_bytes=np.array([row[1] for row in rows], np.int64),
        op_near=np.array([row[2] for row in rows], bool),
        over_start=_starts(over),
        over_input=np.array([row[0] for row in pairs], np.int64),
        over_room=np.array([row[1] for row in pairs], np.int64),
        before_start=_starts(graph.predecessors),
        before=np.array([b for several in graph.predecessors for b in several], np.int64),
        after_start=_starts(after),
        after=np.array([a for several in after for a in several], np.int64),
        spill=problem.spill_cost,
        reload=problem.reload_cost,
        room=problem.room,
        written=problem.written,
        slow_start=slow_start,
        kept=problem.lasts,
        fixed=fixed,
        extra=extra,
        capacity=problem.capacity,
    )


def _starts(rows: Sequence[Sequence[object]]) -> Ints:
    starts: Ints = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return starts


def climb_orders(
    flat: FlatOrders, starts: Sequence[Sequence[int]], deadline: Deadline, seed: int
) -> list[tuple[int, tuple[int, ...]]]:
    """Orders reached from the starts with their estimated costs, the cheapest first.

    Returns the starts themselves if the compiled loops are not ready in time.
    """
    if not prepare(ORDERS, deadline):
        return [(0, tuple(start)) for start in starts]
    work = _RATE * (len(flat.op_storage) + len(flat.extra)) * max(1.0, len(flat.room) / 100)
    scratch = scratch_for(len(flat.room), len(flat.op_storage), len(flat.extra))
    found: list[tuple[int, Ints]] = []
    for start in starts:
        if found and deadline.expired():
            break
        order = np.array(start, np.int64)
        found.append((int(estimate(flat, order, scratch)), order))
        deadline.spend(work)
    found.sort(key=lambda pair: pair[0])
    portion = max(1, min(_MOVES, int(_CALL / work)))
    turns, rng = active().climb_turns, np.random.default_rng(seed)
    for turn in range(turns):
        if deadline.expired() or found[0][0] == 0:
            break
        for number, (value, order) in enumerate(found):
            if deadline.expired():
                break
            # Orders that are far behind get fewer turns.
            if number and value > 1.5 * found[0][0] and turn > turns // 4:
                continue
            order = order.copy()
            draws = rng.random((_MOVES, 3))
            for first in range(0, _MOVES, portion):
                some = draws[first : first + portion]
                value = int(climb(flat, order, value, some, scratch))
                deadline.spend(len(some) * work)
                if deadline.expired():
                    break
            found[number] = value, order
        found.sort(key=lambda pair: pair[0])
    return [(value, tuple(order.tolist())) for value, order in found]


# Neighbours tried in a turn, and deterministic seconds between two looks at the time left.
_MOVES, _CALL = 200, 0.05
