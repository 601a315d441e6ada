"""Strips of a region along its outer axis: the steps of each op, and the live bytes.

The last op's steps are divided evenly. In each strip, an earlier op makes all positions that its
readers need there, so each strip recomputes its halo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.model.problem import Ints
from cpplan.splitting.problem import Floats

if TYPE_CHECKING:
    from cpplan.splitting.region_ops import RegionOps
    from cpplan.splitting.styles import Family


class Strips(NamedTuple):
    """Strips of a region, run one after another.

    Attributes
    ----------
    steps
        Steps of each op in each strip, shape ``(ops, count, 2)``; ``None`` without an outer axis.
    base
        Live bytes that a strip does not access, shape ``(count,)``.
    weight, kept
        Bytes of each storage that a strip accesses, and 1 if they stay live to the strip's end;
        shape ``(count, storages)``.
    cost
        Sum of the costs of all runs.
    """

    steps: Ints | None
    base: Floats
    weight: Floats
    kept: Ints
    cost: float


class _Tables:
    """Tables of the intervals of windows, joined."""

    def __init__(self) -> None:
        self._low: list[Ints] = []
        self._high: list[Ints] = []
        self._length = 0

    def add(self, low: Ints, high: Ints) -> int:
        """Add a table, and return where it starts."""
        start = self._length
        self._low.append(low)
        self._high.append(high)
        self._length += len(low)
        return start

    def arrays(self) -> tuple[Ints, Ints]:
        """All intervals."""
        none = [np.zeros(1, np.int64)]
        return np.concatenate(self._low or none), np.concatenate(self._high or none)


class StripMaker:
    """Makes strips of a region along one axis of each op; without an axis, a single strip."""

    def __init__(self, region: RegionOps, family: Family | None):
        self._region, self._family = region, family
        self._costs = np.array([op.cost for op in region.ops], np.float64)
        self._once = np.array([not op.recomputable for op in region.ops])
        axes = [None] * len(region.ops) if family is None else family.axes
        self._extents = np.array([0 if axis is None else axis.extent for axis in axes], np.int64)
        tables = _Tables()
        self._edges = self._find_edges(tables)
        positions, self._accesses = self._find_accesses(tables)
        self._tables = tables.arrays()
        self._storages = (
            np.array([region.problem.size[m] for m in region.storages], np.int64),
            np.array(region.kept, np.int64),
            np.array(region.writers, np.int64),
            np.array(positions, np.int64),
        )

    def make(self, count: int) -> Strips | None:
        """``count`` strips, or ``None`` if an op has too few steps or may not run again."""
        from cpplan.splitting.strip_kernel import divide, share

        ops, several = len(self._extents), len(self._region.storages)
        steps = np.zeros((ops, count, 2), np.int64)
        cost = float(self._costs.sum())
        if self._family is not None:
            if not divide(self._extents, self._edges, self._tables, steps, np.zeros(ops, bool)):
                return None
            runs = (steps[:, :, 1] - steps[:, :, 0]).sum(axis=1)
            if np.any(self._once & (runs > self._extents)):
                return None
            shares = runs / self._extents
            cost = float((self._costs * shares).sum())
        base = np.full(count, float(self._region.base))
        weight = np.zeros((count, several))
        kept = np.zeros((count, several), np.int64)
        share(
            self._storages, self._accesses, self._tables, self._extents, steps, base, weight, kept,
            np.empty((2, count), np.int64),
        )  # fmt: skip
        return Strips(None if self._family is None else steps, base, weight, kept, cost)

    def _find_edges(self, tables: _Tables) -> tuple[Ints, Ints, Ints, Ints]:
        """Readers of each op's outputs in the region, as ``edges`` of ``strip_kernel.divide``."""
        region, family = self._region, self._family
        problem = region.problem
        starts: list[tuple[int, int]] = []
        rows: list[tuple[int, int, int]] = []
        for k, op in enumerate(region.ops if family is not None else ()):
            assert family is not None
            begin, axis, alike = len(rows), family.axes[k], True
            for name in op.outputs:
                storage = problem.storage(name)
                for user, tensor in region.readers[region.local[storage]]:
                    window = region.window(family, user, tensor, storage)
                    mine = region.window(family, k, name, storage)
                    reading = family.axes[user]
                    whole = axis is None or axis.accumulates or reading is None
                    if whole or window is None or mine is None:
                        alike = False
                    else:
                        assert axis is not None
                        assert reading is not None
                        at = tables.add(*problem.intervals_of(storage, window, reading))
                        own = -1
                        if not problem.is_identity(mine):
                            own = tables.add(*problem.intervals(mine, axis))
                        rows.append((user, at, own))
            starts.append((begin, len(rows)) if alike else (-1, -1))
        users, windows, made = map(np.ascontiguousarray, np.array(rows, np.int64).reshape(-1, 3).T)
        return np.array(starts, np.int64).reshape(-1, 2), users, windows, made

    def _find_accesses(self, tables: _Tables) -> tuple[list[int], tuple[Ints, Ints, Ints]]:
        """Positions of each storage, and its ``accesses`` as ``strip_kernel.share`` takes them.

        There are 0 positions if every strip accesses the whole storage. The accesses are those of
        the op that writes the storage or, if no op does, of the ops that read it.
        """
        region, family = self._region, self._family
        problem = region.problem
        positions, starts = [], [0]
        rows: list[tuple[int, int]] = []
        for m, storage in enumerate(region.storages):
            found = None if family is None else self._intervals(family, m)
            for k, low, high in found or ():
                rows.append((k, tables.add(low, high)))
            starts.append(len(rows))
            extent = 0
            if found is not None:
                assert family is not None
                extent = problem.extent(problem.names[storage], family.at[m])
            positions.append(extent)
        users, windows = map(np.ascontiguousarray, np.array(rows, np.int64).reshape(-1, 2).T)
        return positions, (np.array(starts, np.int64), users, windows)

    def _intervals(self, family: Family, m: int) -> list[tuple[int, Ints, Ints]] | None:
        """Ops that access a storage, with the positions that each of their steps accesses.

        It is the op that writes the storage or, if no op does, all its readers. Returns ``None`` if
        every strip accesses the whole storage.
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
            found.append((k, *problem.intervals_of(storage, window, axis)))
        return found
