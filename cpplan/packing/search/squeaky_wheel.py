"""First fit outwards from the fullest step, in rounds: buffers without room come earlier next time.

If a thousand buffers are live at once and memory is nearly full for long, an order by size or area
alone leaves holes. Two ideas avoid most of them.

*The stack.* The buffers live at the fullest step are stacked first. Any order of the stack leaves
no hole at that step, but its order decides on the holes beside it. At later steps, buffers of the
stack end; sorted by their ends, they free contiguous memory. At earlier steps, the same holds for
an order by starts. A compromise serves both: the stack is cut into groups by start, and each group
is sorted by end, every other one in reverse.

*Outwards.* All other buffers follow by their distance from that step, large ones somewhat earlier.
Each then conflicts with placed buffers on one side in time only.

Below a limit, a few buffers find no room. They come earlier in the next round, which places all
buffers again (squeaky wheel optimization: Joslin and Clements, 1999). Mostly a few rounds are
enough, at some microseconds a buffer.

If several steps far apart are nearly as full, each has a stack; distances are to the nearest one.
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
# For deadlines that count work: seconds for a buffer, and for each buffer placed before it.
_WORK, _WORK_A_PAIR = 4e-6, 1.2e-9
# Seconds between two looks at the clock.
_SLICE = 0.05


class _Start(NamedTuple):
    """Parameters of a first order.

    Attributes
    ----------
    groups
        Groups of a stack.
    slope
        Weight of the distance from the centre, in mean lifespans, against the logarithm of size.
    share
        Share of the most live bytes from which a step can be a centre; 1 for the fullest step only.
    """

    groups: int
    slope: float
    share: float


# The first start is skipped if there is only one centre.
_STARTS = _Start(32, 2.0, 0.98), _Start(32, 3.0, 1.0)


class SqueakyWheel(LocalSearch):
    """The squeaky wheel; it keeps its learned orders, so that it can be continued.

    Parameters
    ----------
    problem
        A reduced problem; see :meth:`applies_to`.
    seed
        Seed of the random steps by which buffers without room come earlier.

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
        # Keys of the orders, as learned so far; the order in use is first.
        self._orders: list[Floats] = []
        self._step = self._tuning.wheel_step
        self._limit: int | None = None
        self._tries = 0

    @staticmethod
    def applies_to(problem: Problem) -> bool:
        """True if no buffer has gaps or a fixed offset."""
        return not problem.gaps and not problem.fixed

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Place all buffers ``moves`` times, or until the peak is at most ``target``.

        A round takes O(n²) steps of a nanosecond. Raises ``TimeUpError`` during a round;
        :meth:`best` then has the best packing reached.
        """
        if not prepare(loops.SQUEAKY, deadline.share(COMPILING_SHARE)):
            return state  # the next turn tries again
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
        """Place all buffers in the order of a start, without a limit."""
        centres = _centres(self.problem, start.share)
        if start.share == 1:
            centres = centres[:1]
        if start.share == 1 or len(centres) > 1:
            key = _outwards(self.problem, start, centres)
            self._keep(self._place(key, _UNLIMITED, deadline))
            self._orders.append(key)

    def _squeeze(self, target: int, deadline: Deadline) -> None:
        """Run one round below a limit."""
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
            # Try another order next.
            self._orders.append(self._orders.pop(0))

    def _keep(self, offset: Ints) -> None:
        """Keep a packing if it is the best so far."""
        peak = int((offset + self.problem.size).max(initial=0))
        if self._peak is None or peak < self._peak:
            self._offsets, self._peak = offset, peak

    def _place(self, key: Floats, limit: int, deadline: Deadline) -> Ints:
        """Offsets by first fit, the lowest key first; -1 for buffers that find no room."""
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
    """Sort keys of all buffers, the stacks at the centres first, shape ``(n,)``.

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
    """Half of the mean lifespan, with each buffer weighted by the length of its lifespan."""
    width = (problem.upper - problem.lower).astype(float)
    return float((width**2).sum() / max(1.0, width.sum())) / 2


def _centres(problem: Problem, share: float) -> Ints:
    """Full steps far from one another, each with at least a share of the most live bytes.

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
    """Rows of every stack, from the last centre to the first; then rows of several stacks."""
    several = at_centre.sum(axis=1) > 1
    for column in reversed(at_centre.T):
        stack = np.flatnonzero(column & ~several)
        by_start = np.argsort(np.argsort(lower[stack], kind="stable"))
        group = by_start * groups // max(1, len(stack))
        # The latest end is lowest in even groups and highest in odd ones, so that the early ends
        # of neighbouring groups are adjacent.
        by_end = np.where(group % 2 == 0, -upper[stack], upper[stack])
        yield stack[np.lexsort((by_end, group))]
    yield np.flatnonzero(several)
