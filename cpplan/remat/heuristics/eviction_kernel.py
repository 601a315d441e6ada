"""The compiled loop of greedy eviction."""

# Arrays are described in ``begin_evicting`` and ``run_evicting``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.remat.search.flat_problem import FlatProblem
from cpplan.runtime.loop_compiler import compiled_loop

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Scratch(NamedTuple):
    """Scratch arrays and state of a run.

    Attributes
    ----------
    use_start, uses
        For every storage, the positions in the order of the units that read it, ascending.
    cursor
        For every storage, its next use.
    live, gone, sure, wanted
        Flags of every storage: live, lost for good, can be computed again, and needed later.
    pinned, accessed
        For every storage, the number of waiting units that read it, and its last access.
    done, again
        For every unit, true once it has run, and the cost to run it again with its freed inputs.
    stack
        Units that wait for their inputs; each waits for the next.
    state
        State of a run: position in the order, waiting units, bytes held, units run.
    """

    use_start: Ints
    uses: Ints
    cursor: Ints
    live: Flags
    gone: Flags
    sure: Flags
    wanted: Flags
    pinned: Ints
    accessed: Ints
    done: Flags
    again: Floats
    stack: Ints
    state: Ints


def scratch_for(flat: FlatProblem) -> Scratch:
    """Scratch arrays for runs on one problem, one after another."""
    units, storages = len(flat.extra), len(flat.size)
    return Scratch(
        use_start=np.empty(storages + 1, np.int64),
        uses=np.empty(len(flat.reads), np.int64),
        cursor=np.empty(storages, np.int64),
        live=np.empty(storages, bool),
        gone=np.empty(storages, bool),
        sure=np.empty(storages, bool),
        wanted=np.empty(storages, bool),
        pinned=np.empty(storages, np.int64),
        accessed=np.empty(storages, np.int64),
        done=np.empty(units, bool),
        again=np.empty(units, np.float64),
        stack=np.empty(units + 1, np.int64),
        state=np.empty(4, np.int64),
    )


@compiled_loop
def begin_evicting(flat, order, scratch):
    """Set the scratch of a run that has not run any unit."""
    live, state = scratch.live, scratch.state
    _find_uses(flat, order, scratch)
    held = flat.base
    for s in range(len(flat.size)):
        scratch.cursor[s], live[s] = scratch.use_start[s], flat.present[s]
        scratch.accessed[s], scratch.pinned[s] = 0, 0
        scratch.gone[s], scratch.sure[s], scratch.wanted[s] = False, False, False
        if live[s]:
            held += flat.size[s]
    for unit in range(len(flat.extra)):
        scratch.done[unit], scratch.again[unit] = False, 0.0
    _recoverable(flat, live, scratch.done, scratch.gone, scratch.sure)
    state[0], state[1], state[2], state[3] = 0, 0, held, 0


@compiled_loop
def run_evicting(flat, order, limit, ahead, found, scratch, most):
    """Run the units in order, free values to stay within the limit, and compute them on demand.

    Parameters
    ----------
    flat, order, scratch
        As in :func:`begin_evicting`, which comes first.
    limit
        Bytes.
    ahead
        True to measure the distance ahead to the next use, false back to the last one.
    found
        Filled with the schedule.
    most
        Units and storages to look at, about, before the run is left for another call; at least 1.

    Returns
    -------
    Length of the schedule, -1 if it would be longer than ``found``, or -2 if another call must
    continue. The schedule exceeds the limit if no value is left to free; the caller checks.
    """
    units, storages = len(flat.extra), len(flat.size)
    live, sure, done, again = scratch.live, scratch.sure, scratch.done, scratch.again
    accessed, pinned, stack, cursor = (
        scratch.accessed, scratch.pinned, scratch.stack, scratch.cursor,
    )  # fmt: skip
    state = scratch.state
    first, depth, held, length = state[0], state[1], state[2], state[3]
    seen = 0
    for k in range(first, units + storages):
        now = min(k, units)
        if depth == 0:
            # After the last unit, compute kept storages that were freed.
            if k < units:
                stack[0] = order[k]
            else:
                s = k - units
                if live[s] or not flat.kept[s] or flat.writer[s] < 0:
                    continue
                stack[0] = flat.writer[s]
            depth = 1
            _pin(flat, stack[0], pinned, 1)
        while depth:
            if seen > most:
                state[0], state[1], state[2], state[3] = k, depth, held, length
                return -2
            seen += 1
            unit = stack[depth - 1]
            missing = -1
            for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
                if not live[flat.reads[t]]:
                    missing = flat.reads[t]
                    break
            if missing >= 0:
                if flat.writer[missing] < 0 or length + depth >= len(found):
                    return -1
                stack[depth] = flat.writer[missing]
                _pin(flat, stack[depth], pinned, 1)
                depth += 1
                continue
            need = flat.extra[unit] + (flat.entry if length == 0 else 0)
            for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
                if not live[flat.writes[t]]:
                    need += flat.size[flat.writes[t]]
            if held + need > limit:
                _costs_again(flat, live, done, again)
            # A unit's inputs are never freed for it: a run left here goes on with the next value.
            stuck = False
            while held + need > limit and not stuck and seen <= most:
                s = _victim(scratch, flat, ahead, unit, now, length, units)
                stuck = s < 0
                if not stuck:
                    live[s] = False
                    held -= flat.size[s]
                    if not sure[s]:
                        scratch.gone[s] = True
                        _recoverable(flat, live, done, scratch.gone, sure)
                    _costs_again(flat, live, done, again)
                seen += units + storages
            if held + need > limit and not stuck:
                continue
            if length == len(found):
                return -1
            found[length] = unit
            length += 1
            for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
                s = flat.writes[t]
                if not live[s]:
                    live[s] = True
                    held += flat.size[s]
                accessed[s] = length
            for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
                accessed[flat.reads[t]] = length
            _pin(flat, unit, pinned, -1)
            done[unit] = True
            depth -= 1
        if k < units:
            for t in range(flat.read_start[order[k]], flat.read_start[order[k] + 1]):
                cursor[flat.reads[t]] += 1
    return length


@compiled_loop
def _find_uses(flat, order, scratch):
    """Set the uses of every storage; leaves ``cursor`` at their ends."""
    start, cursor = scratch.use_start, scratch.cursor
    for s in range(len(start)):
        start[s] = 0
    for s in flat.reads:
        start[s + 1] += 1
    for s in range(len(flat.size)):
        start[s + 1] += start[s]
        cursor[s] = start[s]
    for k in range(len(order)):
        for t in range(flat.read_start[order[k]], flat.read_start[order[k] + 1]):
            s = flat.reads[t]
            scratch.uses[cursor[s]] = k
            cursor[s] += 1


@compiled_loop
def _pin(flat, unit, pinned, by):
    for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
        pinned[flat.reads[t]] += by


@compiled_loop
def _recoverable(flat, live, done, gone, sure):
    """Mark in ``sure`` the storages that can be computed again, in ``gone`` those lost for good."""
    for unit in flat.topological:
        possible = flat.repeatable[unit]
        for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
            if gone[flat.reads[t]]:
                possible = False
        for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
            s = flat.writes[t]
            now = possible and flat.writer[s] == unit
            if sure[s] and not now and not live[s] and done[unit]:
                gone[s] = True
            sure[s] = now


@compiled_loop
def _costs_again(flat, live, done, again):
    """Set ``again``: cost of each unit's rerun with the freed values it needs, at most all."""
    most = 0.0
    for unit in range(len(flat.cost)):
        most += flat.cost[unit]
    for unit in flat.topological:
        if done[unit]:
            cost = flat.cost[unit]
            for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
                s = flat.reads[t]
                if not live[s] and flat.writer[s] >= 0:
                    cost += again[flat.writer[s]]
            again[unit] = min(cost, most)


@compiled_loop
def _victim(scratch, flat, ahead, unit, now, length, order_length):
    """The storage to free next, by the largest score, or -1 if none may be freed.

    Storages pinned by units that are waiting for their inputs, and those that cannot be computed
    again, are freed only if there is no other.
    """
    live, pinned, sure, done = scratch.live, scratch.pinned, scratch.sure, scratch.done
    again, accessed, uses = scratch.again, scratch.accessed, scratch.uses
    use_start, cursor, wanted = scratch.use_start, scratch.cursor, scratch.wanted
    best, best_class, best_score = -1, 3, -1.0
    for s in range(len(flat.size)):
        if not live[s] or flat.in_parts[s]:
            continue
        left = cursor[s] < use_start[s + 1]
        if not sure[s] and (left or flat.kept[s]):
            continue
        if _holds(flat, unit, s):
            continue
        if use_start[s] == use_start[s + 1] and not flat.kept[s]:
            return s
        if not sure[s]:
            rank = 2
        elif pinned[s]:
            rank = 1
        else:
            rank = 0
        if rank > best_class:
            continue
        if rank == 2 and (pinned[s] or _needed(flat, live, done, cursor, use_start, wanted, s)):
            continue
        if ahead:
            if left:
                time = uses[cursor[s]] - now + 1.0
            elif flat.kept[s]:
                time = order_length - now + 1.0
            else:
                time = 2.0 * order_length
        else:
            time = length - accessed[s] + 1.0
        cost = again[flat.writer[s]] if flat.writer[s] >= 0 else 1.0
        score = flat.size[s] * time / (cost + 1e-9)
        if rank < best_class or score > best_score:
            best, best_class, best_score = s, rank, score
    return best


@compiled_loop
def _holds(flat, unit, storage):
    """True if the unit reads or writes the storage."""
    for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
        if flat.reads[t] == storage:
            return True
    for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
        if flat.writes[t] == storage:
            return True
    return False


@compiled_loop
def _needed(flat, live, done, cursor, use_start, wanted, storage):
    """True if a freed value that is used later can be computed only with this storage."""
    for s in range(len(wanted)):
        later = cursor[s] < use_start[s + 1] or flat.kept[s]
        wanted[s] = not live[s] and later and flat.writer[s] >= 0 and done[flat.writer[s]]
    for k in range(len(flat.topological) - 1, -1, -1):
        unit = flat.topological[k]
        for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
            if wanted[flat.writes[t]]:
                for r in range(flat.read_start[unit], flat.read_start[unit + 1]):
                    if flat.reads[r] == storage:
                        return True
                    if not live[flat.reads[r]]:
                        wanted[flat.reads[r]] = True
    return False
