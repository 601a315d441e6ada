"""Positions along which the ops of a region run one after another: on a line, or row by row.

On a line there is one step of an op a position of its axis. Row by row, there are two axes: the
steps are those of the first, and within each of them the strips of the second, one after another.
Tensors are made and freed in the same order, so that what is there of one is an interval of its
positions row by row, and halos are kept along both axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cpplan.model.axes import Axis, Window
from cpplan.model.problem import Ints
from cpplan.splitting.problem import SplitProblem

WindowOf = Callable[[int, str, int], Window | None]


class Table(NamedTuple):
    """First position still needed at each step of an op, and the one after the last needed.

    ``key`` is the same for tables that are the same.
    """

    key: object
    low: Ints
    high: Ints


class Line:
    """One axis of each op, or none of those that run whole.

    Parameters
    ----------
    problem
        The program's ops and storages.
    axes, window
        Axis of each op, and its window of a tensor along it, as a part of one of the storages
        that the tensor has its bytes from.
    """

    def __init__(self, problem: SplitProblem, axes: list[Axis | None], window: WindowOf):
        self._problem, self.axes, self._window = problem, axes, window

    def steps(self, k: int) -> int:
        """Steps of an op."""
        axis = self.axes[k]
        return 1 if axis is None else axis.extent

    def table(self, k: int, name: str, storage: int) -> Table | None:
        """Positions of a storage that an op needs; ``None`` if it needs all at every step.

        It is one of those that the tensor of this name has its bytes from.
        """
        window, axis = self._window(k, name, storage), self.axes[k]
        if window is None or axis is None:
            return None
        found = self._problem.intervals_of(storage, window, axis)
        return Table((window, axis.extent, storage == self._problem.storage(name)), *found)


class Rows:
    """Two axes of each op, the strips of the second one after another at each step of the first.

    Parameters
    ----------
    first, second
        Both lines.
    strips
        Steps of each op along its second axis in each strip, shape ``(ops, strips, 2)``. Only
        where they end counts: each begins where the one before ends.
    extent
        Gives the positions of a storage along the second axis.
    """

    def __init__(self, first: Line, second: Line, strips: Ints, extent: Callable[[int], int]):
        self._first, self._second, self._extent = first, second, extent
        self.ends = strips[:, :, 1]
        self.starts = np.hstack([np.zeros((len(strips), 1), np.int64), self.ends[:, :-1]])

    @property
    def is_whole(self) -> bool:
        """True if every op has both axes, and something to do in every strip."""
        alone = any(axis is None or axis.accumulates for axis in self._first.axes)
        return not alone and bool(np.all(self.starts < self.ends))

    def steps(self, k: int) -> int:
        """Steps of an op."""
        return self._first.steps(k) * len(self.ends[k])

    def table(self, k: int, name: str, storage: int) -> Table | None:
        """Positions of a storage that an op needs; ``None`` if it needs all at every step."""
        rows = self._first.table(k, name, storage)
        columns = self._second.table(k, name, storage)
        if rows is None or columns is None:
            return None
        width = self._extent(storage)
        begin, end = columns.low[self.starts[k]], columns.high[self.ends[k] - 1]
        low = np.maximum(rows.low[:, None] * width + begin, 0).ravel()
        high = np.maximum((rows.high[:, None] - 1) * width + end, 0).ravel()
        low = np.minimum.accumulate(low[::-1])[::-1]
        return Table((k, name, storage), low, np.maximum.accumulate(high))
