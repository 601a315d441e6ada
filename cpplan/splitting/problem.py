"""The ops of a program as the search for pieces sees them: what they access, and when it lives."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from cpplan.splitting.piece_graph import axis_can_be_cut, can_be_cut

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

    Storages are numbered; a tensor that is a view counts as the whole storage it lies in.
    """

    program: Program
    residency: Residency
    sharing: frozenset[RelationKind] = frozenset()
    _tables: dict[tuple[Window, int], tuple[Ints, Ints]] = field(default_factory=dict, repr=False)

    @property
    def graph(self) -> Graph:
        """The graph that is computed."""
        return self.program.graph

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The op at every step."""
        return self.program.ops

    @cached_property
    def cuttable(self) -> frozenset[str]:
        """Names of the tensors that may be cut."""
        return can_be_cut(self.graph)

    @cached_property
    def storages(self) -> dict[str, int]:
        """Number of each storage, by name."""
        graph = self.graph
        return {
            t.name: k for k, t in enumerate(t for t in graph.tensors if graph.is_storage(t.name))
        }

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the storages."""
        return tuple(self.storages)

    def storage(self, tensor: str) -> int:
        """Number of the storage that a tensor lies in."""
        return self.storages[self.graph.root[tensor][0]]

    @cached_property
    def size(self) -> list[int]:
        """Bytes of each storage in the arena; 0 if it is outside."""
        graph, outside = self.graph, set[str]()
        for tensor in graph.tensors:
            constant = tensor.kind == "constant" and self.residency.constants == "outside"
            if constant or is_outside(tensor, self.residency):
                outside.add(graph.root[tensor.name][0])
        return [0 if name in outside else graph.tensor[name].nbytes for name in self.names]

    @cached_property
    def accessed(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Storages that each step reads, and that it writes, workspaces among them."""
        found = []
        for op in self.ops:
            written = dict.fromkeys(self.storage(t) for t in op.outputs + op.workspaces)
            read = dict.fromkeys(self.storage(t) for t in op.inputs)
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
            m = self.storage(tensor.name)
            if tensor.kind in ("input", "constant"):
                first[m], last[m] = 0, max(last[m], 1)
            stays = tensor.kind == "input" and self.residency.inputs == "keep"
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
        kinds = {
            self.storage(t.name): t.kind
            for t in self.graph.tensors
            if self.graph.is_storage(t.name)
        }
        made = {m for _, written in self.accessed for m in written}
        return [kinds[m] in ("input", "constant") or m not in made for m in range(len(self.names))]

    def moves(self, step: int) -> bool:
        """True if a step writes bytes in the arena of a storage that it does not read."""
        read, written = self.accessed[step]
        return any(self.size[m] for m in written if m not in read)

    def axes(self, op: Op) -> dict[str, Axis]:
        """Axes along which an op may be cut, by name."""
        return {axis.name: axis for axis in op.axes if axis_can_be_cut(op, axis, self.cuttable)}

    def intervals(self, window: Window, axis: Axis) -> tuple[Ints, Ints]:
        """First position and the one after the last of the window at each step of its axis."""
        key = window, axis.extent
        if key not in self._tables:
            shape = self.graph.tensor[window.tensor].shape
            assert shape is not None
            found = [window.interval(k, k + 1, shape[window.axis]) for k in range(axis.extent)]
            array = np.array(found, np.int64).reshape(-1, 2)
            low, high = array[:, 0].copy(), array[:, 1].copy()
            # Padding alone accesses nothing: it needs neither more nor less than its neighbours.
            empty = low >= high
            high[empty] = 0
            self._tables[key] = np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high)
        return self._tables[key]
