"""Search for a schedule and its offsets together.

A schedule whose live bytes fit may have no packing that fits: if about as many bytes are live at
all steps, packing loses a tenth. In this search every retention (retention interval) always has an
offset below the limit, and retentions may share bytes. The search begins with the packing that
exceeded the limit: retentions that end above it move down, over others. First, retentions are
separated with the schedule unchanged. Then runs and offsets change together by simulated annealing,
with a price on shared bytes beside the cost of the runs: either a retention moves, or its value is
computed again later, whichever is cheaper. If no packing fits, the same is tried on schedules with
fewer live bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.remat_problem import RematProblem
from cpplan.model.residency import Residency
from cpplan.remat.loops import PACKED_SCHEDULES
from cpplan.remat.search.flat_problem import flatten
from cpplan.remat.search.local_search import Cooling, search_schedules
from cpplan.remat.search.packed_kernel import anneal_packed, space_for
from cpplan.remat.search.retention_buffers import RetentionBuffers, Retentions, separate_retentions
from cpplan.remat.search.retention_kernel import find_retentions, measure_runs, place_all
from cpplan.remat.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets

# Moves for each run in the search for schedule and offsets together: of the first round and of
# all rounds; their growth from round to round.
_PACKED_FIRST_MOVES = 300
_PACKED_MOST_MOVES = 100_000
_PACKED_GROWTH = 1.5
# Moves for each retention that separate retentions while the schedule is unchanged.
_PACKED_SEPARATIONS = 1000
# Temperatures at the start and at the end of a round. If the packing fits, in mean costs of a
# unit; if it does not, as shares of the limit; with a low price of shared bytes, in mean costs of
# a unit.
_PACKED_HEATS = (0.3, 0.01)
_PACKED_REPAIR_HEATS = (1e-4, 4e-6)
_PACKED_WARM_HEATS = (1.0, 0.01)
# First price, and the low price, of sharing as many bytes as the limit, in mean costs of a unit.
_PACKED_PRICE = 20_000.0
_PACKED_WARM_PRICE = 1000.0
# Divisor of the price after a round that fits, and its factor after a round that does not.
_PACKED_FALL = 1.3
_PACKED_RISE = 2.0
# Shares of the time left for separating the start, for repairing it, and for rounds with a low
# price.
_PACKED_START_SHARE = 0.1
_PACKED_REPAIR_SHARE = 0.3
_PACKED_WARM_SHARE = 0.15
# Share of the arena that may be shared for a packing to be repaired.
_PACKED_NEAR = 0.03
# Largest share of the arena that schedules with fewer live bytes leave free; more costs runs.
_PACKED_SLACK = 0.1
# Number of such schedules tried, and share of the time left for finding each.
_PACKED_TURNS = 5
_PACKED_FEWER_SHARE = 0.5
# Most runs of a schedule, as a multiple of the units and of the start.
_PACKED_ROOM = 3

NAME = "packed search"

# Moves times runs visited in a second, about, and the overhead of a move, in runs, for deadlines
# that count work.
_RATE, _BESIDES = 1e7, 15
# Moves times runs in one call of the compiled loop.
_CALL = 1e6


class PackedSchedule(NamedTuple):
    """A schedule with a packing that fits.

    Attributes
    ----------
    schedule
        Units in order of execution, some of them repeated.
    offsets
        Offsets of the buffers of
        ``to_problem(Program(graph, problem.expand(schedule)), residency)``, bytes, shape
        ``(buffers,)``.
    peak
        The largest end of a buffer, within the limit.
    cost
        Cost of running the schedule.
    """

    schedule: tuple[int, ...]
    offsets: Ints
    peak: int
    cost: int | float


def search_packed(
    problem: RematProblem,
    limit: int,
    start: Iterable[int],
    budget: Budget,
    *,
    residency: Residency | None = None,
    target_cost: float = 0,
    joint: bool = True,
    moves: int | None = None,
    offsets: Ints | None = None,
    report: Callable[[PackedSchedule], None] = lambda found: None,
) -> PackedSchedule | None:
    """The cheapest schedule found with an arena of ``limit`` bytes; ``None`` if none was found.

    Parameters
    ----------
    problem
        The rematerialization problem.
    limit
        Bytes of the arena.
    start
        A valid schedule. The fewer live bytes it has, the sooner a packing fits.
    budget
        When its deadline passes, the best schedule so far is returned. Its seed is that of the
        moves.
    residency
        Residency with which ``problem`` was made.
    target_cost
        A cost that is good enough.
    joint
        True if the order may change; else first runs keep the start's order.
    moves
        Most moves to try; if ``None``, moves end with the deadline, or after about an hour.
    offsets
        First offsets of the start's buffers, from a packing that need not fit.
    report
        Called at every better schedule that fits.
    """
    deadline, schedule = budget.deadline, np.fromiter(start, np.int64)
    buffers = RetentionBuffers(problem, residency or Residency(), limit)
    largest = int(max(problem.ordering.size.max(initial=0), buffers.extra.max(initial=0)))
    if buffers.room < max(largest, buffers.entry) or not len(problem):
        return None
    if not prepare(PACKED_SCHEDULES, deadline):
        return None
    walk = _Walk(problem, buffers, schedule, budget.seed, joint=joint, offsets=offsets)
    walk.separate(deadline.share(_PACKED_START_SHARE), _PACKED_SEPARATIONS)
    tried = _PACKED_FIRST_MOVES * len(schedule) if moves is None else moves // 2
    _repair(walk, tried, deadline, explore=moves is None)
    for turn in range(_PACKED_TURNS if moves is None else 1):
        if not joint or walk.fits or deadline.expired():
            break
        fewer = search_schedules(
            problem,
            limit - int(min(walk.lacking, _PACKED_SLACK) * buffers.room),
            schedule,
            budget.share(_PACKED_FEWER_SHARE).reseeded(turn),
            target_cost=target_cost,
            moves=moves,
        )
        other = _Walk(
            problem, buffers, np.array(fewer.schedule, np.int64), budget.seed, joint=joint
        )
        other.separate(deadline, 2 * _PACKED_SEPARATIONS)
        _repair(other, tried, deadline, explore=moves is None)
        if other.lacking < walk.lacking:
            walk, schedule = other, np.array(fewer.schedule, np.int64)
    target = max(target_cost, problem.total_cost(range(len(problem))))
    left = _PACKED_MOST_MOVES * len(schedule) if moves is None else moves
    best: PackedSchedule | None = None
    size = _PACKED_FIRST_MOVES * len(schedule)
    while True:
        if walk.fits and (best is None or walk.cost < best.cost):
            made = walk.packed()
            if best is None or made.cost < best.cost:
                best = made
                report(best)
        if left <= 0 or deadline.expired() or (best is not None and best.cost <= target):
            return best
        tried = min(left, size)
        walk.round(tried, deadline)
        walk.separate(deadline, _PACKED_SEPARATIONS)
        left, size = left - tried, int(size * _PACKED_GROWTH)


def _repair(walk: _Walk, moves: int, deadline: Deadline, *, explore: bool) -> None:
    """Search near a schedule that lacks little room; if it still does not fit, further off."""
    if 0 < walk.lacking < _PACKED_NEAR:
        walk.round(moves, deadline.share(_PACKED_REPAIR_SHARE))
    if not walk.fits and explore:
        _explore(walk, moves, deadline.share(_PACKED_WARM_SHARE))


def _explore(walk: _Walk, moves: int, deadline: Deadline) -> None:
    """Run rounds with a low first price of shared bytes, which often solves small problems."""
    while not (walk.fits or deadline.expired()):
        walk.round(moves, deadline, warm=True)
        moves = int(moves * _PACKED_GROWTH)


class _Slots(NamedTuple):
    """Slots of a schedule: all that are in use, by first position; of retentions; of blocks.

    ``begin`` and ``end`` are the first and last positions of every slot.
    """

    begin: Ints
    end: Ints
    active: Ints
    retentions: Ints
    blocks: Ints


class _Walk:
    """One annealing round after another, from the best schedule so far."""

    def __init__(
        self,
        problem: RematProblem,
        buffers: RetentionBuffers,
        start: Ints,
        seed: int,
        *,
        joint: bool,
        offsets: Ints | None = None,
    ):
        self._problem, self._buffers, self._joint = problem, buffers, joint
        self._tuning = active()
        self._random = np.random.default_rng(seed)
        flat = flatten(problem)._replace(extra=buffers.extra, entry=buffers.entry)
        self._flat = flat
        self._mean = float(flat.cost.mean()) or 1.0
        self._price, self._warm_price = _PACKED_PRICE, _PACKED_WARM_PRICE
        written = int(np.diff(flat.write_start).max(initial=0))
        self._slots = written + bool(buffers.extra.any())
        room = _PACKED_ROOM * (len(problem) + len(start)) + 16
        storages = len(flat.size)
        total = storages + room * self._slots + 1
        self._size, self._align, self._off = (np.zeros(total, np.int64) for _ in range(3))
        self._align[:] = 1
        self._size[:storages], self._size[-1] = flat.size, buffers.entry
        self._align[:storages], self._align[-1] = buffers.alignment, buffers.inner_alignment
        self._schedule, self._runs = np.zeros(room, np.int64), np.zeros(room, np.int64)
        length = len(start)
        self._schedule[:length], self._runs[:length] = start, np.arange(length)
        self._measure(self._schedule, self._runs, length)
        shared = self._place(length) if offsets is None else self._take(length, offsets)
        self._best = self._schedule.copy(), self._runs.copy(), self._off.copy()
        self._result = np.array([length, shared, flat.cost[start].sum()], np.float64)

    def _place(self, length: int) -> int:
        """Place all retentions, one after another; return the bytes that they share."""
        shared: int = place_all(
            self._random, self._flat, self._slots, self._schedule, self._runs, length,
            self._buffers.room, self._align, self._off, self._size,
        )  # fmt: skip
        return shared

    def _take(self, length: int, offsets: Ints) -> int:
        """Take offsets of buffers, at most the highest within the limit; return bytes shared."""
        from cpplan.remat.search.retention_kernel import all_shared

        units = tuple(self._schedule[:length].tolist())
        begun, blocks, entry = self._buffers.retentions(units, offsets)
        found, off = self._find(self._schedule, self._runs, length), self._off
        off[found.blocks], off[-1] = blocks, entry
        off[found.retentions] = begun
        np.minimum(off, self._buffers.room - self._size, out=off)
        off -= off % self._align
        np.maximum(off, 0, out=off)
        pending = np.zeros(len(off), np.bool_)
        shared: int = all_shared(
            found.begin, found.end, found.active, len(found.active), off, self._size, pending
        )
        return shared

    @property
    def fits(self) -> bool:
        return bool(self._result[1] == 0)

    @property
    def lacking(self) -> float:
        """Bytes shared, as a part of the arena."""
        return float(self._result[1]) / max(1, self._buffers.room)

    @property
    def cost(self) -> float:
        return float(self._result[2])

    def packed(self) -> PackedSchedule:
        """The best schedule so far, which must fit, with its offsets."""
        schedule, runs, off = self._best
        length = int(self._result[0])
        found = self._find(schedule, runs, length)
        units = tuple(schedule[:length].tolist())
        buffers, offsets = self._buffers.offsets(
            units, off[found.retentions], off[found.blocks], int(off[-1])
        )
        check_offsets(buffers, offsets, NAME)
        peak = int((offsets + buffers.size).max(initial=0))
        return PackedSchedule(units, offsets, peak, self._problem.total_cost(units))

    def _find(self, schedule: Ints, runs: Ints, length: int) -> _Slots:
        """The slots of a schedule."""
        begin, end, stop, active = (np.zeros(len(self._off), np.int64) for _ in range(4))
        count = find_retentions(
            self._flat, self._slots, schedule, runs, length, begin, end, stop, active,
            np.empty(len(self._flat.size), np.int64),
        )  # fmt: skip
        active = active[:count]
        blocks = len(self._flat.size) + (runs[:length] + 1) * self._slots - 1
        inner = np.isin(active, blocks) if self._flat.extra.any() else np.zeros(count, bool)
        retentions = active[~inner & (active < len(self._off) - 1)]
        return _Slots(begin, end, active, retentions, blocks)

    def separate(self, deadline: Deadline, moves: int) -> None:
        """Change the best offsets so that retentions share fewer bytes; ``moves`` for each."""
        schedule, runs, off = self._best
        length = int(self._result[0])
        self._measure(schedule, runs, length)
        begin, end, slots, *_ = self._find(schedule, runs, length)
        count = len(slots)
        if self.fits or count > self._tuning.most_retentions:
            return
        retentions = Retentions(begin[slots], end[slots] + 1, self._size[slots], self._align[slots])
        offsets, shared = separate_retentions(
            retentions, off[slots], self._buffers.room, deadline, self._random, moves=moves * count
        )
        if shared < self._result[1]:
            off[slots], self._result[1] = offsets, shared

    def round(self, moves: int, deadline: Deadline, *, warm: bool = False) -> None:
        """Anneal runs and offsets once."""
        length = int(self._result[0])
        best_schedule, best_runs, best_off = self._best
        schedule, runs, off = best_schedule.copy(), best_runs.copy(), best_off.copy()
        # The walk may have reused slots of the best schedule since, so measure them again.
        self._measure(schedule, runs, length)
        calls = max(1, int(moves * length / _CALL))
        price = (self._warm_price if warm else self._price) * self._mean
        bounds = _PACKED_HEATS if self.fits else _PACKED_REPAIR_HEATS
        bounds = _PACKED_WARM_HEATS if warm else bounds
        scale = self._mean if self.fits or warm else price
        cooling = Cooling(scale * bounds[0], scale * bounds[1], calls, deadline)
        for call in range(calls):
            if deadline.expired():
                break
            hot, cold = cooling.step(call)
            length = anneal_packed(
                self._flat, self._slots, self._buffers.room, self._align, schedule, runs, length,
                off, self._size, self._best, self._result, moves // calls,
                price / max(1, self._buffers.room), hot, cold,
                float(len(self._problem)), self._joint, self._random,
                space_for(self._flat, len(schedule), len(off)),
            )  # fmt: skip
            deadline.spend(moves // calls * (length + _BESIDES) / _RATE)
        if warm:
            self._warm_price *= _PACKED_RISE
        elif self.fits:
            self._price /= _PACKED_FALL
        else:
            self._price *= _PACKED_RISE

    def _measure(self, schedule: Ints, runs: Ints, length: int) -> None:
        """Set the sizes and alignments of the retentions and blocks that the runs begin."""
        measure_runs(self._flat, self._slots, schedule, runs, length, self._align, self._size)
