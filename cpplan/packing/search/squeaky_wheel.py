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

Where steps far apart are nearly as full, each has a stack, and the distance is to the nearest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.packing import loops
from cpplan.packing.search.local_search import LocalSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import COMPILING_SHARE, prepare

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from cpplan.runtime.deadline import Deadline

NAME = "squeaky wheel"
Floats = NDArray[np.float64]
_UNLIMITED = np.iinfo(np.int64).max
# Where time is counted in work: seconds a buffer, and for each that is placed before it.
_WORK, _WORK_A_PAIR = 4e-6, 1.2e-9
# Seconds between two looks at the clock.
_SLICE = 0.05


class _Start(NamedTuple):
    """Groups of a stack; powers of e in size that outweigh a mean lifespan; share of a centre.

    The last is of the most live bytes: steps as full as that, far from others, are centres too; 1
    is for the fullest step alone.
    """

    groups: int
    slope: float
    share: float


# Where there is but one centre, the first is left out.
_STARTS = _Start(32, 2.0, 0.98), _Start(32, 3.0, 1.0)


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
        self._tuning = active()
        self._random = np.random.default_rng(seed)
        self._starts = list(_STARTS)
        # Keys that the starts led to, as changed by now: the one in use first.
        self._orders: list[Floats] = []
        self._step = self._tuning.wheel_step
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
        centres = _centres(self.problem, start.share)
        if start.share == 1:
            centres = centres[:1]
        if start.share == 1 or len(centres) > 1:
            key = _outwards(self.problem, start, centres)
            self._keep(self._place(key, _UNLIMITED, deadline))
            self._orders.append(key)

    def _squeeze(self, target: int, deadline: Deadline) -> None:
        """One round below a limit."""
        assert self._peak is not None
        tuning = self._tuning
        if self._limit is None:
            self._limit = target + int(self._step * (self._peak - target))
            self._tries = 0
        key = self._orders[0]
        offset = self._place(key, self._limit, deadline)
        out = np.flatnonzero(offset < 0)
        if not len(out):
            self._keep(offset)
            self._step = max(tuning.wheel_step, self._step / tuning.wheel_shorter)
            self._limit = None
            return
        least, most = tuning.wheel_blame
        key[out] -= self._random.uniform(least, most, len(out))
        self._tries += 1
        if self._tries >= tuning.wheel_patience:
            self._step = min(tuning.wheel_longest, self._step * tuning.wheel_shorter)
            self._limit = None
            # Another order may be luckier.
            self._orders.append(self._orders.pop(0))

    def _keep(self, offset: Ints) -> None:
        """Take a packing for the best, if it is."""
        peak = int((offset + self.problem.size).max(initial=0))
        if self._peak is None or peak < self._peak:
            self._offsets, self._peak = offset, peak

    def _place(self, key: Floats, limit: int, deadline: Deadline) -> Ints:
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


def _outwards(problem: Problem, start: _Start, centres: Ints) -> Floats:
    """Turns of all buffers, the stacks at the centres first, shape ``(n,)``.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 9], size=[4, 8, 8])
    >>> np.argsort(_outwards(problem, _Start(1, 1.0, 1.0), np.array([2]))).tolist()
    [2, 1, 0]
    """
    lower, upper, lifespan = problem.lower, problem.upper, _lifespan(problem)
    steps = np.arange(int(upper.max(initial=0)))
    away = np.abs(steps[:, None] - centres).min(axis=1) * start.slope / lifespan
    edges = np.stack([lower, upper], axis=1).ravel()
    nearest = np.minimum.reduceat(np.append(away, np.inf), edges)[::2]
    key = np.asarray(nearest - np.log(np.maximum(problem.size, 1)))
    first = key.min(initial=0.0)
    at_centre = (lower[:, None] <= centres) & (upper[:, None] > centres)
    for rows in _stacks(at_centre, lower, upper, start.groups):
        first -= 2 * len(rows)
        key[rows] = first + np.arange(len(rows))
    return key


def _lifespan(problem: Problem) -> float:
    """Half of the mean lifespan of what is live at a step, which counts long ones more often."""
    width = (problem.upper - problem.lower).astype(float)
    return float((width**2).sum() / max(1.0, width.sum())) / 2


def _centres(problem: Problem, share: float) -> Ints:
    """The fullest steps, far from one another, none with less than a share of the most live bytes.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 8], upper=[2, 3, 9], size=[4, 8, 11])
    >>> _centres(problem, 0.9).tolist(), _centres(problem, 1.0).tolist()
    ([1, 8], [1])
    """
    live, apart = problem.live_bytes(), active().wheel_apart * _lifespan(problem)
    steps, left, least = np.arange(len(live)), live.copy(), share * live.max(initial=0)
    centres = [int(np.argmax(live))]
    while True:
        left[np.abs(steps - centres[-1]) < apart] = -1
        if left.max(initial=-1) < max(0, least):
            return np.array(centres)
        centres.append(int(np.argmax(left)))


def _stacks(at_centre: NDArray[np.bool_], lower: Ints, upper: Ints, groups: int) -> Iterator[Ints]:
    """The rows of every stack, the last centre's first; in the end those that are in several."""
    several = at_centre.sum(axis=1) > 1
    for column in reversed(at_centre.T):
        stack = np.flatnonzero(column & ~several)
        by_start = np.argsort(np.argsort(lower[stack], kind="stable"))
        group = by_start * groups // max(1, len(stack))
        # The latest end lowest, and highest in the next group: what ends early is side by side.
        by_end = np.where(group % 2 == 0, -upper[stack], upper[stack])
        yield stack[np.lexsort((by_end, group))]
    yield np.flatnonzero(several)
