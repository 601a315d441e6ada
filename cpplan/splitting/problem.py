"""The ops of a program as the search for pieces sees them: what they access, and when it lives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cpplan.model.axes import Axis, Window
from cpplan.model.graph import Graph, Op
from cpplan.model.plan import RelationKind
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.liveness import is_outside
from cpplan.splitting.lines import Lines, find_lines

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SplitProblem:
    """A program, and what the arena holds of its boundary.

    Attributes
    ----------
    program
        Runs every op once.
    residency
        What the arena holds of the boundary.
    sharing
        The kinds of relations that may be chosen.

    Storages are numbered. A view that may be cut is one of its own, which takes over the bytes of
    the tensor it is made from. If other tensors of its storage are accessed later, it *borrows*
    its bytes: it has none of its own, and whatever reads it reads its storage, too. Any other view
    counts as the whole storage it lies in.
    """

    program: Program
    residency: Residency
    sharing: frozenset[RelationKind] = frozenset()
    _axes: dict[str, dict[str, Axis]] = field(default_factory=dict, repr=False)
    _tables: dict[tuple[Window, int], tuple[Ints, Ints]] = field(default_factory=dict, repr=False)
    # By identity of a window or an axis of the graph, which are slow to compare.
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
    def lines(self) -> Lines:
        """Axes along which tensors may be cut."""
        return find_lines(self.graph)

    @cached_property
    def separate(self) -> frozenset[str]:
        """Views that take over the bytes of the tensors they are made from.

        So do all of a storage, if they show all of it and nothing accesses a tensor of it after its
        view is made.
        """
        graph, source = self.graph, self.lines.source
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
        """Views that may be cut and borrow their bytes, which nothing writes but ops of no cost."""
        graph, source = self.graph, self.lines.source
        written = {
            graph.root[view][0]
            for view in source
            if view in self.separate or graph.producer[view].cost
        }
        return frozenset(view for view in source if graph.root[view][0] not in written)

    def lender(self, tensor: str) -> int | None:
        """Number of the storage that a tensor borrows its bytes from, if it does."""
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
        """Tensors of storages with views that take over one another's bytes."""
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
        """Numbers of a tensor's storage, and of the one from which it borrows its bytes."""
        return self._stored[tensor]

    @cached_property
    def size(self) -> list[int]:
        """Bytes of each storage in the arena; 0 if it is outside."""
        graph, outside = self.graph, set[str]()
        for tensor in graph.tensors:
            constant = tensor.kind == "constant" and self.residency.constants == "outside"
            if constant or is_outside(tensor, self.residency):
                outside.add(graph.root[tensor.name][0])
        outside |= self.borrowed
        roots = ((name, graph.root[name][0]) for name in self.names)
        return [
            0 if root in outside or name in outside else graph.tensor[root].nbytes
            for name, root in roots
        ]

    @cached_property
    def accessed(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Storages that each step reads, and that it writes, workspaces among them."""
        found = []
        for op in self.ops:
            written = dict.fromkeys(self.storage(t) for t in op.outputs + op.workspaces)
            read = dict.fromkeys(m for t in op.inputs for m in self.stored(t))
            found.append((tuple(read), tuple(written)))
        return found

    @cached_property
    def lives(self) -> tuple[list[int], list[int]]:
        """First step and the step after the last at which each storage is live.

        Those that are there after the last step have one more than there are steps.
        """
        steps = len(self.ops)
        first, last = [steps] * len(self.names), [0] * len(self.names)
        for step, (read, written) in enumerate(self.accessed):
            for m in (*read, *written):
                first[m], last[m] = min(first[m], step), max(last[m], step + 1)
        for tensor in self.graph.tensors:
            stays = tensor.kind == "input" and self.residency.inputs == "keep"
            for m in self.stored(tensor.name):
                if tensor.kind in ("input", "constant"):
                    first[m], last[m] = 0, max(last[m], 1)
                if stays or tensor.kind in ("output", "constant"):
                    last[m] = steps + 1
                    first[m] = min(first[m], steps)
        return first, last

    @cached_property
    def boundary(self) -> list[int]:
        """Bytes live between step ``k - 1`` and step ``k``, for every ``k`` up to the end."""
        steps = len(self.ops)
        change = np.zeros(steps + 2, np.int64)
        for m, (lower, upper) in enumerate(zip(*self.lives, strict=True)):
            # Live at the boundary if written before and needed after.
            source = self.given[m]
            change[lower if source else lower + 1] += self.size[m]
            change[upper] -= self.size[m]
        live: list[int] = np.cumsum(change)[: steps + 1].tolist()
        return live

    @cached_property
    def given(self) -> list[bool]:
        """True for the storages that the caller brings."""
        kinds = {m: self.graph.tensor[name].kind for name, m in self.storages.items()}
        made = {m for _, written in self.accessed for m in written}
        return [kinds[m] in ("input", "constant") or m not in made for m in range(len(self.names))]

    @cached_property
    def written_in_turn(self) -> list[list[int]]:
        """Steps that write each storage which several do, or which is read before; ascending."""
        writers: dict[int, list[int]] = {}
        read_before = set[int]()
        for step, (read, written) in enumerate(self.accessed):
            for m in written:
                writers.setdefault(m, []).append(step)
            read_before |= {m for m in read if m not in writers}
        found = [s for m, s in writers.items() if len(s) > 1 or m in read_before]
        return sorted(found)

    def stirs(self, step: int) -> bool:
        """True if a step puts all of what it reads elsewhere, along an axis it may be cut along.

        Whoever needs a part of what it writes needs all of what it reads: rotated rows, say.
        """
        op, tensors = self.ops[step], self.graph.tensor
        read = {name: tensors[name].nbytes for name in op.inputs}
        for axis in self.axes(op).values():
            written = [w.tensor for w in axis.windows if w.tensor in op.outputs]
            if written and not any(w.tensor in read for w in axis.windows):
                return any(tensors[name].nbytes in read.values() for name in written)
        return False

    def moves(self, step: int) -> bool:
        """True if a step writes bytes in the arena of a storage that it does not read."""
        read, written = self.accessed[step]
        return any(self.size[m] for m in written if m not in read)

    def axes(self, op: Op) -> dict[str, Axis]:
        """Axes along which the search may cut an op, by name.

        Where views allow cuts only between several steps, these are one step.
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
        """Steps of an op's own axis that are one of the axis along which the search cuts it."""
        own = next(axis for axis in op.axes if axis.name == name)
        return own.extent // self.axes(op)[name].extent

    def extent(self, tensor: str, axis: int) -> int:
        """Units of a tensor along an axis."""
        shape = self.graph.tensor[tensor].shape
        assert shape is not None
        return shape[axis] // self.lines.grain[tensor][axis]

    def is_identity(self, window: Window) -> bool:
        """True if each step of an op accesses the unit of its number."""
        grain = self.lines.grain[window.tensor][window.axis]
        return (window.stride, window.offset, window.size, window.table) == (grain, 0, grain, None)

    def intervals_of(self, storage: int, window: Window, axis: Axis) -> tuple[Ints, Ints]:
        """The same in units of the storage from which the window's tensor may borrow its bytes."""
        low, high = self.intervals(window, axis)
        if storage == self.storage(window.tensor):
            return low, high
        first = self.lines.first(window.tensor, window.axis)
        return low + first, high + first

    def axis_of(self, storage: int, window: Window) -> int:
        """Axis of a storage that a window of a tensor goes along."""
        if storage == self.storage(window.tensor):
            return window.axis
        return self.lines.line[window.tensor][window.axis]

    def window(self, axis: Axis, tensor: str, storage: int) -> tuple[Window, int] | None:
        """Window of an axis for a tensor that the search may cut there, if there is one.

        With it, the axis of the storage that it goes along, one of those that the tensor has its
        bytes from.
        """
        key = id(axis), tensor, storage
        if key not in self._windows:
            found = axis.window.get(tensor)
            cut = found is not None and self.cuts(found)
            self._windows[key] = (found, self.axis_of(storage, found)) if found and cut else None
        return self._windows[key]

    def intervals(self, window: Window, axis: Axis) -> tuple[Ints, Ints]:
        """First unit and the one after the last of the window at each step of its axis."""
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
            # Padding alone accesses nothing: it needs neither more nor less than its neighbours.
            empty = low >= high
            high[empty] = 0
            self._tables[key] = np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high)
        return self._tables[key]


def _coarser(axis: Axis, steps: int) -> Axis:
    """The axis whose steps are each this number of steps of another."""
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
    """First position and the one after the last of a window at each step of its axis."""
    if window.table is not None:
        table = np.array(window.table, np.int64).reshape(-1, 2)
        low, high = table[:, 0], table[:, 1]
    else:
        low = np.arange(steps) * window.stride + window.offset
        high = low + window.size
    low = np.clip(low, 0, extent)
    return low, np.maximum(np.minimum(high, extent), low)
