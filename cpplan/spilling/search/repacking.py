"""Gaps and offsets chosen together, by packing retentions again and again below the capacity.

First, gaps are chosen without offsets so that a small part of the fast pool stays empty, and all
retentions are placed by insertion. The smaller this margin, the cheaper is the choice, and the
harder is its packing. Then the best packing is improved: one more gap is kept, cheaper ones are
dropped where its bytes do not fit, others are kept where these make room, and insertion must place
the retentions that this changes, in a window of steps around the gap. Nothing is written over an
input here, though other searches may do so.
"""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.packing.search.insertion_search import INSERTION_LEARNING
from cpplan.packing.tuning import active as packing_tuning
from cpplan.runtime.compiled import COMPILING_SHARE, prepare
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.loops import REPACKING
from cpplan.spilling.search.address_arrays import flatten_problem
from cpplan.spilling.search.addresses import Placed
from cpplan.spilling.search.gap_arrays import GapState, Rows, make_rows, make_state, with_sections
from cpplan.spilling.tuning import active

# Most changes of such a choice, and most time for them, as a share of the time left.
_CHOICE_SHARE = 0.1
# Margins as parts of the pool, tried one after another until no choice of one can be packed;
# and if the first one's choice cannot, until one can.
_SMALLER_MARGINS = (0.05, 0.03, 0.02, 0.014, 0.01, 0.007, 0.005, 0.0035)
# Most choices tried for each of these margins.
_MARGIN_CHOICES = 2
# Most gaps for which retentions are placed by insertion.
_REPACKED_GAPS = 50_000
# Share of the time of repacking for packing choices of gaps that leave a margin of the pool empty.
_SETTLING_SHARE = 0.6
# Margins, as parts of the pool, tried one after another until a choice can be packed.
_WIDER_MARGINS = (0.1, 0.2, 0.35, 0.5)
# Most changes of a choice that leaves a margin.
_CHOICE_TURNS = 4_000
# Temperatures of these changes, as parts of the median cost of a reload: at first and at last;
# random part of the cost of a gap to drop.
_CHOICE_HEATS = (0.5, 0.01)
_CHOICE_NOISE = 0.5
# Price of the room of a gap in such a choice, as a part of the mean cost saved by a byte and step
# of the gaps dropped: emptier choices are packed more easily.
_CHOICE_PRICE = 0.25
# Share of the time left for packing a choice; moves per retention made in any case for the first
# margin and for wider ones.
_MARGIN_PACKING_SHARE = 0.2
_INSERTIONS_A_RETENTION = 120
# Most changes tried of the best packing.
_REPACKING_TURNS = 1_000_000
# Chance that the narrowest window that holds what must change place is taken instead of a wider
# one.
_WINDOW_FITS = 0.5
# Moves between two looks at the retentions that still wait, and moves without fewer bytes waiting
# after which a change is given up.
_WINDOW_MOVES = 50
_WINDOW_PATIENCE = 300
# The chance of a gap to be kept falls with its steps, raised to this power: narrow windows are
# packed much sooner than wide ones.
_WINDOW_POWER = 2.0
# Most gaps dropped so that one more is kept; random part of their cost.
_MOST_DROPPED = 12
_REPACKING_NOISE = 0.3

NAME = "evictions by insertion"
CHANGED = "changes of gaps"
# Deterministic seconds of a change of gaps: always, per gap, per step of all gaps, and per pair of
# gaps of one storage.
_CHANGE, _CHANGE_A_GAP, _CHANGE_A_STEP, _CHANGE_A_PAIR = 1e-5, 1.5e-8, 5e-11, 1.5e-10
# Deterministic seconds of a gap dropped so that the load fits: per gap and step.
_DROP_A_ROW = 1.5e-9
# Deterministic seconds of a change of a window, besides: always, per pair of rows, and per gap.
_WINDOW, _WINDOW_A_PAIR, _WINDOW_A_GAP = 1e-4, 2e-9, 1e-8
# The same for each dropped gap and each further gap of its tensor: what keeping it saves is summed
# up over all of them. Gaps of a tensor beyond this number count.
_WINDOW_A_DROP, _FEW_GAPS = 7e-10, 8
# Turns between two counts of the dropped gaps.
_RECOUNT = 64
# Deterministic seconds of a move: per row, and per section of one.
_MOVE_A_ROW, _MOVE_A_CELL = 2e-8, 2.5e-10
# Deterministic seconds between two looks at the time left: of moves, and of gaps dropped at first.
_CALL, _DROPPING = 1e-2, 0.1
# Coolings of a choice take this number of calls.
_COOLINGS = 20


def applies_to(problem: SpillProblem) -> bool:
    """True if all bytes have accesses, gaps are few, and each op fits beside what it reads."""
    few = len(problem.gap_storage) <= _REPACKED_GAPS
    if not few or problem.base.any():
        return False
    return bool((problem.held_apart().least_load() <= problem.capacity).all())


class Repacking:
    """The search; see the module's docstring.

    Parameters
    ----------
    problem
        The problem.
    capacity
        Capacity of the fast pool, without padding.
    seed
        Seed of the random changes and moves.
    """

    def __init__(self, problem: SpillProblem, capacity: int, seed: int):
        self.problem = problem = problem.held_apart()
        self.flat = flatten_problem(problem, capacity)
        self.rng = np.random.default_rng(seed)
        # Any odd multiplier spreads seeds; the state must not be zero.
        word = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
        self._random = np.array([word or 1], np.uint64)
        self._reload = problem.typical_reload
        steps = float((problem.gap_upper - problem.gap_lower).sum())
        pairs = float((np.bincount(problem.gap_storage).astype(float) ** 2).sum())
        gaps = len(problem.gap_storage)
        # Gaps of each storage beyond the first few.
        self._others = np.maximum(0, np.bincount(problem.gap_storage) - _FEW_GAPS)
        # Deterministic seconds of a change.
        self._change = _CHANGE + _CHANGE_A_GAP * gaps
        self._change += _CHANGE_A_STEP * steps + _CHANGE_A_PAIR * pairs
        self._left = np.maximum(0, problem.capacity - problem.least_load())
        self._nowhere: Ints = np.full(len(problem.access_step), -1, np.int64)

    def choose(self, kept: Flags, margin: float, deadline: Deadline) -> Flags | None:
        """Cheap choice of gaps that leaves a part of the pool empty; ``None`` if none is found."""
        if not prepare(REPACKING, deadline.share(COMPILING_SHARE)):
            return None
        from cpplan.spilling.search.gap_kernel import change_choice, make_fit

        problem = self.problem
        gaps = len(kept)
        empty = np.minimum(self._left, int(self.flat.capacity * margin))
        price = self._price(kept) if margin > 0.0 else 0.0
        state = make_state(problem, kept, self._nowhere, empty, price)
        a_drop = _DROP_A_ROW * (gaps + problem.steps)
        most, fits = int(_DROPPING / max(a_drop, 1e-9)), False
        while not fits:
            fits, dropped = make_fit(self.flat, state, most, self.rng)
            deadline.spend(a_drop * (1 + int(dropped)))
            if not fits and (dropped <= most or deadline.expired()):
                return None
        slot = deadline.share(_CHOICE_SHARE)
        turns = int(min(_CHOICE_TURNS, slot.remaining() / self._change)) // _COOLINGS
        best, found = state.cost.copy(), ~state.drop
        hottest, coolest = _CHOICE_HEATS
        for number in range(_COOLINGS if turns else 0):
            heat = hottest * (coolest / hottest) ** (number / _COOLINGS) * self._reload
            change_choice(
                self.flat, state, turns, _MOST_DROPPED, _CHOICE_NOISE, heat, self.rng,
                best, found,
            )  # fmt: skip
            slot.spend(self._change * turns)
            if slot.expired():
                break
        return found

    def _price(self, kept: Flags) -> float:
        """Price of a byte and step, so that of choices that cost the same the emptier is better."""
        problem, dropped = self.problem, ~kept
        room = problem.size[problem.gap_storage] * (problem.gap_upper - problem.gap_lower)
        saved = int(problem.paid(kept).sum()) / max(1, int(room[dropped].sum()))
        return _CHOICE_PRICE * saved

    def run(
        self, kept: Flags, known: Placed | None, deadline: Deadline, target: int
    ) -> Placed | None:
        """Best packing found from these gaps, or from a known one; ``None`` if there is none."""
        if not prepare(REPACKING, deadline.share(COMPILING_SHARE)):
            return known
        best = self._settle(kept, known, deadline.share(_SETTLING_SHARE))
        return best if best is None else self._improve(best, deadline, target)

    def _settle(self, kept: Flags, known: Placed | None, deadline: Deadline) -> Placed | None:
        """Packings of choices with ever smaller margins, until none of one margin fits whole.

        If the first margin's choice does not, ever wider margins follow, until one does.
        """
        first, *smaller = _SMALLER_MARGINS
        best, fits = self._settle_margin(kept, first, known, deadline)
        for margin in smaller if fits else ():
            best, fits = self._settle_margin(kept, margin, best, deadline, _MARGIN_CHOICES)
            if not fits:
                return best
        for margin in () if fits else _WIDER_MARGINS:
            best, fits = self._settle_margin(kept, margin, best, deadline)
            if fits:
                return best
        return best

    def _settle_margin(
        self,
        kept: Flags,
        margin: float,
        best: Placed | None,
        deadline: Deadline,
        choices: int = 1,
    ) -> tuple[Placed | None, bool]:
        """The better of the best packing and those of some choices; true if one fits whole.

        A choice that does not cost less than the best packing counts as one that fits.
        """
        for _ in range(choices):
            choice = None if deadline.expired() else self.choose(kept, margin, deadline)
            if choice is None:
                return best, False
            paid = int(self.problem.paid(choice).sum())
            if best is not None and paid >= best.paid:
                return best, True
            found = self._pack(choice, best, deadline, patient=choices == 1)
            best = best if found is None else found
            if found is not None and found.paid == paid:
                return best, True
        return best, False

    def _rows(self, kept: Flags) -> Rows:
        """Room for the retentions of a choice and of others that have some more."""
        problem = self.problem
        inner = kept & (problem.gap_before >= 0) & (problem.gap_after >= 0)
        count = int(problem.near(kept).sum()) - int(inner.sum())
        return make_rows(min(count + count // 4 + 100, packing_tuning().insertion_buffers))

    def _pack(
        self, kept: Flags, best: Placed | None, deadline: Deadline, *, patient: bool
    ) -> Placed | None:
        """Packing of a choice of gaps, without those of retentions that find no place.

        Returns ``None`` if it does not cost less than the best one. A patient search makes some
        moves for each retention in any case.
        """
        from cpplan.spilling.search import window_kernel as kernel

        problem, flat, steps = self.problem, self.flat, self.problem.steps
        state = make_state(problem, kept, self._nowhere, np.zeros(steps, np.int64))
        rows = with_sections(self._rows(kept), steps)
        count, cells = map(int, kernel.gather(flat, state, rows, 0, steps))
        deadline.spend(_WINDOW_A_PAIR * count * count)
        if count < 0:
            return None
        a_move = _MOVE_A_ROW * count + _MOVE_A_CELL * cells
        moves = max(1, int(_CALL / max(a_move, 1e-9)))
        learning, placed = INSERTION_LEARNING, False
        slot, made = deadline.share(_MARGIN_PACKING_SHARE), 0
        least = _INSERTIONS_A_RETENTION * count if patient else 0
        while not placed and not (slot if made >= least else deadline).expired():
            slot.spend(a_move * moves)
            placed = bool(kernel.insert_rows(flat, rows, moves, learning, self._random))
            made += moves
        moved = problem.spill_cost, problem.reload_cost[problem.gap_storage], problem.access_cost
        most = 1 + int(sum(cost.sum() for cost in moved)) if best is None else best.paid
        return _placed(state) if kernel.settle_rows(flat, state, rows, count, most) else None

    def _improve(self, best: Placed, deadline: Deadline, target: int) -> Placed:
        """Keep one more gap, and drop others, as long as that costs less."""
        from cpplan.spilling.search import gap_kernel, window_kernel

        tuning, flat, steps = active(), self.flat, self.problem.steps
        zero = np.zeros(steps, np.int64)
        state = make_state(self.problem, best.kept, best.places, zero)
        widths = [width for width in tuning.window_widths if width < steps] + [steps]
        rows = self._rows(best.kept)
        windows = [with_sections(rows, width) for width in widths]
        learning = INSERTION_LEARNING
        moves = _WINDOW_MOVES, _WINDOW_PATIENCE, learning
        always = _WINDOW + _WINDOW_A_GAP * len(best.kept)
        for turn in range(_REPACKING_TURNS):
            if turn % _RECOUNT == 0:
                a_draw = self._cost_of_a_draw(state)
            if state.cost[0] <= target or deadline.expired():
                break
            gap = int(gap_kernel.draw_gap(flat, state, _WINDOW_POWER, self.rng))
            if gap < 0:
                break
            begin, end = map(int, gap_kernel.draw_steps(flat, state, gap, self.rng))
            fits = sum(width < end - begin for width in widths)
            number = min(fits + int(self.rng.geometric(_WINDOW_FITS)), len(widths)) - 1
            low = begin - int(self.rng.integers(widths[number] - (end - begin) + 1))
            low = max(0, min(low, steps - widths[number]))
            made, count, cells = map(
                int,
                window_kernel.change_window(
                    flat, state, windows[number], gap, low, _MOST_DROPPED,
                    _REPACKING_NOISE, moves, self.rng, self._random,
                ),
            )  # fmt: skip
            work = abs(made) * (_MOVE_A_ROW * count + _MOVE_A_CELL * cells)
            deadline.spend(always + a_draw + _WINDOW_A_PAIR * count * count + work)
        return _placed(state)

    def _cost_of_a_draw(self, state: GapState) -> float:
        """Deterministic seconds of drawing a gap to keep, beyond those that are always counted."""
        of = self.problem.gap_storage
        pairs = np.bincount(of[state.drop], minlength=len(self._others)) @ self._others
        return _WINDOW_A_DROP * float(pairs)


def _placed(state: GapState) -> Placed:
    return Placed(~state.drop, int(state.cost[0]), state.places.copy())
