"""Axes along which tensors and their views may be cut, found from each view back to its base.

An op that makes a view of all its source's bytes takes along an axis of the source if it has an
axis whose steps divide both evenly. What is taken along by all views of a storage may be cut, at
the ends that all those steps share; their distance on a tensor's axis is its *pitch*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cpplan.model.axes import Axis, Window
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Op
from cpplan.model.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Place:
    """The axis of its base that a tensor's axis is, and the pitch of its cuts."""

    base_axis: int
    pitch: int


@dataclass(slots=True)
class CutTensors:
    """Places of the axes of the tensors that may be cut.

    Attributes
    ----------
    places
        Tensor -> axis -> its place.
    only
        View -> names of the axes along which the op that makes it may be cut.
    """

    places: dict[str, dict[int, Place]] = field(default_factory=dict)
    only: dict[str, set[str]] = field(default_factory=dict)

    def place(self, tensor: str, axis: int) -> Place | None:
        """The place of a tensor's axis; ``None`` if it may not be cut."""
        return self.places.get(tensor, {}).get(axis)

    def refused(self, op: Op, axis: Axis) -> str | None:
        """An output that an axis of an op cannot cut, or ``None``."""
        for name in op.outputs:
            if name not in self.places or axis.name not in self.only.get(name, {axis.name}):
                return name
            for window in axis.windows:
                if window.tensor == name and not self._meets_ends(window):
                    return name
        return None

    def _meets_ends(self, window: Window) -> bool:
        place = self.place(window.tensor, window.axis)
        if place is None:
            return False
        regular = [window.stride, window.offset, window.size]
        ends = regular if window.table is None else [end for span in window.table for end in span]
        return all(end % place.pitch == 0 for end in ends)


def cut_tensors(graph: Graph) -> CutTensors:
    """Places of all tensors of a graph that may be cut.

    Examples
    --------
    >>> rows = Axis("rows", 4, (Window("x", 0), Window("y", 0, 2, 0, 2)))
    >>> x = Tensor("x", shape=(4, 6), dtype="int8", kind="input")
    >>> y = Tensor("y", shape=(8, 3), dtype="int8", view_of=("x", 0))
    >>> graph = Graph("g", (x, y), (Op("f", "Reshape", ("x",), ("y",), axes=(rows,)),))
    >>> cut_tensors(graph).places["y"]
    {0: Place(base_axis=0, pitch=2)}
    """
    found = CutTensors()
    storages: dict[str, list[str]] = {}
    for tensor in graph.tensors:
        storages.setdefault(graph.root[tensor.name][0], []).append(tensor.name)
    for base, names in storages.items():
        if all(_countable(graph.tensor[name]) for name in names):
            shape = graph.tensor[base].shape or ()
            if names == [base]:
                found.places[base] = {axis: Place(axis, 1) for axis in range(len(shape))}
            else:
                _Storage(graph, base, names).describe(found)
    return found


def _countable(tensor: Tensor) -> bool:
    """True for tensors of the graph's own with elements of whole bytes."""
    own = tensor.kind not in ("constant", "workspace")
    if not own or tensor.shape is None or tensor.dtype is None or tensor.symbolic:
        return False
    width, rest = divmod(BITS[tensor.dtype], 8)
    return rest == 0 and 0 < tensor.nbytes == width * math.prod(tensor.shape)


class _Storage:
    """A storage with views."""

    def __init__(self, graph: Graph, base: str, names: Sequence[str]):
        self._graph, self._base, self._names = graph, base, names
        shape = graph.tensor[base].shape or ()
        # Tensor -> axis of the base -> axis of the tensor, and the op's axis that takes it along.
        self._at: dict[str, dict[int, tuple[int, str]]] = {
            base: {axis: (axis, "") for axis in range(len(shape))}
        }
        self._shared = list(shape)

    def describe(self, found: CutTensors) -> None:
        """Add the places of all tensors, if they have any in common."""
        nbytes = self._graph.tensor[self._base].nbytes
        for name in self._names:
            whole = self._graph.root[name][1] == 0 and self._graph.tensor[name].nbytes == nbytes
            if not whole or self._follow(name, ()) is None:
                return
        kept = {
            axis
            for axis, count in enumerate(self._shared)
            if count > 1 and all(axis in self._at[name] for name in self._names)
        }
        for name in self._names if kept else ():
            shape = self._graph.tensor[name].shape or ()
            axes = {own: axis for axis, (own, _) in self._at[name].items() if axis in kept}
            found.places[name] = {
                own: Place(axis, shape[own] // self._shared[axis]) for own, axis in axes.items()
            }
            if name != self._base:
                found.only[name] = {self._at[name][axis][1] for axis in kept}

    def _follow(self, name: str, seen: tuple[str, ...]) -> Mapping[int, tuple[int, str]] | None:
        """Axes of the base that a tensor has, by way of what it is made from; ``None`` if none."""
        if name in self._at:
            return self._at[name]
        op = self._graph.producer.get(name)
        if op is None or name in seen:
            return None
        sources = {source for source in op.inputs if source in self._names}
        if len(sources) != 1 or [out for out in op.outputs if out in self._names] != [name]:
            return None
        (source,) = sources
        before = self._follow(source, (*seen, name))
        if before is None:
            return None
        taken: dict[int, tuple[int, str]] = {}
        for axis in op.axes:
            there, made = self._steps(axis, source), self._steps(axis, name)
            if there is None or made is None:
                continue
            base_axis = next((k for k, (own, _) in before.items() if own == there), None)
            new = base_axis not in taken and made not in [own for own, _ in taken.values()]
            if base_axis is not None and new:
                taken[base_axis] = made, axis.name
                self._shared[base_axis] = math.gcd(self._shared[base_axis], axis.extent)
        self._at[name] = taken
        return taken

    def _steps(self, axis: Axis, name: str) -> int | None:
        """The axis of a tensor that an op's axis divides evenly, step by step."""
        for window in axis.windows:
            if window.tensor == name and not axis.accumulates and window.table is None:
                extent = (self._graph.tensor[name].shape or ())[window.axis]
                even = window.offset == 0 and window.stride == window.size
                if even and extent == axis.extent * window.size:
                    return window.axis
        return None
