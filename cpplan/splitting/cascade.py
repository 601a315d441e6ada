"""Cascade: a region run depth first along its inner axis, as arrays for the compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.problem import Ints
from cpplan.splitting.grid import Line, Rows, Table
from cpplan.splitting.strips import Strips
from cpplan.splitting.styles import Estimate, Family, Run, Style

if TYPE_CHECKING:
    from cpplan.splitting.region_ops import RegionOps

# Stands for the row of a table if an op accesses a tensor whole.
_WHOLE = -1


class Cascade:
    """A region along one inner axis: arrays for the compiled loop, which runs it strip by strip."""

    def __init__(
        self, region: RegionOps, grid: Line | Rows, inner: Family, second: Family | None = None
    ):
        self._region, self._inner = region, inner
        problem, local = region.problem, region.local
        tables = _Tables()
        extent = [grid.steps(k) for k in range(len(region.ops))]
        adds = [int(axis is not None and axis.accumulates) for axis in inner.axes]
        in_place = "in place" in problem.sharing
        rows: list[tuple[int, int, int]] = []
        read_start, write_start = [0], [0]
        write: list[int] = []
        reading: list[int] = []
        readers: list[list[int]] = [[] for _ in region.storages]
        made_table = [_WHOLE] * len(region.storages)
        for k, op in enumerate(region.ops):
            over = {source for _, source in op.in_place} if in_place else set[str]()
            over |= {problem.lines.source[o] for o in op.outputs if o in problem.separate}
            seen: set[tuple[int, int]] = set()
            for name, storage in ((t, m) for t in op.inputs for m in problem.stored(t)):
                m = local[storage]
                at = tables.row(grid.table(k, name, storage))
                if (m, at) in seen or region.writers[m] == k:
                    continue
                seen.add((m, at))
                readers[m].append(len(rows))
                reading.append(k)
                rows.append((m, at, int(name in over)))
            read_start.append(len(rows))
            write.extend(local[m] for m in problem.accessed[region.start + k][1])
            for name in op.outputs:
                storage = problem.storage(name)
                made_table[local[storage]] = tables.row(grid.table(k, name, storage))
            write_start.append(len(write))
        self._extent = extent
        self._ops = tuple(map(_array, (extent, adds, read_start, write_start, write)))
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        self._reads = tuple(_array(column) for column in columns)
        reader_start = np.cumsum([0, *map(len, readers)]).astype(np.int64)
        several = range(len(region.storages))
        positions = [region.positions(inner, m) for m in several]
        if second is not None:
            positions = [positions[m] * region.positions(second, m) for m in several]
        # A storage that several ops of the region write counts whole once the first one has begun.
        self._tensors = (
            _array(positions),
            _array(region.writers),
            _array(made_table),
            reader_start,
            _array([e for edges in readers for e in edges]),
        )
        self._tables = *tables.columns(), _array(reading)
        unread = [
            not any(readers[m] for m in write[start:stop]) for start, stop in pairwise(write_start)
        ]
        self._sinks = _array(_sinks_first(unread))

    def run(self, style: Style, strips: Strips, runs: list[Run] | None) -> Estimate:
        """Estimate of the peak and the work; ``runs`` receives the pieces in their order."""
        from cpplan.splitting.cascade_kernel import Scratch, run_cascade

        region, of_each = self._region, strips.steps
        room = 0 if runs is None else len(strips.base) * (sum(self._extent) + 1)
        events = np.zeros((room, 4), np.int64)
        ops, tensors = len(self._extent), len(region.storages)
        scratch = Scratch(
            done=np.empty(ops, np.int64),
            ran=np.empty(ops, np.int64),
            made=np.empty(tensors, np.int64),
            freed=np.empty(tensors, np.int64),
            weight=np.empty(tensors),
            stack=np.empty(ops + 1, np.int64),
            until=np.empty(ops + 1, np.int64),
        )
        peak, pieces = run_cascade(
            self._ops, self._reads, self._tensors, self._tables, self._sinks,
            (style.step, style.longest), (strips.base, strips.weight, strips.kept), events, scratch,
        )  # fmt: skip
        if runs is not None:
            runs.extend(
                Run(
                    region.start + k,
                    None if of_each is None else tuple(of_each[k, strip].tolist()),
                    None if self._inner.axes[k] is None else (start, stop),
                )
                for strip, k, start, stop in events[:pieces].tolist()
            )
        weights = region.problem.weights[region.start : region.start + ops]
        return Estimate(int(np.ceil(peak - 1e-6)), strips.cost, pieces, int(weights @ scratch.ran))


def _sinks_first(unread: Sequence[bool]) -> list[int]:
    """Ops whose results no op reads, the last one first; then the others, in order."""
    ops = range(len(unread))
    return [k for k in reversed(ops) if unread[k]] + [k for k in ops if not unread[k]]


class _Tables:
    """Tables of the positions that each step accesses, joined; equal tables are stored once."""

    def __init__(self) -> None:
        self._low: list[Ints] = []
        self._high: list[Ints] = []
        self._row: dict[object, int] = {}
        self._length = 0

    def row(self, found: Table | None) -> int:
        """First row of a table, which is added if it is new; ``_WHOLE`` for no table."""
        if found is None:
            return _WHOLE
        if found.key not in self._row:
            self._low.append(found.low)
            self._high.append(found.high)
            self._row[found.key] = self._length
            self._length += len(found.low)
        return self._row[found.key]

    def columns(self) -> tuple[Ints, Ints]:
        """Lower and upper ends of all rows."""
        none = [np.zeros(1, np.int64)]
        return np.concatenate(self._low or none), np.concatenate(self._high or none)


def _array(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)
