"""Gaps and offsets chosen together, by packing retentions again and again below the capacity.

All retentions of a good choice of gaps are placed by insertion. If some wait for long, the gap is
dropped that makes the most room beside them for its cost; then insertion goes on. Once all are
placed, the packing is improved: one more gap is kept, cheaper ones are dropped where its bytes do
not fit, others are kept where these make room, and insertion must place the retentions that this
changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.packing.loops import INSERTION
from cpplan.packing.tuning import active as packing_tuning
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.problem import Flags, SpillProblem
from cpplan.spilling.search.addresses import Placed
from cpplan.spilling.search.partial_packing import PartialPacking
from cpplan.spilling.tuning import active

NAME = "evictions by insertion"
# Deterministic seconds of one call of the kernel.
_CALL = 4e-3
# Deterministic seconds to choose other gaps and to begin with them: always, and per access.
_BEGIN, _BEGIN_AN_ACCESS = 5e-4, 2e-6
# Calls between two looks at the cost if all that waits were dropped.
_LOOK = 3

Floats = NDArray[np.float64]
# Gaps kept, offsets of accesses, and learned weights.
_State = tuple[Flags, Ints, Floats]


def applies_to(problem: SpillProblem) -> bool:
    """True if no op may write over an input, no bytes are immovable, and gaps are not too many."""
    few = len(problem.gap_storage) <= active().repacked_gaps
    few &= len(problem.names) <= packing_tuning().insertion_buffers
    return few and not len(problem.credit_step) and not problem.base.any()


class Repacking:
    """The search; see the module's docstring.

    Parameters
    ----------
    problem, align, capacity, seed
        As in :class:`~cpplan.spilling.search.partial_packing.PartialPacking`.
    """

    def __init__(self, problem: SpillProblem, align: Sequence[int], capacity: int, seed: int):
        self.problem = problem
        self.packing = PartialPacking(problem, align, capacity, seed)
        self.rng = np.random.default_rng(seed)
        of, after = problem.gap_storage, problem.gap_after
        near = problem.access_near[after]
        reload = problem.reload_cost[of]
        reload = np.where(near, reload, np.minimum(reload, problem.access_cost[after]))
        self._reload: Ints = np.where(after >= 0, reload, 0)
        # Inputs kept to the end are kept or dropped as a whole, which these changes do not do.
        self._free: Flags = (problem.gap_fixed < 0) & ~problem.stay[of]
        self._begin_work = _BEGIN + _BEGIN_AN_ACCESS * len(problem.access_step)
        self._length: Ints = problem.gap_upper - problem.gap_lower

    def run(self, kept: Flags, deadline: Deadline, target: int) -> Placed | None:
        """Best packing found from these gaps until the deadline; ``None`` if there is none."""
        if not prepare(INSERTION, deadline):
            return None
        if not self._settle(kept, deadline.share(active().settling_share)):
            return None
        return self._improve(self._placed(), deadline, target)

    def _placed(self) -> Placed:
        packing = self.packing
        return Placed(packing.kept.copy(), self._paid(packing.kept), packing.places())

    def _paid(self, kept: Flags) -> int:
        return int(self.problem.paid(kept).sum())

    def _begin(self, deadline: Deadline, kept: Flags, places: Ints, weights: Floats | None) -> None:
        deadline.spend(self._begin_work)
        self.packing.begin(kept, places, weights)

    def _move(self, deadline: Deadline) -> bool:
        """Make the moves of one call."""
        work = self.packing.move_work
        moves = max(1, int(_CALL / max(work, 1e-12)))
        deadline.spend(work * moves)
        return self.packing.move(moves)

    def _settle(self, kept: Flags, deadline: Deadline) -> bool:
        """Place all retentions, and drop gaps until they fit; return true if they do."""
        packing, tuning = self.packing, active()
        nowhere = np.full(len(self.problem.access_step), -1, np.int64)
        self._begin(deadline, kept, nowhere, None)
        alone = tuning.insertions_a_retention * len(packing.size) * packing.move_work
        whole = deadline.remaining()
        patience = min(alone, tuning.first_patience * whole)
        best, waited, state = -1, 0.0, None
        while not deadline.expired():
            if self._move(deadline):
                return True
            left = int(packing.size[packing.waiting].sum())
            waited += _CALL
            if state is None or left < best:
                best, waited, state = left, 0.0, self._state()
            if waited > patience:
                if not self._drop_one(state, deadline):
                    break
                patience, waited, state = min(alone, tuning.patience * whole), 0.0, None
        return self._drop_waiting(state)

    def _state(self) -> _State:
        packing = self.packing
        return packing.kept, packing.places(), packing.penalty()

    def _drop_waiting(self, state: _State | None) -> bool:
        """Drop all gaps of what waits in a state; return true if the rest is a packing."""
        packing = self.packing
        if state is not None:
            packing.begin(*state)
        packing.begin(self._without_waiting(), packing.places())
        return not len(packing.waiting)

    def _without_waiting(self) -> Flags:
        kept: Flags = self.packing.kept.copy()
        for retention in self.packing.waiting.tolist():
            kept[self.packing.gaps_of(retention)] = False
        kept |= ~self._free & self.packing.kept
        return kept

    def _drop_one(self, state: _State, deadline: Deadline) -> bool:
        """Drop the gap that makes the most room for the retentions that wait, for its cost."""
        problem, packing = self.problem, self.packing
        self._begin(deadline, *state)
        gaps = np.flatnonzero(packing.kept & self._free)
        if not len(gaps):
            return False
        size = problem.size[problem.gap_storage[gaps]]
        made: Floats = np.zeros(len(gaps))
        for retention in packing.waiting.tolist():
            lower = np.maximum(packing.lower[retention], problem.gap_lower[gaps])
            upper = np.minimum(packing.upper[retention], problem.gap_upper[gaps])
            beside = active().room_beside * np.minimum(packing.size[retention], size)
            own = np.isin(gaps, packing.gaps_of(retention))
            room = np.where(own, packing.size[retention], beside)
            made = made + np.maximum(upper - lower, 0) * room
        cost = self._losses(packing.kept, gaps) / np.maximum(made, 1e-9)
        kept = packing.kept.copy()
        kept[gaps[np.argmin(cost)]] = False
        self._begin(deadline, kept, *state[1:])
        return True

    def _losses(self, kept: Flags, gaps: Ints) -> Floats:
        """Cost of dropping each of these gaps alone."""
        problem, storage = self.problem, self.problem.gap_storage[gaps]
        dropped = np.zeros(len(problem.names), bool)
        dropped[problem.gap_storage[~kept]] = True
        clean = dropped[storage] | (problem.gap_before[gaps] < 0)
        loss = self._reload[gaps] + np.where(clean, 0, problem.spill_cost[storage])
        return loss.astype(np.float64)

    def _improve(self, best: Placed, deadline: Deadline, target: int) -> Placed:
        """Keep one more gap, and drop others, as long as that costs less."""
        tries = np.zeros(len(self._reload))
        for _ in range(active().repacking_turns):
            dropped = np.flatnonzero(~best.kept & self._free)
            if best.paid <= target or deadline.expired() or not len(dropped):
                break
            deadline.spend(self._begin_work)
            gap = self._drawn(best.kept, dropped, tries)
            tries[gap] += 1
            kept = self._fitting(best, gap)
            if kept is not None and self._repack(kept, best, deadline):
                best = self._placed()
                tries *= 0.5
        return best

    def _drawn(self, kept: Flags, dropped: Ints, tries: Floats) -> int:
        """Random dropped gap; likelier if it is dear, short and was seldom tried."""
        again = np.where(self._spilled_once(kept, dropped), self._spill(dropped), 0)
        saved = (self._reload[dropped] + again) / np.sqrt(1.0 + self._length[dropped])
        chance = (saved + 1e-9) / (1 + tries[dropped])
        return int(self.rng.choice(dropped, p=chance / chance.sum()))

    def _spilled_once(self, kept: Flags, gaps: Ints) -> Flags:
        """True for gaps that are the only one dropped of their storage."""
        count = np.bincount(self.problem.gap_storage[~kept], minlength=len(self.problem.names))
        found: Flags = count[self.problem.gap_storage[gaps]] == 1
        return found

    def _spill(self, gaps: Ints) -> Ints:
        found: Ints = self.problem.spill_cost[self.problem.gap_storage[gaps]]
        return found

    def _fitting(self, best: Placed, gap: int) -> Flags | None:
        """The gaps of a packing and one more, without cheap ones where their bytes do not fit.

        If that costs more, other gaps are kept where gaps were dropped. Returns ``None`` if it
        still would not cost less.
        """
        problem, noise = self.problem, active().repacking_noise
        kept: Flags = best.kept.copy()
        kept[gap] = True
        dropped: list[int] = []
        while ((over := problem.load(kept) - problem.capacity) > 0).any():
            upto = np.concatenate([[0], np.cumsum(over > 0)])
            full = upto[problem.gap_upper] - upto[problem.gap_lower]
            gaps = np.flatnonzero(kept & self._free & (full > 0))
            gaps = gaps[gaps != gap]
            if not len(gaps) or len(dropped) == active().most_dropped:
                return None
            room = np.minimum(problem.room[problem.gap_storage[gaps]], over.max())
            cost = self._losses(kept, gaps) / np.maximum(room * full[gaps], 1)
            worst = int(gaps[np.argmin(cost * self.rng.uniform(1 - noise, 1 + noise, len(gaps)))])
            kept[worst] = False
            dropped.append(worst)
        if self._paid(kept) >= best.paid:
            self._keep_beside(dropped, best.kept, kept)
        return kept if self._paid(kept) < best.paid else None

    def _keep_beside(self, dropped: Sequence[int], before: Flags, kept: Flags) -> None:
        """Keep gaps that fit where others have just been dropped, the most saved a byte first."""
        problem = self.problem
        free = problem.capacity - problem.load(kept)
        beside = np.zeros(len(kept), bool)
        for gap in dropped:
            beside |= (problem.gap_lower < problem.gap_upper[gap]) & (
                problem.gap_upper > problem.gap_lower[gap]
            )
        gaps = np.flatnonzero(beside & ~before & ~kept & self._free)
        room = problem.room[problem.gap_storage[gaps]]
        again = np.where(self._spilled_once(kept, gaps), self._spill(gaps), 0)
        saved = (self._reload[gaps] + again) / np.maximum(room * self._length[gaps], 1)
        for gap in gaps[np.argsort(-saved, kind="stable")].tolist():
            steps = slice(problem.gap_lower[gap], problem.gap_upper[gap])
            size = problem.room[problem.gap_storage[gap]]
            if (free[steps] >= size).all():
                kept[gap] = True
                free[steps] -= size

    def _repack(self, kept: Flags, best: Placed, deadline: Deadline) -> bool:
        """Place what changes from a packing to these gaps; true if the result costs less."""
        packing = self.packing
        self._begin(deadline, kept, best.places, None)
        least, waited = -1, 0
        for call in range(1, active().repacking_calls + 1):
            if self._move(deadline):
                return True
            left = int(packing.size[packing.waiting].sum())
            waited += 1
            if least < 0 or left < least:
                least, waited = left, 0
            if call % _LOOK == 0 and self._paid(self._without_waiting()) < best.paid:
                return self._drop_waiting(None)
            if waited > active().calls_waited or deadline.expired():
                break
        return False
