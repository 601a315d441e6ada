"""Lower bounds on the peak of every schedule, from the bytes live while one unit runs.

Lower bounds on the memory needed to reach a unit, however often other units run before it.

The search goes backwards. While a unit runs, all values that it reads are live. One of them was
begun last. While its writer ran, the other values were already live, and so were the values that
the writer reads. This continues until only values from the start remain. Each such sequence of
writers is a way back, and its bytes are those of its largest step. The unit needs at least the
bytes of the cheapest way. These are moves of the pebble game (Sethi, "Complete register allocation
problems", 1975), backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.model.remat_problem import RematProblem
from cpplan.ordering.bounds import order_bounds
from cpplan.remat.search.flat_problem import flatten
from cpplan.runtime.deadline import Deadline

# Sets of values visited in the proof that there is no schedule.
_REACH_STATES = 200_000
# Sets of values visited for one unit.
_REACH_STATES_OF_ONE = 50_000

# Sets visited in a second, about, for deadlines that count work; sets between two looks at the
# deadline.
_RATE, _UNWATCHED = 2e4, 100
FOOTPRINT = "least footprint"
REACH = "least reach"
CHAIN = "optimum of the chain"
CUTS, COST_AT_CUTS = "live bytes at cuts", "cost at cuts"


class Footprint(NamedTuple):
    """Bytes that every schedule needs, and the unit during which it needs them.

    Attributes
    ----------
    bytes
        Lower bound on the peak of every schedule.
    unit
        The unit during which these bytes are live; ``None`` if they are live at the end.
    """

    bytes: int
    unit: int | None


def least_footprint(
    problem: RematProblem,
    order: Sequence[int] | None = None,
    deadline: Deadline | None = None,
) -> Footprint:
    """The least bytes that some unit, or the end of every schedule, needs.

    During the first run of a unit, these bytes are live:

    * the storages that it reads and writes, its workspaces, and the bytes that its bodies hold at
      once;
    * all storages that are live throughout;
    * every storage for which three conditions hold. It cannot be computed twice: it is there from
      the start, or written only by ops that may run once (``Op.recomputable``, ``Op.sequence``). It
      exists by then: it is there from the start, or the unit waits for a unit that accesses it. It
      is needed later: it is kept, or a unit that accesses it waits for this unit.

    At the end, all kept storages are live. ``cpplan.verification.footprint`` proves this bound
    again. O((units + storages) × units / 64) words.

    Parameters
    ----------
    problem
        The problem.
    order
        A valid order of the units: those with few bytes in it are left out, as they cannot raise
        the bound.
    deadline
        Ends the work when it passes; the bound holds nevertheless.
    """
    ordering = problem.ordering
    again = np.zeros(len(ordering.size), bool)
    # Any program may repeat these ops, even if the search does not.
    again[list(problem.begun_again)] = True
    extra = ordering.extra.copy()
    for unit, storages in enumerate(ordering.accesses):
        extra[unit] += sum(int(ordering.size[s]) for s in storages if again[s])
    once = np.flatnonzero(~again)
    forced = order_bounds(
        replace(
            ordering,
            extra=extra,
            size=ordering.size[once],
            accessed_by=tuple(ordering.accessed_by[s] for s in once.tolist()),
            present=ordering.present[once],
            kept=ordering.kept[once],
            storages=(),
        ),
        order=None if order is None else np.array(order, np.int64),
        deadline=deadline,
    ).forced
    end = int(ordering.base + ordering.size[ordering.kept].sum())
    if not len(problem):
        return Footprint(end + int(ordering.entry), None)
    unit = int(forced.argmax())
    if end > forced[unit]:
        return Footprint(end, None)
    return Footprint(int(forced[unit]), unit)


def accessed_footprint(ordering: OrderProblem) -> Footprint:
    """The most bytes that one op accesses, or that stay at the end; O(accesses).

    Never more than :func:`least_footprint`, of ops instead of units.
    """
    sizes, lists = ordering.size.tolist(), ordering.accesses
    own = ordering.base + ordering.extra
    own = own + np.array([sum([sizes[m] for m in storages]) for storages in lists], np.int64)
    end = int(ordering.base + ordering.size[ordering.kept].sum())
    most = int(own.max(initial=0))
    return Footprint(end, None) if end >= most else Footprint(most, int(own.argmax()))


def shared_footprint(problem: RematProblem, candidates: Iterable[AliasCandidate]) -> Footprint:
    """The least bytes that some unit needs, for any choice of these alias candidates.

    During a unit, these bytes are live: the storages that it accesses, the bytes that its bodies
    hold at once, and the storages that are live throughout and accessed by no unit. A storage that
    the unit may write in place does not count. Among storages of placement candidates, only the
    largest counts, since all others may lie within it. ``cpplan.verification.footprint`` proves
    this bound again. O(accesses + candidates).
    """
    ordering = problem.ordering
    row = {name: k for k, name in enumerate(ordering.storages)}
    unit_of = {op: unit for unit, ops in enumerate(problem.units) for op in ops}
    copied: set[int] = set()
    written: dict[int, set[int]] = {}
    for candidate in candidates:
        if candidate.in_place:
            written.setdefault(unit_of[candidate.op], set()).add(row[candidate.inner])
        else:
            copied |= {row[candidate.inner], row[candidate.outer]}
    best = Footprint(ordering.base, None)
    for unit, storages in enumerate(ordering.accesses):
        own = {*storages} - written.get(unit, set())
        largest = max((int(ordering.size[s]) for s in own & copied), default=0)
        need = largest + sum(int(ordering.size[s]) for s in own - copied)
        need += int(ordering.base + ordering.extra[unit])
        if need > best.bytes:
            best = Footprint(need, unit)
    return best


def accessed_bytes(problem: RematProblem) -> Ints:
    """Bytes of the storages that every unit accesses and of its workspaces, shape ``(units,)``."""
    ordering = problem.ordering
    found: Ints = ordering.extra.copy()
    for unit, storages in enumerate(ordering.accesses):
        found[unit] += int(ordering.size[list(storages)].sum())
    return found


def reach_bound(
    problem: RematProblem,
    deadline: Deadline,
    *,
    target: int | None = None,
    states: int | None = None,
) -> Footprint:
    """Bytes that every schedule needs, and the unit that cannot be reached with less.

    Never less than :func:`~cpplan.remat.footprint.least_footprint`. Units are searched in
    descending order of the bytes they need by themselves, while sets and time last.

    Parameters
    ----------
    target
        A bound that is good enough: one above the limit proves that nothing fits.
    states
        Most sets of values to visit; by default ``RematTuning.reach_states``.
    """
    if states is None:
        states = _REACH_STATES
    best = least_footprint(problem)
    ways = _Ways(problem)
    own = ways.own_bytes()
    for unit in sorted(range(len(problem)), key=lambda unit: -own[unit]):
        left = min(states, _REACH_STATES_OF_ONE)
        while left > 0 and not deadline.expired() and (target is None or best.bytes < target):
            beyond, looked = ways.least_beyond(unit, best.bytes, left, deadline)
            left, states = left - looked, states - looked
            if beyond is None:
                break
            best = Footprint(beyond, unit)
        if states <= 0 or deadline.expired():
            break
    return best


class _Ways:
    """Search backwards over sets of storages, each the bits of an integer."""

    def __init__(self, problem: RematProblem):
        flat = flatten(problem)
        self._problem = problem
        self._size: list[int] = flat.size.tolist()
        self._extra: list[int] = (flat.extra + flat.base).tolist()
        self._writer: list[int] = flat.writer.tolist()
        self._reads = [sum(1 << s for s in storages) for storages in problem.reads]
        self._writes = [sum(1 << s for s in storages) for storages in problem.writes]
        # Leave out storages whose begin is not known: those begun by several units, and those from
        # the start that an op may write again.
        unclear = (flat.writer < 0) & ~flat.present
        unclear[list(problem.begun_again & set(np.flatnonzero(flat.present).tolist()))] = True
        self._known = sum(1 << s for s in np.flatnonzero(~unclear).tolist())
        self._fixed = sum(1 << s for s in np.flatnonzero(flat.present).tolist())
        self._reached: set[int] = set()

    def own_bytes(self) -> list[int]:
        """Bytes that every unit needs by itself."""
        units = range(len(self._problem))
        return [self._bytes(self._reads[u] | self._writes[u]) + self._extra[u] for u in units]

    def least_beyond(
        self, unit: int, level: int, states: int, deadline: Deadline
    ) -> tuple[int | None, int]:
        """The next level at which the unit may be reached, and the number of sets visited.

        The level is ``None`` if the unit can be reached at this one, or if the sets or the time run
        out before that is decided.
        """
        own = self._bytes(self._reads[unit] | self._writes[unit]) + self._extra[unit]
        if own > level:
            return own, 1
        start = self._reads[unit] & self._known
        queue = [(self._bytes(start), start)]
        seen, beyond, looked = {start}, None, 0
        parent: dict[int, int] = {}
        while queue:
            _, held = heappop(queue)
            if not held & ~self._fixed or held in self._reached:
                while held in parent:
                    self._reached.add(held)
                    held = parent[held]
                self._reached.add(start)
                return None, looked
            looked += 1
            if looked % _UNWATCHED == 0:
                deadline.spend(_UNWATCHED / _RATE)
            if looked >= states or (looked % _UNWATCHED == 0 and deadline.expired()):
                return None, looked
            steps = self._steps_back(held)
            # A subset of the set is never harder to reach: no other way needs to be tried.
            easy = [step for step in steps if step[0] <= level and not step[1] & ~held][:1]
            for need, before in easy or steps:
                if need > level:
                    beyond = need if beyond is None else min(beyond, need)
                elif before not in seen:
                    seen.add(before)
                    parent[before] = held
                    heappush(queue, (self._bytes(before), before))
        return beyond, looked

    def _steps_back(self, held: int) -> list[tuple[int, int]]:
        """Bytes live during its run, and the set before it, for each possible last writer."""
        found, left = [], held & ~self._fixed
        total = self._bytes(held)
        while left:
            writer = self._writer[(left & -left).bit_length() - 1]
            reads, writes = self._reads[writer], self._writes[writer]
            left &= ~writes
            need = total + self._bytes((reads | writes) & ~held) + self._extra[writer]
            found.append((need, (held & ~writes | reads) & self._known))
        return found

    def _bytes(self, storages: int) -> int:
        total = 0
        while storages:
            total += self._size[(storages & -storages).bit_length() - 1]
            storages &= storages - 1
        return total
