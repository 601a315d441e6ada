"""Regions: ops that follow one another, run together in pieces along one or two axes.

Along the *inner* axis a region runs depth first: each op makes its next positions when a reader
needs them, and the halo (positions that neighbouring pieces both need) is kept until its last
reader has run. Along the *outer* axis, if there is one, the region runs strip after strip, and each
strip recomputes its halo. So tiles keep the halo along one axis and recompute it along the other.
They may also keep it along both axes: then each step along the inner axis runs strip by strip. A
region along its inner axis alone is a *cascade*, given to the compiled loop as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.problem import Ints
from cpplan.splitting.grid import Line, Rows, Table
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region_ops import RegionOps
from cpplan.splitting.strips import StripMaker, Strips
from cpplan.splitting.styles import Estimate, Family, Run, Style

if TYPE_CHECKING:
    from cpplan.splitting.region_ops import RegionOps

# Stands for the row of a table if an op accesses a tensor whole.
_WHOLE = -1


class Region(RegionOps):
    """Ops that run together in pieces: what each style needs."""

    def __init__(self, problem: SplitProblem, start: int, stop: int):
        super().__init__(problem, start, stop)
        self._whole = Family([None] * len(self.ops), {})
        self._cascades: dict[str | None, Cascade] = {}
        self._makers: dict[str | None, StripMaker] = {}
        self._strips: dict[tuple[str | None, int], Strips | None] = {}

    def estimate(self, style: Style, runs: list[Run] | None = None) -> Estimate | None:
        """Peak and work of the region in a style, or ``None`` if the style does not apply.

        ``runs`` receives the runs in their order.
        """
        if not self.in_turn and len(self.ops) > 1:
            return None
        inner = self._whole if style.inner is None else self.family(style.inner)
        if inner is None:
            return None
        outer: Family | None = None
        if style.outer is not None:
            outer = self.family(style.outer)
            if outer is None or not self._apart(inner, outer):
                return None
        strips = self.strips(style.outer, style.strips)
        if strips is None:
            return None
        if style.both:
            return self._tiled(style, inner, outer, strips, runs)
        if style.inner not in self._cascades:
            self._cascades[style.inner] = Cascade(self, self._line(inner), inner)
        return self._cascades[style.inner].run(style, strips, runs)

    def strips(self, outer: str | None, count: int) -> Strips | None:
        """``count`` strips along an axis of the last op, or ``None`` if they are impossible."""
        key = outer, count if outer is not None else 1
        if key not in self._strips:
            if outer not in self._makers:
                family = None if outer is None else self.family(outer)
                self._makers[outer] = StripMaker(self, family)
            self._strips[key] = self._makers[outer].make(key[1])
        return self._strips[key]

    def forget_strips(self) -> None:
        """Forget all strips, which take much memory."""
        self._strips.clear()

    def _line(self, family: Family) -> Line:
        return Line(self.problem, family.axes, lambda *place: self.window(family, *place))

    def _tiled(
        self,
        style: Style,
        inner: Family,
        outer: Family | None,
        strips: Strips,
        runs: list[Run] | None,
    ) -> Estimate | None:
        """Estimate with halos kept along both axes, or ``None`` if an op lacks one of the axes."""
        along = inner.axes[-1]
        if outer is None or strips.steps is None or along is None:
            return None
        groups = self.strips(style.inner, along.extent)
        if groups is None or groups.steps is None:
            return None
        rows = Rows(
            self._line(inner),
            self._line(outer),
            groups.steps,
            strips.steps,
            shape=lambda m: (
                self.positions(inner, self.local[m]), self.positions(outer, self.local[m])
            ),
            writer=self._written,
        )  # fmt: skip
        if not rows.is_whole:
            return None
        found: list[Run] | None = None if runs is None else []
        one = self.strips(None, 1)
        assert one is not None
        estimate = Cascade(self, rows, inner, outer).run(Style(), one, found)
        for step, _, flat in found or ():
            assert flat is not None
            row, column = rows.intervals(step - self.start, flat[0])
            runs.append(Run(step, column, row))  # type: ignore[union-attr]
        return estimate

    def _written(self, storage: int) -> tuple[int, str] | None:
        """Op of the region that writes a storage, and the tensor that it writes; or ``None``."""
        k = self.writers[self.local[storage]]
        names = self.ops[k].outputs if k >= 0 else ()
        found = [name for name in names if self.problem.storage(name) == storage]
        return (k, found[0]) if found else None

    def _apart(self, inner: Family, outer: Family) -> bool:
        """True if all ops have an outer axis, and no axis of an op or a tensor is cut twice."""
        for one, other in zip(inner.axes, outer.axes, strict=True):
            if other is None or (one is not None and one.name == other.name):
                return False
        return not any(outer.at.get(m) == place for m, place in inner.at.items())


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
