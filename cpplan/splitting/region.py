"""Regions: ops that follow one another, run together in pieces along one or two axes.

Along the *inner* axis a region runs depth first: each op makes the next positions when a reader
needs them, and what neighbouring pieces both need (the halo) is kept until the last of them has
run. Along the *outer* axis, if there is one, it runs strip after strip, and halos are computed
again in each. So tiles keep the halo one way and recompute it the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpplan.model.axes import Axis, Window
from cpplan.model.problem import Ints
from cpplan.splitting.problem import SplitProblem

# Rows of a table of no interval.
_WHOLE = -1


class Style(NamedTuple):
    """How a region is cut.

    Attributes
    ----------
    inner, outer
        Names of the axes of its last op, or ``None``: the region is then not cut along one.
    strips
        Number of strips along the outer axis.
    step
        Steps of the last op at a time, along the inner axis.
    longest
        Most steps of a piece of any op, along the inner axis.
    """

    inner: str | None = None
    outer: str | None = None
    strips: int = 1
    step: int = 1
    longest: int = 1


class Run(NamedTuple):
    """Steps of an op that run at once; ``None`` along an axis that it has not got."""

    step: int
    outer: tuple[int, int] | None
    inner: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes and work of a region run in some style.

    Attributes
    ----------
    peak
        Most bytes live at once, with everything else that is live meanwhile.
    cost
        Sum of the costs of all runs.
    pieces
        Number of runs.
    """

    peak: int
    cost: float
    pieces: int


@dataclass(frozen=True, slots=True)
class _Family:
    """One axis of each op of a region, and of each tensor: those that correspond to each other."""

    axes: list[Axis | None]
    at: dict[int, int]


class Region:
    """Steps ``[start, stop)`` of a program, and what they touch.

    Parameters
    ----------
    problem
        The program's ops and storages.
    start, stop
        The steps.
    """

    def __init__(self, problem: SplitProblem, start: int, stop: int):
        self.problem, self.start, self.stop = problem, start, stop
        self.ops = problem.ops[start:stop]
        touched: dict[int, None] = {}
        for read, written in problem.touched[start:stop]:
            touched.update(dict.fromkeys((*read, *written)))
        self.storages = [m for m in touched if problem.size[m] or True]
        self.local = {m: k for k, m in enumerate(self.storages)}
        first, last = problem.lives
        self.kept = [last[m] > stop for m in self.storages]
        # Live throughout, and not touched.
        live = problem.boundary[start]
        live -= sum(
            problem.size[m]
            for m in self.storages
            if (first[m] < start or (first[m] == start and problem.given[m])) and last[m] > start
        )
        self.base = live
        self.readers: list[list[tuple[int, str]]] = [[] for _ in self.storages]
        self.writers: list[int] = [-1] * len(self.storages)
        # True if each storage is written by one op at most, before it is read.
        self.in_turn = True
        for k, op in enumerate(self.ops):
            for name in op.inputs:
                self.readers[self.local[problem.storage(name)]].append((k, name))
            for m in problem.touched[start + k][1]:
                here = self.local[m]
                if self.writers[here] >= 0 or self.readers[here] or first[m] < start:
                    self.in_turn = False
                self.writers[here] = k
        self._families: dict[str, _Family | None] = {}

    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes along which the last op may be cut."""
        return tuple(self.problem.axes(self.ops[-1]))

    def family(self, name: str) -> _Family | None:
        """The axes of all ops that correspond to this axis of the last op, if it has one."""
        if name not in self._families:
            self._families[name] = self._find_family(name)
        return self._families[name]

    def _find_family(self, name: str) -> _Family | None:
        problem, local = self.problem, self.local
        at: dict[int, int] = {}
        axes: list[Axis | None] = [None] * len(self.ops)
        for k in range(len(self.ops) - 1, -1, -1):
            op, known = self.ops[k], problem.axes(self.ops[k])
            wanted = [
                (output, at[local[problem.storage(output)]])
                for output in op.outputs
                if local[problem.storage(output)] in at
            ]
            if wanted:
                fits = [
                    axis
                    for axis in known.values()
                    if not axis.accumulates
                    and all(axis.window[output].axis == place for output, place in wanted)
                ]
                axes[k] = fits[0] if fits else None
            elif not any(self.readers[local[problem.storage(output)]] for output in op.outputs):
                axes[k] = known.get(name)
            found = axes[k]
            if found is None:
                continue
            for window in found.windows:
                if window.tensor in problem.cuttable:
                    m = local[problem.storage(window.tensor)]
                    at.setdefault(m, window.axis)
        if axes[-1] is None:
            return None
        return _Family(axes, at)

    def window(self, family: _Family, k: int, name: str) -> Window | None:
        """Window of an op of the region for a tensor, along the axes of a family."""
        axis, m = family.axes[k], self.local[self.problem.storage(name)]
        if axis is None or name not in self.problem.cuttable or m not in family.at:
            return None
        window = axis.window.get(name)
        return window if window is not None and window.axis == family.at[m] else None

    def estimate(self, style: Style, runs: list[Run] | None = None) -> Estimate | None:
        """Bytes and work of the region in a style, or ``None`` if it cannot be cut so.

        ``runs`` receives the runs in their order.
        """
        if not self.in_turn and len(self.ops) > 1:
            return None
        inner = (
            self.family(style.inner)
            if style.inner is not None
            else _Family([None] * len(self.ops), {})
        )
        if inner is None:
            return None
        strips: list[list[tuple[int, int]]] | None = None
        outer: _Family | None = None
        if style.outer is not None:
            outer = self.family(style.outer)
            if outer is None or not self._apart(inner, outer):
                return None
            strips = self._strips(outer, style.strips)
            if strips is None:
                return None
        return _Cascade(self, inner, outer, strips).run(style, runs)

    def _apart(self, inner: _Family, outer: _Family) -> bool:
        """True if no op or tensor is cut twice along one axis, and all ops have an outer one."""
        for one, other in zip(inner.axes, outer.axes, strict=True):
            if other is None or (one is not None and one.name == other.name):
                return False
        return not any(outer.at.get(m) == place for m, place in inner.at.items())

    def _strips(self, outer: _Family, count: int) -> list[list[tuple[int, int]]] | None:
        """Steps ``[start, stop)`` of each op along its outer axis, in each strip."""
        problem = self.problem
        found: list[list[tuple[int, int]]] = [[] for _ in self.ops]
        last = outer.axes[-1]
        assert last is not None
        if count > last.extent:
            return None
        for k in range(len(self.ops) - 1, -1, -1):
            axis = outer.axes[k]
            assert axis is not None
            n = axis.extent
            need: list[list[int]] = [[n, 0] for _ in range(count)]
            read = False
            for name in self.ops[k].outputs:
                m = self.local[problem.storage(name)]
                for user, tensor in self.readers[m]:
                    if user <= k or axis.accumulates:
                        return None
                    read = True
                    window = self.window(outer, user, tensor)
                    if window is None:
                        return None
                    reading = outer.axes[user]
                    assert reading is not None
                    low, high = problem.intervals(window, reading)
                    mine = self.window(outer, k, name)
                    assert mine is not None
                    made_low, made_high = problem.intervals(mine, axis)
                    for strip, (start, stop) in enumerate(found[user]):
                        begin, end = int(low[start]), int(high[stop - 1])
                        if end > begin:
                            first = int(np.searchsorted(made_high, begin, side="right"))
                            after = int(np.searchsorted(made_low, end, side="left"))
                            need[strip][0] = min(need[strip][0], first)
                            need[strip][1] = max(need[strip][1], after)
            if not read:
                if n < count:
                    return None
                need = [[n * c // count, n * (c + 1) // count] for c in range(count)]
            need[0][0], need[-1][1] = 0, n
            for strip in range(1, count):
                before, here = need[strip - 1], need[strip]
                here[0] = min(here[0], n - 1)
                before[1] = max(before[1], min(here[0], n), before[0] + 1)
                here[1] = max(here[1], here[0] + 1, before[1])
            found[k] = [(start, stop) for start, stop in need]
        return found


class _Cascade:
    """One way to run a region: arrays for the compiled loop, strip by strip."""

    def __init__(
        self,
        region: Region,
        inner: _Family,
        outer: _Family | None,
        strips: list[list[tuple[int, int]]] | None,
    ):
        self._region, self._inner, self._outer, self._strips = region, inner, outer, strips
        problem, local = region.problem, region.local
        low: list[Ints] = []
        high: list[Ints] = []
        position: dict[tuple[Window, int], int] = {}
        length = 0

        def table(k: int, name: str) -> int:
            nonlocal length
            window = region.window(inner, k, name)
            if window is None:
                return _WHOLE
            axis = inner.axes[k]
            assert axis is not None
            key = window, axis.extent
            if key not in position:
                one, other = problem.intervals(window, axis)
                low.append(one)
                high.append(other)
                position[key] = length
                length += len(one)
            return position[key]

        extent = [1 if axis is None else axis.extent for axis in inner.axes]
        adds = [int(axis is not None and axis.accumulates) for axis in inner.axes]
        in_place = "in place" in problem.sharing
        rows: list[tuple[int, int, int]] = []
        read_start, write_start, write, reading = [0], [0], [], []
        readers: list[list[int]] = [[] for _ in region.storages]
        made_table = [_WHOLE] * len(region.storages)
        for k, op in enumerate(region.ops):
            over = {source for _, source in op.in_place} if in_place else ()
            seen: set[tuple[int, int]] = set()
            for name in op.inputs:
                m = local[problem.storage(name)]
                at = table(k, name)
                if (m, at) in seen or region.writers[m] == k:
                    continue
                seen.add((m, at))
                readers[m].append(len(rows))
                reading.append(k)
                rows.append((m, at, int(name in over)))
            read_start.append(len(rows))
            for m in problem.touched[region.start + k][1]:
                write.append(local[m])
            for name in op.outputs:
                made_table[local[problem.storage(name)]] = table(k, name)
            write_start.append(len(write))
        self._extent = extent
        self._ops = (
            _array(extent),
            _array(adds),
            _array(read_start),
            _array(write_start),
            _array(write),
        )
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        self._reads = tuple(_array(column) for column in columns)
        reader_start = np.cumsum([0, *map(len, readers)]).astype(np.int64)
        self._tensor_extent = [self._positions(m) for m in range(len(region.storages))]
        # What several ops of the region write is whole once the first has begun.
        self._tensors = (
            _array(region.writers),
            _array(made_table),
            reader_start,
            _array([e for edges in readers for e in edges]),
        )
        none = [np.zeros(1, np.int64)]
        self._tables = np.concatenate(low or none), np.concatenate(high or none), _array(reading)
        used = {m for m, edges in enumerate(readers) if edges}
        self._sinks = [
            k
            for k in range(len(region.ops) - 1, -1, -1)
            if not any(m in used for m in write[write_start[k] : write_start[k + 1]])
        ]
        # Then whatever is left of the others.
        self._sinks += [k for k in range(len(region.ops)) if k not in self._sinks]

    def _positions(self, m: int) -> int:
        """Positions of a storage along the inner axis."""
        if m not in self._inner.at:
            return 1
        region = self._region
        shape = region.problem.graph.tensor[region.problem.names[region.storages[m]]].shape
        assert shape is not None
        return shape[self._inner.at[m]]

    def run(self, style: Style, runs: list[Run] | None) -> Estimate:
        """Bytes and work, strip by strip."""
        from cpplan.splitting.cascade_kernel import run_cascade

        region, count = self._region, style.strips if self._strips is not None else 1
        steps = len(region.ops)
        writer, made_table, reader_start, reader = self._tensors
        length = _array(self._tensor_extent)
        rows = 0 if runs is None else sum(self._extent) + 1
        events = np.zeros((rows, 3), np.int64)
        sinks = _array(self._sinks)
        pieces, peak, cost = 0, 0.0, 0.0
        for strip in range(count):
            base, weight, kept, given = self._shares(strip, count)
            made = np.where(given, length, 0)
            done = np.zeros(steps, np.int64)
            state = done, made, np.zeros(len(length), np.int64), *np.zeros((2, steps + 1), np.int64)
            tensors = length, weight / length, kept, writer, made_table, reader_start, reader
            most, _, number = run_cascade(
                self._ops, self._reads, tensors, self._tables, sinks,
                style.step, style.longest, state, events,
            )  # fmt: skip
            peak, pieces = max(peak, base + most), pieces + number
            for k, op in enumerate(region.ops):
                share = 1.0
                if self._strips is not None and self._outer is not None:
                    start, stop = self._strips[k][strip]
                    axis = self._outer.axes[k]
                    assert axis is not None
                    share = (stop - start) / axis.extent
                cost += op.cost * share
            if runs is not None:
                runs.extend(self._runs(strip, events[:number].tolist()))
        return Estimate(int(np.ceil(peak - 1e-6)), cost, pieces)

    def _runs(self, strip: int, events: Iterable[Sequence[int]]) -> Iterable[Run]:
        region = self._region
        for k, start, stop in events:
            outer = None if self._strips is None else self._strips[k][strip]
            inner = None if self._inner.axes[k] is None else (start, stop)
            yield Run(region.start + k, outer, inner)

    def _shares(self, strip: int, count: int) -> tuple[float, np.ndarray, Ints, np.ndarray]:
        """Bytes that a strip does not touch; of each storage those that it does; and their fate."""
        region, problem = self._region, self._region.problem
        base, last = float(region.base), strip == count - 1
        weight = np.zeros(len(region.storages))
        kept = np.zeros(len(region.storages), np.int64)
        given = np.zeros(len(region.storages), np.bool_)
        for m, storage in enumerate(region.storages):
            size, writer = problem.size[storage], region.writers[m]
            given[m] = writer < 0
            low, high, extent = self._strip_of(m, strip)
            if writer < 0:
                if region.kept[m]:
                    base += size
                    kept[m] = 1
                elif self._strips is None or extent is None:
                    weight[m], kept[m] = size, not last
                else:
                    after = extent if last else min(self._strip_of(m, strip + 1)[0], extent)
                    after = max(after, low)
                    end = extent if last else after
                    weight[m] = size * (end - low) / extent
                    base += size * (extent - end) / extent
            elif self._strips is None:
                weight[m], kept[m] = size, region.kept[m]
            elif extent is None:
                # Sums over the outer axis, which the first strip makes, or a workspace.
                if region.kept[m] and strip:
                    base += size
                else:
                    weight[m] = size
                kept[m] = region.kept[m]
            elif region.kept[m]:
                before = self._strip_of(m, strip - 1)[1] if strip else 0
                before = min(before, high)
                base += size * before / extent
                weight[m], kept[m] = size * (high - before) / extent, 1
            else:
                weight[m] = size * (high - low) / extent
        return base, weight, kept, given

    def _strip_of(self, m: int, strip: int) -> tuple[int, int, int | None]:
        """Positions of a storage that a strip touches, and their number in all strips."""
        region, outer, strips = self._region, self._outer, self._strips
        if outer is None or strips is None or m not in outer.at:
            return 0, 1, None
        problem = region.problem
        name = problem.names[region.storages[m]]
        shape = problem.graph.tensor[name].shape
        assert shape is not None
        extent = shape[outer.at[m]]
        low, high = extent, 0
        users = region.readers[m] if region.writers[m] < 0 else [(region.writers[m], name)]
        for k, tensor in users:
            window, axis = region.window(outer, k, tensor), outer.axes[k]
            if window is None or axis is None:
                return 0, 1, None
            one, other = problem.intervals(window, axis)
            start, stop = strips[k][strip]
            low, high = min(low, int(one[start])), max(high, int(other[stop - 1]))
        return low, max(low, high), extent


def _array(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)
