"""First fit outwards from the fullest step, again and again: what found no room comes earlier.

Where a thousand buffers are live at once and memory is nearly full for long, any order by size or
area alone leaves holes. Two ideas make few of them.

*The stack at the fullest step* leaves no hole there in any order; its order decides on the holes
beside it. Going forward, buffers of the stack end, and what is freed should be in one piece: they
had best be sorted by their ends. Going backward, by their starts. Both at once is nearly possible:
the stack is cut into groups by start, each sorted by end, every other one upside down. So what is
freed comes in some tens of large pieces on one side, and one group after another on the other.

*Outwards*: all others follow by their distance from that step, large ones somewhat ahead. Each then
meets what is placed on one side in time only, and finds the pieces as the stack has left them.

Below a limit, a few buffers find no room. They come earlier in the next round, with everything else
placed anew (squeaky wheel optimization: Joslin and Clements, 1999). That mostly takes some rounds
of a few microseconds a buffer; what fails again and again ends near the stack.

Where several steps far apart are nearly as full, the distance is to the nearest of them, with what
it lacks to the fullest added: that is one of the starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.packing import loops
from cpplan.packing.search.local_search import LocalSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.compiled import COMPILING_SHARE, prepare

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from cpplan.runtime.deadline import Deadline

NAME = "squeaky wheel"
# A limit is so much of the way from the target to the best peak; after one that was not met, so
# many times that, and after one that was, back again.
_STEP, _SHORTER, _LONGEST = 0.25, 1.5, 0.8
# Rounds in vain until a limit is given up.
_PATIENCE = 25
# How much earlier than its turn comes what found no room, as a factor on its size (a logarithm).
_BLAME = 0.5, 1.5
_UNLIMITED = np.iinfo(np.int64).max
# Where time is counted in work: seconds a buffer, and for each that is placed before it.
_WORK, _WORK_A_PAIR = 4e-6, 1.2e-9
# Seconds between two looks at the clock.
_SLICE = 0.05


class _Start(NamedTuple):
    """Groups of the stack; powers of e in size that outweigh a mean lifespan; those for all bytes.

    The last is about steps that are less full than the fullest; ``None`` counts only that one.
    """

    groups: int
    slope: float
    lack: float | None


_STARTS = _Start(32, 3.0, None), _Start(16, 6.0, None), _Start(32, 3.0, 20.0)


class SqueakyWheel(LocalSearch):
    """A search that can be continued: it keeps what it has learned about the order.

    Parameters
    ----------
    problem
        A reduced problem; see :meth:`applies_to`.
    seed
        Of how far those that found no room come forward.

    Examples
    --------
    >>> import numpy as np
    >>> from cpplan.model.problem import Problem
    >>> from cpplan.runtime.deadline import Deadline
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> start = Outcome(np.array([0, 4, 12]), 16, 12)
    >>> SqueakyWheel(problem, seed=0).run(start, moves=9, target=12, deadline=Deadline(60)).peak
    12
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        super().__init__(problem)
        self._random = np.random.default_rng(seed)
        self._starts = list(_STARTS)
        # What came of the starts: peak, turn and key, the lowest peak first.
        self._orders: list[tuple[int, int, NDArray[np.float64]]] = []
        self._step = _STEP
        self._limit: int | None = None
        self._tries = 0

    @staticmethod
    def applies_to(problem: Problem) -> bool:
        """Not where buffers have gaps or fixed offsets."""
        return not problem.gaps and not problem.fixed

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Place everything ``moves`` times, or until the peak is at most ``target``.

        O(n²) a round, of steps of a nanosecond. Raises ``TimeUpError`` within one; :meth:`best`
        then has the best packing reached.
        """
        if not prepare(loops.SQUEAKY, deadline.share(COMPILING_SHARE)):
            return state  # the next turn will ask again; others go on
        if self._peak is None or state.peak < self._peak:
            self._offsets, self._peak, self._limit = state.offsets, state.peak, None
        target = max(target, state.bound)
        for _ in range(moves):
            if self._peak <= target:
                break
            if self._starts:
                self._begin(self._starts.pop(0), deadline)
            else:
                self._squeeze(target, deadline)
        return self.best(state)

    def _begin(self, start: _Start, deadline: Deadline) -> None:
        """Place everything as a start says, without a limit."""
        key = _outwards(self.problem, start)
        offset = self._place(key, _UNLIMITED, deadline)
        peak = self._keep(offset)
        self._orders.append((peak, len(self._orders), key))
        self._orders.sort(key=lambda order: order[:2])

    def _squeeze(self, target: int, deadline: Deadline) -> None:
        """One round below a limit."""
        assert self._peak is not None
        if self._limit is None:
            self._limit = target + int(self._step * (self._peak - target))
            self._tries = 0
        key = self._orders[0][2]
        offset = self._place(key, self._limit, deadline)
        out = np.flatnonzero(offset < 0)
        if not len(out):
            self._keep(offset)
            self._step, self._limit = max(_STEP, self._step / _SHORTER), None
            return
        key[out] -= self._random.uniform(*_BLAME, len(out))
        self._tries += 1
        if self._tries >= _PATIENCE:
            self._step, self._limit = min(_LONGEST, self._step * _SHORTER), None
            # Another order may be luckier.
            self._orders.append(self._orders.pop(0))

    def _keep(self, offset: Ints) -> int:
        """Take a packing for the best, if it is; its peak."""
        peak = int((offset + self.problem.size).max(initial=0))
        if self._peak is None or peak < self._peak:
            self._offsets, self._peak = offset, peak
        return peak

    def _place(self, key: NDArray[np.float64], limit: int, deadline: Deadline) -> Ints:
        """Offsets by first fit, the lowest key first; -1 for what would end above the limit."""
        from cpplan.packing.search.squeaky_kernel import place_below

        problem, total = self.problem, len(self.problem)
        rows = np.argsort(key, kind="stable")
        offset, entries = np.full(total, -1, np.int64), np.empty((4, total), np.int64)
        turn = count = 0
        while turn < total:
            seconds = _WORK + _WORK_A_PAIR * count
            last = min(total, turn + max(1, int(_SLICE / seconds)))
            deadline.check(seconds * (last - turn))
            columns = problem.lower, problem.upper, problem.size, problem.alignment
            count = place_below(rows, turn, last, count, *columns, limit, entries, offset)
            turn = last
        return offset


def _outwards(problem: Problem, start: _Start) -> NDArray[np.float64]:
    """Turns of all buffers, the stack at the fullest step first, shape ``(n,)``.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 9], size=[4, 8, 8])
    >>> np.argsort(_outwards(problem, _Start(1, 1.0, None))).tolist()
    [2, 1, 0]
    """
    lower, upper, live = problem.lower, problem.upper, problem.live_bytes()
    width = (upper - lower).astype(float)
    # Of the buffer that is live at any one step, half of its lifespan on average.
    lifespan = float((width**2).sum() / max(1.0, width.sum())) / 2
    fullest = int(np.argmax(live))
    steps = np.arange(len(live))
    away = np.abs(steps - fullest) * start.slope / lifespan
    if start.lack is not None:
        away = _spread((live[fullest] - live) * start.lack / live[fullest], start.slope / lifespan)
    edges = np.stack([lower, upper], axis=1).ravel()
    nearest = np.minimum.reduceat(np.append(away, np.inf), edges)[::2]
    key = np.asarray(nearest - np.log(np.maximum(problem.size, 1)))
    stack = np.flatnonzero((lower <= fullest) & (upper > fullest))
    by_start = np.argsort(np.argsort(lower[stack], kind="stable"))
    group = by_start * start.groups // len(stack)
    # The latest end lowest, and highest in the next group: what ends early is then side by side.
    by_end = np.where(group % 2 == 0, -upper[stack], upper[stack])
    key[stack[np.lexsort((by_end, group))]] = key.min() - len(stack) + np.arange(len(stack))
    return key


def _spread(height: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
    """The least of all heights, each higher by the slope for every step away from its own.

    Examples
    --------
    >>> _spread(np.array([5.0, 0.0, 5.0, 1.5]), 1.0).tolist()
    [1.0, 0.0, 1.0, 1.5]
    """
    climb = np.arange(len(height)) * slope
    before = np.minimum.accumulate(height - climb) + climb
    after = np.minimum.accumulate((height + climb)[::-1])[::-1] - climb
    return np.asarray(np.minimum(before, after))
