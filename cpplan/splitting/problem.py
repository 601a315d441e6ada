"""Input of the search for pieces: ops, the storages that they access, and their lifespans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cpplan.model.axes import Axis, Window
from cpplan.model.columns import Lists, lists_of
from cpplan.model.graph import Graph, Op
from cpplan.model.plan_data import RelationKind
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.liveness import outside_kinds
from cpplan.splitting.lines import Lines, find_lines

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SplitProblem:
    """A program to split, and the tensors of its boundary that the arena holds.

    Attributes
    ----------
    program
        The program, which runs every op once.
    residency
        Which inputs, outputs and constants the arena holds.
    sharing
        The kinds of relations that may be chosen.
    piece_bytes
        Op -> bytes outside the arena that the runtime keeps for each run beyond its first.

    Notes
    -----
    Storages are numbered. A view that may be cut counts as a storage of its own, which takes over
    the bytes of the tensor that it is made from. If tensors of the original storage are accessed
    later, the view *borrows* its bytes instead: it has no bytes of its own, and an op that reads it
    reads the original storage, too. Any other view counts as the whole storage that it lies in.
    """

    program: Program
    residency: Residency
    sharing: frozenset[RelationKind] = frozenset()
    piece_bytes: Mapping[str, int] = field(default_factory=dict)
    _axes: dict[str, dict[str, Axis]] = field(default_factory=dict, repr=False)
    _tables: dict[tuple[Window, int], tuple[Ints, Ints]] = field(default_factory=dict, repr=False)
    # Keys are ids of windows and axes of the graph: comparing these objects is slow.
    _known: dict[tuple[int, int], tuple[Ints, Ints]] = field(default_factory=dict, repr=False)
    _windows: dict[tuple[int, str, int], tuple[Window, int] | None] = field(
        default_factory=dict, repr=False
    )

    @property
    def graph(self) -> Graph:
        """The graph that is computed."""
        return self.program.graph

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The op at every step."""
        return self.program.ops

    @cached_property
    def weights(self) -> Ints:
        """Weight of a run of the op at every step: its bytes outside the arena, or else 1."""
        if not self.piece_bytes:
            return np.ones(len(self.ops), np.int64)
        return np.array([self.piece_bytes.get(op.name, 0) for op in self.ops], np.int64)

    @cached_property
    def lines(self) -> Lines:
        """Axes along which tensors may be cut."""
        return find_lines(self.graph)

    @cached_property
    def separate(self) -> frozenset[str]:
        """Views that take over the bytes of the tensors they are made from.

        Either all views of a storage do, or none. They do if each shows the whole storage, and no
        op accesses a tensor after a view is made from it.
        """
        graph, source = self.graph, self.lines.source
        if not source:
            return frozenset()
        last = {name: step for step, op in enumerate(self.ops) for name in op.inputs}
        made = {name: step for step, op in enumerate(self.ops) for name in op.outputs}
        stays = {t.name for t in graph.tensors if t.kind == "output"}
        if self.residency.inputs == "keep":
            stays |= {t.name for t in graph.tensors if t.kind == "input"}
        not_passed = {
            graph.root[view][0]
            for view, before in source.items()
            if last[before] > made[view] or before in stays or self._is_part(view)
        }
        return frozenset(view for view in source if graph.root[view][0] not in not_passed)

    def _is_part(self, view: str) -> bool:
        root = self.graph.root[view][0]
        return self.graph.tensor[view].nbytes < self.graph.tensor[root].nbytes

    @cached_property
    def borrowed(self) -> frozenset[str]:
        """Views that may be cut and borrow their bytes; only ops that cost nothing write them."""
        graph, source = self.graph, self.lines.source
        written = {
            graph.root[view][0]
            for view in source
            if view in self.separate or graph.producer[view].cost
        }
        return frozenset(view for view in source if graph.root[view][0] not in written)

    def lender(self, tensor: str) -> int | None:
        """Number of the storage from which a tensor borrows its bytes, or ``None``."""
        if tensor not in self.borrowed:
            return None
        return self.storages[self.graph.root[tensor][0]]

    def cuts(self, window: Window) -> bool:
        """True if the search may cut a window's tensor along its axis."""
        views = self.lines.source
        is_view = window.tensor in views or window.tensor in self._bases
        apart = window.tensor in self._passed or self.graph.root[window.tensor][0] in self._lenders
        return self.lines.has(window) and (not is_view or apart)

    @cached_property
    def _lenders(self) -> frozenset[str]:
        return frozenset(self.graph.root[view][0] for view in self.borrowed)

    @cached_property
    def _bases(self) -> frozenset[str]:
        return frozenset(self.lines.source.values())

    @cached_property
    def _passed(self) -> frozenset[str]:
        """Tensors whose bytes a view takes over, and these views."""
        return self.separate | {self.lines.source[view] for view in self.separate}

    @cached_property
    def storages(self) -> dict[str, int]:
        """Number of each storage, by name."""
        graph, own = self.graph, self.separate | self.borrowed
        names = (t.name for t in graph.tensors if graph.is_storage(t.name) or t.name in own)
        return {name: k for k, name in enumerate(names)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the storages."""
        return tuple(self.storages)

    @cached_property
    def _stored(self) -> dict[str, tuple[int, ...]]:
        root, own = self.graph.root, self.separate | self.borrowed
        found: dict[str, tuple[int, ...]] = {}
        for tensor in (t.name for t in self.graph.tensors):
            number = self.storages[tensor if tensor in own else root[tensor][0]]
            lender = self.lender(tensor)
            found[tensor] = (number,) if lender is None else (number, lender)
        return found

    def storage(self, tensor: str) -> int:
        """Number of the storage that a tensor lies in."""
        return self._stored[tensor][0]

    def stored(self, tensor: str) -> tuple[int, ...]:
        """Number of a tensor's storage and, if it borrows its bytes, of the lending storage."""
        return self._stored[tensor]

    @cached_property
    def size(self) -> list[int]:
        """Bytes of each storage in the arena; 0 for storages outside it."""
        columns = self.graph.columns
        tensors = [columns.number[name] for name in self.names]
        outside = np.zeros(len(columns.names), np.bool_)
        outside[columns.root[columns.are(outside_kinds(self.residency))]] = True
        outside[[columns.number[name] for name in self.borrowed]] = True
        root = columns.root[tensors]
        sizes: list[int] = np.where(
            outside[root] | outside[tensors], 0, columns.size[root]
        ).tolist()
        return sizes

    @cached_property
    def accessed(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """For each step, the storages read and the storages written, workspaces included."""
        columns, order = self.graph.columns, np.array(self.program.order, np.int64)
        place = np.array([self.storage(name) for name in columns.names], np.int64)
        lists = [columns.read.taken(order), columns.written.taken(order)]
        pairs = (np.sort(some.owner * len(self.names) + place[some.item]) for some in lists)
        if not self.borrowed and all((each[1:] != each[:-1]).all() for each in pairs):
            return [*zip(*(some.tuples(place) for some in lists), strict=True)]
        found = []
        for op in self.ops:
            own = dict.fromkeys(self.storage(t) for t in op.outputs + op.workspaces)
            used = dict.fromkeys(m for t in op.inputs for m in self.stored(t))
            found.append((tuple(used), tuple(own)))
        return found

    @cached_property
    def accesses(self) -> tuple[Lists, Lists]:
        """The lists of :attr:`accessed` as columns."""
        read, written = zip(*self.accessed, strict=True) if self.accessed else ((), ())
        return lists_of(read), lists_of(written)

    @cached_property
    def lives(self) -> tuple[list[int], list[int]]:
        """Lifespan of each storage: first steps, and the steps after the last.

        The upper end is the number of steps plus one if the storage stays live after the last step.
        """
        steps, columns = len(self.ops), self.graph.columns
        first, last = np.full(len(self.names), steps), np.zeros(len(self.names), np.int64)
        for some in self.accesses:
            np.minimum.at(first, some.item, some.owner)
            np.maximum.at(last, some.item, some.owner + 1)
        for k in np.flatnonzero(columns.are({"input", "constant", "output"})).tolist():
            tensor = self.graph.tensors[k]
            stays = tensor.kind == "input" and self.residency.inputs == "keep"
            for m in self.stored(tensor.name):
                if tensor.kind in ("input", "constant"):
                    first[m], last[m] = 0, max(last[m], 1)
                if stays or tensor.kind in ("output", "constant"):
                    last[m] = steps + 1
                    first[m] = min(first[m], steps)
        return first.tolist(), last.tolist()

    @cached_property
    def boundary(self) -> list[int]:
        """Bytes live between step ``k - 1`` and step ``k``, for every ``k`` up to the end."""
        steps = len(self.ops)
        size, given = np.array(self.size, np.int64), np.array(self.given, np.int64)
        lower, upper = (np.array(ends, np.int64) for ends in self.lives)
        change = np.zeros(steps + 2, np.int64)
        # Live at the boundary if written before and needed after.
        np.add.at(change, lower + 1 - given, size)
        np.subtract.at(change, upper, size)
        live: list[int] = np.cumsum(change)[: steps + 1].tolist()
        return live

    @cached_property
    def given(self) -> list[bool]:
        """For each storage, true if the caller provides its bytes."""
        columns = self.graph.columns
        brought = columns.are({"input", "constant"})[[columns.number[n] for n in self.names]]
        never = np.ones(len(self.names), np.bool_)
        never[self.accesses[1].item] = False
        found: list[bool] = (brought | never).tolist()
        return found

    @cached_property
    def constants(self) -> frozenset[int]:
        """Numbers of the storages whose bytes are constants."""
        tensor, number = self.graph.tensor, enumerate(self.names)
        return frozenset(m for m, name in number if tensor[name].kind == "constant")

    @cached_property
    def written_in_turn(self) -> list[list[int]]:
        """Steps that write each storage with several writers, or with a reader before the first.

        Steps are ascending, in each list and over the lists.
        """
        writers: dict[int, list[int]] = {}
        read_before = set[int]()
        for step, (read, written) in enumerate(self.accessed):
            for m in written:
                writers.setdefault(m, []).append(step)
            read_before |= {m for m in read if m not in writers}
        found = [s for m, s in writers.items() if len(s) > 1 or m in read_before]
        return sorted(found)

    @cached_property
    def alone(self) -> Mask:
        """Mask of the tensors that may be cut along every axis, since no view lies in them."""
        columns = self.graph.columns
        known = np.array([name in self.lines for name in columns.names], np.bool_)
        alone: Mask = known & (np.bincount(columns.root, minlength=len(known))[columns.root] == 1)
        return alone

    @cached_property
    def special(self) -> Mask:
        """Mask of the graph's ops whose axes are looked at one by one: they write other tensors."""
        graph, outputs = self.graph, self.graph.columns.outputs
        special = np.array([bool(op.bodies or op.sequence) for op in graph.ops], np.bool_)
        special[outputs.owner[~self.alone[outputs.item]]] = True
        return special

    @cached_property
    def may_be_cut(self) -> list[bool]:
        """For each step, true if the search may cut its op along some axis."""
        axes, ops = self.graph.columns.axes, self.graph.ops
        found = np.zeros(len(ops), np.bool_)
        found[axes.op[axes.extent > 1]] = True
        for k in np.flatnonzero(self.special).tolist():
            found[k] = bool(self.axes(ops[k]))
        cut: list[bool] = found[np.array(self.program.order, np.int64)].tolist()
        return cut

    @cached_property
    def permuting(self) -> list[int]:
        """Steps that move their whole input to other positions along an axis that may be cut.

        An example is an op that rotates rows: each part of its output needs all of its input.
        """
        columns, place = self.graph.columns, np.argsort(self.program.order)
        axes = columns.axes
        by = np.full(len(columns.names), -1)
        by[columns.outputs.item] = columns.outputs.owner
        reads = by[axes.tensor] != axes.op[axes.axis]
        writes_alone = np.bincount(axes.axis[~reads], minlength=len(axes.op)) > 0
        writes_alone[axes.axis[reads]] = False
        steps = place[np.unique(axes.op[writes_alone])]
        return [step for step in np.sort(steps).tolist() if self._permutes(step)]

    def _permutes(self, step: int) -> bool:
        op, tensors = self.ops[step], self.graph.tensor
        read = {name: tensors[name].nbytes for name in op.inputs}
        for axis in self.axes(op).values():
            written = [w.tensor for w in axis.windows if w.tensor in op.outputs]
            if written and not any(w.tensor in read for w in axis.windows):
                return any(tensors[name].nbytes in read.values() for name in written)
        return False

    def writes_new_storage(self, step: int) -> bool:
        """True if a step writes a storage in the arena that it does not read."""
        read, written = self.accessed[step]
        return any(self.size[m] for m in written if m not in read)

    def axes(self, op: Op) -> dict[str, Axis]:
        """Axes along which the search may cut an op, by name.

        If views allow cuts only at multiples of n steps, n of the op's own steps count as one.
        """
        if op.name not in self._axes:
            found = {}
            for axis in op.axes:
                steps = self.lines.steps(op, axis)
                outputs = (axis.window[o] for o in op.outputs if o in axis.window)
                if steps is not None and all(map(self.cuts, outputs)):
                    found[axis.name] = _coarser(axis, steps)
            self._axes[op.name] = found
        return self._axes[op.name]

    def steps(self, op: Op, name: str) -> int:
        """Number of steps of an op's own axis that the search counts as one step."""
        own = next(axis for axis in op.axes if axis.name == name)
        return own.extent // self.axes(op)[name].extent

    def extent(self, tensor: str, axis: int) -> int:
        """Number of units of a tensor along an axis."""
        shape = self.graph.tensor[tensor].shape
        assert shape is not None
        return shape[axis] // self.lines.grain[tensor][axis]

    def is_identity(self, window: Window) -> bool:
        """True if step k of an op accesses unit k of the tensor, for every k."""
        grain = self.lines.grain[window.tensor][window.axis]
        return (window.stride, window.offset, window.size, window.table) == (grain, 0, grain, None)

    def intervals_of(self, storage: int, window: Window, axis: Axis) -> tuple[Ints, Ints]:
        """Intervals of a window in units of a storage that holds the tensor's bytes."""
        low, high = self.intervals(window, axis)
        if storage == self.storage(window.tensor):
            return low, high
        first = self.lines.first(window.tensor, window.axis)
        return low + first, high + first

    def axis_of(self, storage: int, window: Window) -> int:
        """Axis of a storage along which a window of a tensor lies."""
        if storage == self.storage(window.tensor):
            return window.axis
        return self.lines.line[window.tensor][window.axis]

    def window(self, axis: Axis, tensor: str, storage: int) -> tuple[Window, int] | None:
        """Window of a tensor along an op's axis, with the axis of the storage along which it lies.

        ``storage`` is one of those that hold the tensor's bytes. Returns ``None`` if the axis has
        no window of the tensor, or the search may not cut the tensor there.
        """
        key = id(axis), tensor, storage
        if key not in self._windows:
            found = axis.window.get(tensor)
            cut = found is not None and self.cuts(found)
            self._windows[key] = (found, self.axis_of(storage, found)) if found and cut else None
        return self._windows[key]

    def intervals(self, window: Window, axis: Axis) -> tuple[Ints, Ints]:
        """First unit of a window at each step of its axis, and the unit after the last."""
        place = id(window), axis.extent
        if place not in self._known:
            self._known[place] = self._intervals(window, axis)
        return self._known[place]

    def _intervals(self, window: Window, axis: Axis) -> tuple[Ints, Ints]:
        key = window, axis.extent
        if key not in self._tables:
            shape = self.graph.tensor[window.tensor].shape
            assert shape is not None
            grain = self.lines.grain[window.tensor][window.axis]
            low, high = _spans(window, axis.extent, shape[window.axis])
            low, high = low // grain, -(-high // grain)
            # A step that accesses only padding gets the interval of its neighbours.
            empty = low >= high
            high[empty] = 0
            self._tables[key] = np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high)
        return self._tables[key]


def _coarser(axis: Axis, steps: int) -> Axis:
    """An axis whose steps each stand for ``steps`` steps of the given one."""
    if steps == 1:
        return axis
    windows = []
    for window in axis.windows:
        if window.table is None:
            size = window.size + (steps - 1) * window.stride
            windows.append(replace(window, stride=window.stride * steps, size=size))
        else:
            firsts, lasts = window.table[::steps], window.table[steps - 1 :: steps]
            table = tuple((one[0], other[1]) for one, other in zip(firsts, lasts, strict=True))
            windows.append(replace(window, table=table))
    return replace(axis, extent=axis.extent // steps, windows=tuple(windows))


def _spans(window: Window, steps: int, extent: int) -> tuple[Ints, Ints]:
    """First position of a window at each step of its axis, and the position after the last."""
    if window.table is not None:
        table = np.array(window.table, np.int64).reshape(-1, 2)
        low, high = table[:, 0], table[:, 1]
    else:
        low = np.arange(steps) * window.stride + window.offset
        high = low + window.size
    low = np.clip(low, 0, extent)
    return low, np.maximum(np.minimum(high, extent), low)
