"""Regions: ops that follow one another, run together in pieces along one or two axes.

Along the *inner* axis a region runs depth first: each op makes the next positions when a reader
needs them, and what neighbouring pieces both need (the halo) is kept until the last of them has
run. Along the *outer* axis, if there is one, it runs strip after strip, and halos are computed
again in each. So tiles keep the halo one way and recompute it the other. Or they keep it both
ways: then each step along the inner axis runs strip by strip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpplan.model.axes import Axis, Window
from cpplan.model.problem import Ints
from cpplan.splitting.grid import Line, Rows
from cpplan.splitting.piece_graph import reads_from
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.strips import StripMaker, Strips

# Rows of a table of no interval.
_WHOLE = -1


class Style(NamedTuple):
    """Axes and sizes of the pieces of a region.

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
    both
        True if halos are kept along both axes.
    """

    inner: str | None = None
    outer: str | None = None
    strips: int = 1
    step: int = 1
    longest: int = 1
    both: bool = False


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
class Family:
    """One axis of each op of a region, and of each tensor: those that correspond to each other."""

    axes: list[Axis | None]
    at: dict[int, int]


class Region:
    """Steps ``[start, stop)`` of a program, and what they access.

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
        accessed: dict[int, None] = {}
        for read, written in problem.accessed[start:stop]:
            accessed.update(dict.fromkeys((*read, *written)))
        self.storages = list(accessed)
        self.local = {m: k for k, m in enumerate(self.storages)}
        first, last = problem.lives
        self.kept = [last[m] > stop for m in self.storages]
        # Live throughout, and not accessed.
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
                for m in problem.stored(name):
                    self.readers[self.local[m]].append((k, name))
            for m in problem.accessed[start + k][1]:
                here = self.local[m]
                if self.writers[here] >= 0 or self.readers[here] or first[m] < start:
                    self.in_turn = False
                self.writers[here] = k
        names = {op.name: op for op in self.ops}
        # Nor what runs after an op that writes nothing it reads: pieces run in another order.
        self.in_turn &= not any(
            other in names and not reads_from(problem.graph, op, names[other])
            for op in self.ops
            for other in op.after
        )
        self._families: dict[str, Family | None] = {}
        self._whole = Family([None] * len(self.ops), {})
        self._cascades: dict[str | None, _Cascade] = {}
        self._makers: dict[str | None, StripMaker] = {}
        self._strips: dict[tuple[str | None, int], Strips | None] = {}

    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes along which the last op may be cut."""
        return tuple(self.problem.axes(self.ops[-1]))

    def family(self, name: str) -> Family | None:
        """The axes of all ops that correspond to this axis of the last op, if it has one."""
        if name not in self._families:
            self._families[name] = self._find_family(name)
        return self._families[name]

    def _find_family(self, name: str) -> Family | None:
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
                if problem.cuts(window):
                    for m in problem.stored(window.tensor):
                        if m in local:
                            at.setdefault(local[m], problem.axis_of(m, window))
        if axes[-1] is None:
            return None
        return Family(axes, at)

    def window(self, family: Family, k: int, name: str, storage: int) -> Window | None:
        """Window of an op of the region for a tensor, along the axes of a family.

        ``storage`` is one of those that the tensor has its bytes from.
        """
        axis = family.axes[k]
        found = None if axis is None else self.problem.window(axis, name, storage)
        return found[0] if found and family.at.get(self.local[storage]) == found[1] else None

    def estimate(self, style: Style, runs: list[Run] | None = None) -> Estimate | None:
        """Bytes and work of the region in a style, or ``None`` if it cannot be cut so.

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
            self._cascades[style.inner] = _Cascade(self, self._line(inner), inner)
        return self._cascades[style.inner].run(style, strips, runs)

    def strips(self, outer: str | None, count: int) -> Strips | None:
        """``count`` strips along an axis of the last op, or ``None`` if it has fewer steps."""
        key = outer, count if outer is not None else 1
        if key not in self._strips:
            if outer not in self._makers:
                family = None if outer is None else self.family(outer)
                self._makers[outer] = StripMaker(self, family)
            self._strips[key] = self._makers[outer].make(key[1])
        return self._strips[key]

    def forget_strips(self) -> None:
        """Forget strips that were made: they are many."""
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
        """The estimate with halos kept both ways, or ``None`` if some op has not both axes."""
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
        estimate = _Cascade(self, rows, inner, outer).run(Style(), one, found)
        for step, _, flat in found or ():
            assert flat is not None
            row, column = rows.intervals(step - self.start, flat[0])
            runs.append(Run(step, column, row))  # type: ignore[union-attr]
        return estimate

    def _written(self, storage: int) -> tuple[int, str] | None:
        """The op of the region that writes a storage, and the name of what it writes there."""
        k = self.writers[self.local[storage]]
        names = self.ops[k].outputs if k >= 0 else ()
        found = [name for name in names if self.problem.storage(name) == storage]
        return (k, found[0]) if found else None

    def positions(self, family: Family, m: int) -> int:
        """Positions of a storage along the axes of a family; 1 if they do not cut it."""
        if m not in family.at:
            return 1
        return self.problem.extent(self.problem.names[self.storages[m]], family.at[m])

    def _apart(self, inner: Family, outer: Family) -> bool:
        """True if no op or tensor is cut twice along one axis, and all ops have an outer one."""
        for one, other in zip(inner.axes, outer.axes, strict=True):
            if other is None or (one is not None and one.name == other.name):
                return False
        return not any(outer.at.get(m) == place for m, place in inner.at.items())


class _Cascade:
    """A region along one inner axis: arrays for the compiled loop, which runs it strip by strip."""

    def __init__(
        self, region: Region, grid: Line | Rows, inner: Family, second: Family | None = None
    ):
        self._region, self._inner = region, inner
        problem, local = region.problem, region.local
        low: list[Ints] = []
        high: list[Ints] = []
        position: dict[object, int] = {}
        length = 0

        def table(k: int, name: str, storage: int) -> int:
            nonlocal length
            found = grid.table(k, name, storage)
            if found is None:
                return _WHOLE
            if found.key not in position:
                low.append(found.low)
                high.append(found.high)
                position[found.key] = length
                length += len(found.low)
            return position[found.key]

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
                at = table(k, name, storage)
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
                made_table[local[storage]] = table(k, name, storage)
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
        several = range(len(region.storages))
        positions = [region.positions(inner, m) for m in several]
        if second is not None:
            positions = [positions[m] * region.positions(second, m) for m in several]
        # What several ops of the region write is whole once the first has begun.
        self._tensors = (
            _array(positions),
            _array(region.writers),
            _array(made_table),
            reader_start,
            _array([e for edges in readers for e in edges]),
        )
        none = [np.zeros(1, np.int64)]
        self._tables = np.concatenate(low or none), np.concatenate(high or none), _array(reading)
        used = {m for m, edges in enumerate(readers) if edges}
        sinks = [
            k
            for k in range(len(region.ops) - 1, -1, -1)
            if not any(m in used for m in write[write_start[k] : write_start[k + 1]])
        ]
        # Then whatever is left of the others.
        known = set(sinks)
        self._sinks = _array(sinks + [k for k in range(len(region.ops)) if k not in known])

    def run(self, style: Style, strips: Strips, runs: list[Run] | None) -> Estimate:
        """Bytes and work, strip by strip."""
        from cpplan.splitting.cascade_kernel import Scratch, run_cascade

        region, of_each = self._region, strips.steps
        room = 0 if runs is None else len(strips.base) * (sum(self._extent) + 1)
        events = np.zeros((room, 4), np.int64)
        ops, tensors = len(self._extent), len(region.storages)
        scratch = Scratch(
            done=np.empty(ops, np.int64),
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
        return Estimate(int(np.ceil(peak - 1e-6)), strips.cost, pieces)


def _array(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)
