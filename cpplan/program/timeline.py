"""Time of a plan in which tensors move: ops run one after another, copies may run beside them.

An op takes its cost, in cycles, plus the cycles of its reads and writes in the slow pool. A spill
or a reload takes the cycles of its bytes, and the next step begins when it ends. If the slow pool
has a copy engine, a copy may be *begun* at its step and be waited for at a later one: ops between
the two run beside it. Copies run one at a time, in the order in which they begin.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.model.graph import Graph
from cpplan.model.moves import Move, move_cycles
from cpplan.model.pool import Pool


def run_time(graph: Graph, order: Sequence[str], moves: Sequence[Move], slow: Pool) -> int | float:
    """Cycles from the begin of the first step to the end of the last op and copy.

    Parameters
    ----------
    graph
        The model, whose costs are cycles.
    order
        Names of ops and of moves.
    moves
        All moves.
    slow
        The slow pool.
    """
    steps = {move.name: move for move in moves if move.is_step}
    direct: dict[str, int] = {}
    for access in moves:
        if not access.is_step:
            cycles = move_cycles(access.kind, access.size, slow)
            direct[access.name] = direct.get(access.name, 0) + cycles
    begun = begun_copies(order, steps)
    now: int | float = 0
    engine: int | float = 0
    ends: dict[str, int | float] = {}
    for name in order:
        move = steps.get(name)
        if move is None:
            now += graph.op[name].cost + direct.get(name, 0)
        elif move.kind == "wait":
            now = max(now, ends[move.tensor])
        else:
            engine = max(engine, now) + move_cycles(move.kind, move.size, slow)
            ends[move.tensor] = engine
            if name not in begun:
                now = engine
    return max(now, engine)


def begun_copies(order: Sequence[str], steps: dict[str, Move]) -> set[str]:
    """Names of the copies that a later step waits for: a wait is for its tensor's last copy."""
    last: dict[str, str] = {}
    begun = set()
    for name in order:
        move = steps.get(name)
        if move is None:
            continue
        if move.kind != "wait":
            last[move.tensor] = name
        elif move.tensor in last:
            begun.add(last.pop(move.tensor))
    return begun


def least_time(cost: int | float, moved: int, slow: Pool) -> int | float:
    """Lower bound on the cycles of a plan, from the cost of its ops and the cycles of its moves.

    With a copy engine, ops and copies run beside one another at best; reads and writes in a slow
    pool that is ``direct`` take the ops' time.
    """
    if not slow.engine:
        return cost + moved
    beside = -(-(cost + moved) // 2) if slow.direct else moved
    return max(cost, beside)
