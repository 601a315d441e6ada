"""Steps of the ops of a region in the order in which they run: on a line, or row by row.

On a line, an op has one step per position of its axis. Row by row, it has two axes. Its rows are
then divided into *groups*: one group holds the rows that one step of the last op needs and no
earlier step needed. Within each group, the strips of the second axis run one after another. So two
rows that a stride needs together are made together, strip by strip, and halos are kept along both
axes. Bytes of a tensor that are live are those made, in the order of its writer's groups, minus
those freed, in the order of its readers' groups.
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
    """First position that each step of an op still needs, and the position after the last.

    Equal tables have equal keys.
    """

    key: object
    low: Ints
    high: Ints


class Line:
    """One axis of each op; ops that run whole have none.

    Parameters
    ----------
    problem
        The program's ops and storages.
    axes, window
        Axis of each op, and the function that gives the op's window of a tensor along it. Its
        last argument is one of the storages that hold the tensor's bytes.
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
    """Two axes of each op: groups of steps along the first, and in each the strips of the second.

    Parameters
    ----------
    first, second
        The lines of the two axes.
    groups, strips
        Steps of each op along its first axis in each group, and along its second in each strip,
        shape ``(ops, count, 2)``. Only the ends are read: each begins where the one before
        ends, and empty ones are left out.
    shape
        Function that gives the number of positions of a storage along both axes.
    writer
        Function that gives the op that writes a storage and the tensor that it writes, or
        ``None`` if the region has none.
    """

    def __init__(
        self,
        first: Line,
        second: Line,
        groups: Ints,
        strips: Ints,
        *,
        shape: Callable[[int], tuple[int, int]],
        writer: Callable[[int], tuple[int, str] | None],
    ):
        self._first, self._second = first, second
        self._shape, self._writer = shape, writer
        self._rows = [_Parts.up_to(steps[:, 1]) for steps in groups]
        self._columns = [_Parts.up_to(steps[:, 1]) for steps in strips]

    @property
    def is_whole(self) -> bool:
        """True if every op has both axes."""
        return not any(axis is None or axis.accumulates for axis in self._first.axes)

    def steps(self, k: int) -> int:
        """Number of an op's steps: the strips of all its groups."""
        return len(self._rows[k].ends) * len(self._columns[k].ends)

    def intervals(self, k: int, step: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Intervals of one strip of an op along the first and along the second axis."""
        rows, columns = self._rows[k], self._columns[k]
        group, strip = divmod(step, len(columns.ends))
        return rows.interval(group), columns.interval(strip)

    def table(self, k: int, name: str, storage: int) -> Table | None:
        """Positions of a storage that each step of an op needs, or ``None`` if it needs all.

        The lower end is counted in the order in which positions are freed, the upper end in the
        order in which they are made.
        """
        rows = self._first.table(k, name, storage)
        columns = self._second.table(k, name, storage)
        if rows is None or columns is None:
            return None
        height, width = self._shape(storage)
        groups, strips = self._rows[k], self._columns[k]
        begin, end = columns.low[strips.starts], columns.high[strips.ends - 1]
        free = np.append(rows.low[groups.starts], height)
        low = free[:-1, None] * width + np.diff(free)[:, None] * begin
        made = self._made_rows(storage)
        last = np.searchsorted(made.ends, rows.high[groups.ends - 1])
        before = made.starts[last]
        high = before[:, None] * width + (made.ends[last] - before)[:, None] * end
        return Table(
            (k, name, storage),
            np.minimum.accumulate(low.ravel()[::-1])[::-1],
            np.maximum.accumulate(high.ravel()),
        )

    def _made_rows(self, storage: int) -> _Parts:
        """Positions of a storage along the first axis that each group of its writer makes."""
        found = self._writer(storage)
        rows = None if found is None else self._first.table(*found, storage)
        ends = np.zeros(0, np.int64)
        if found is not None and rows is not None:
            ends = rows.high[self._rows[found[0]].ends - 1]
        return _Parts.up_to(np.append(ends, self._shape(storage)[0]))


class _Parts(NamedTuple):
    """Starts and ends of the parts of an interval that begins at 0."""

    starts: Ints
    ends: Ints

    @classmethod
    def up_to(cls, ends: Ints) -> _Parts:
        """Parts with these ends, without the empty ones."""
        found = np.unique(ends[ends > 0])
        return cls(np.append(0, found[:-1]), found)

    def interval(self, number: int) -> tuple[int, int]:
        """Start and end of one part."""
        return int(self.starts[number]), int(self.ends[number])
