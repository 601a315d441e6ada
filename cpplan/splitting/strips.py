"""Strips of a region along its outer axis: what each op runs there, and the bytes that it leaves.

The last op's steps are divided evenly; each op before it makes what its readers need in the strip,
so that halos are computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.model.problem import Ints
from cpplan.splitting.problem import Floats

if TYPE_CHECKING:
    from cpplan.splitting.region import Family, Region


class Strips(NamedTuple):
    """Strips of a region, run one after another.

    Attributes
    ----------
    steps
        Steps of each op in each strip, shape ``(ops, count, 2)``; ``None`` if all are one.
    base
        Bytes that a strip leaves alone, shape ``(count,)``.
    weight, kept
        Bytes of each storage that a strip accesses, and 1 if they stay to its end; shape
        ``(count, storages)``.
    cost
        Sum of the costs of all runs.
    """

    steps: Ints | None
    base: Floats
    weight: Floats
    kept: Ints
    cost: float


class _Edge(NamedTuple):
    """A reader in the region of what an op writes, and its windows' intervals.

    ``made`` are those of the writer's own window, unless it writes a position a step.
    """

    user: int
    low: Ints
    high: Ints
    made: tuple[Ints, Ints] | None


class _Access(NamedTuple):
    """Intervals of the positions that an op accesses of a storage at its steps."""

    op: int
    low: Ints
    high: Ints


class StripMaker:
    """Makes strips of a region along one axis of each op, or one strip if there is none."""

    def __init__(self, region: Region, family: Family | None):
        self._region, self._family = region, family
        self._costs = np.array([op.cost for op in region.ops], np.float64)
        self._once = np.array([not op.recomputable for op in region.ops])
        self._edges: dict[int, list[_Edge] | None] = {}
        self._extents: list[int] = []
        self._accesses: list[tuple[int, list[_Access]] | None] = []
        if family is not None:
            self._extents = [0 if axis is None else axis.extent for axis in family.axes]
            self._edges = {k: self._find_edges(family, k) for k in range(len(region.ops))}
            self._accesses = [self._find_accesses(family, m) for m in range(len(region.storages))]

    def make(self, count: int) -> Strips | None:
        """Strips, ``count`` of them; ``None`` if an op has too few steps, or may not run again."""
        steps = None
        cost = float(self._costs.sum())
        if self._family is not None:
            steps = self._steps(count)
            if steps is None:
                return None
            runs = (steps[:, :, 1] - steps[:, :, 0]).sum(axis=1)
            if np.any(self._once & (runs > self._extents)):
                return None
            shares = runs / self._extents
            cost = float((self._costs * shares).sum())
        return Strips(steps, *self._shares(steps, count), cost)

    def _steps(self, count: int) -> Ints | None:
        """Steps of each op along its outer axis in each strip, shape ``(ops, count, 2)``."""
        found = np.zeros((len(self._extents), count, 2), np.int64)
        whole = [False] * len(self._extents)
        for k in range(len(self._extents) - 1, -1, -1):
            n, edges = self._extents[k], self._edges[k]
            if edges is None or (not edges and n < count):
                return None
            here = found[k]
            if not edges:
                ends = np.arange(count + 1) * n // count
                here[:, 0], here[:, 1] = ends[:-1], ends[1:]
            else:
                here[:, 0] = n
                for user, low, high, made in edges:
                    if whole[user]:
                        here[:, 0], here[:, 1] = 0, n
                        break
                    begin, end = low[found[user, :, 0]], high[found[user, :, 1] - 1]
                    if made is not None:
                        begin, end = (
                            np.searchsorted(made[1], begin, side="right"),
                            np.searchsorted(made[0], end, side="left"),
                        )
                    np.minimum(here[:, 0], np.where(begin < end, begin, n), out=here[:, 0])
                    np.maximum(here[:, 1], np.where(begin < end, end, 0), out=here[:, 1])
            here[0, 0], here[-1, 1] = 0, n
            if count > 1:
                # Neither a position left out nor a strip without any.
                np.minimum(here[:, 0], n - 1, out=here[:, 0])
                here[:-1, 1] = np.maximum(here[:-1, 1], here[1:, 0])
                here[:, 1] = np.maximum(np.maximum.accumulate(here[:, 1]), here[:, 0] + 1)
            whole[k] = self._is_whole(k, here)
        return found

    def _is_whole(self, k: int, steps: Ints) -> bool:
        """True if an op runs whole in all strips, so that it is not cut and reads all there is."""
        return not steps[:, 0].any() and int(steps[:, 1].min()) == self._extents[k]

    def _find_edges(self, family: Family, k: int) -> list[_Edge] | None:
        """Readers in the region of what an op writes; ``None`` if one of them needs all of it."""
        region, problem, axis = self._region, self._region.problem, family.axes[k]
        found: list[_Edge] = []
        for name in region.ops[k].outputs:
            storage = problem.storage(name)
            for user, tensor in region.readers[region.local[storage]]:
                window = region.window(family, user, tensor, storage)
                mine = region.window(family, k, name, storage)
                reading = family.axes[user]
                if axis is None or axis.accumulates or window is None or mine is None:
                    return None
                if reading is None:
                    return None
                low, high = problem.intervals_of(storage, window, reading)
                made = None if problem.is_identity(mine) else problem.intervals(mine, axis)
                found.append(_Edge(user, low, high, made))
        return found

    def _shares(self, steps: Ints | None, count: int) -> tuple[Floats, Floats, Ints]:
        """Bytes that a strip leaves alone, those of each storage, and 1 if they stay."""
        region, problem = self._region, self._region.problem
        base = np.full(count, float(region.base))
        weight = np.zeros((count, len(region.storages)))
        kept = np.zeros((count, len(region.storages)), np.int64)
        for m, storage in enumerate(region.storages):
            size, stays = problem.size[storage], region.kept[m]
            if not size:
                continue
            spans = None if steps is None else self._spans(steps, m)
            if region.writers[m] < 0:
                if stays:
                    base += size
                    kept[:, m] = 1
                elif spans is None:
                    weight[:, m] = size
                    kept[:-1, m] = 1
                else:
                    low, _, extent = spans
                    after = np.append(np.maximum(low[1:], low[:-1]), extent)
                    weight[:, m] = size * (after - low) / extent
                    base += size * (extent - after) / extent
            elif spans is None:
                # All at once; or sums over the outer axis, which the first strip makes.
                weight[:, m], kept[:, m] = size, stays
                if stays:
                    weight[1:, m] = 0
                    base[1:] += size
            else:
                low, high, extent = spans
                weight[:, m], kept[:, m] = size * (high - low) / extent, stays
                if stays:
                    before = np.minimum(np.append(0, high[:-1]), high)
                    weight[:, m] = size * (high - before) / extent
                    base += size * before / extent
        return base, weight, kept

    def _spans(self, steps: Ints, m: int) -> tuple[Ints, Ints, int] | None:
        """Positions of a storage that each strip accesses, and their number in all strips."""
        found = self._accesses[m]
        if found is None:
            return None
        extent, accesses = found
        low = np.full(steps.shape[1], extent)
        high = np.zeros(steps.shape[1], np.int64)
        for k, one, other in accesses:
            if self._region.writers[m] < 0 and self._is_whole(k, steps[k]):
                return np.zeros_like(low), np.full_like(high, extent), extent
            np.minimum(low, one[steps[k, :, 0]], out=low)
            np.maximum(high, other[steps[k, :, 1] - 1], out=high)
        return low, np.maximum(low, high), extent

    def _find_accesses(self, family: Family, m: int) -> tuple[int, list[_Access]] | None:
        """Positions of a storage and the ops that make it or, if none does, read it.

        ``None`` if they access all of it in every strip.
        """
        region, problem = self._region, self._region.problem
        if m not in family.at:
            return None
        storage = region.storages[m]
        name = problem.names[storage]
        users = region.readers[m] if region.writers[m] < 0 else [(region.writers[m], name)]
        found = []
        for k, tensor in users:
            window, axis = region.window(family, k, tensor, storage), family.axes[k]
            if window is None or axis is None:
                return None
            found.append(_Access(k, *problem.intervals_of(storage, window, axis)))
        return problem.extent(name, family.at[m]), found
