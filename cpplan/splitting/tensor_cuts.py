"""Positions at which tensors are cut, from the cuts of the ops that access them.

See :mod:`cpplan.splitting.piece_graph`, "Bands", "Equal bands" and "Views".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product

from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op
from cpplan.model.pieces import Pieces
from cpplan.model.tensor import Tensor
from cpplan.splitting.lines import Lines, find_lines

Interval = tuple[int, int]
_Line = tuple[str, int]


class TensorCuts:
    """Cuts of a graph's tensors, which follow from the cuts of its ops.

    Parameters
    ----------
    graph, pieces
        The graph, and the cuts of some of its ops.
    lines
        Axes along which tensors may be cut; found if left out.

    Attributes
    ----------
    graph, given, lines
        The arguments.
    axes
        Op with cuts -> the axes along which it is cut.
    along
        Op with cuts -> the intervals of its pieces along each of these axes.
    windows, uncut
        Op with cuts -> the windows of these axes along which tensors may be cut, and may not, each
        with the number of its axis.
    at
        Tensor that may be cut -> for each of its axes, the interior positions of its cuts.

    Raises
    ------
    InputError
        If the graph's sizes depend on variables, or the cuts name an unknown op or axis or exceed
        an axis, or the op cannot be cut there.
    """

    def __init__(self, graph: Graph, pieces: Iterable[Pieces], lines: Lines | None = None):
        if graph.symbols is not None:
            raise InputError("pieces need fixed sizes: bind the graph's variables first")
        self.graph, self.given = graph, tuple(pieces)
        self.lines = find_lines(graph) if lines is None else lines
        self.axes: dict[str, tuple[Axis, ...]] = {}
        self.along: dict[str, tuple[tuple[Interval, ...], ...]] = {}
        self.windows: dict[str, list[tuple[int, Window]]] = {}
        self.uncut: dict[str, list[tuple[int, Window]]] = {}
        for cut in self.given:
            self._read(cut)
        self.at = self._tensor_cuts()

    def _read(self, cut: Pieces) -> None:
        here = f"pieces of op {cut.op!r}"
        op = self.graph.op.get(cut.op)
        if op is None:
            raise InputError(f"{here}: the graph has no such op")
        if cut.op in self.axes:
            raise InputError(f"{here} are given twice: expected all axes of an op together")
        known = {axis.name: axis for axis in op.axes}
        for name, positions in zip(cut.axes, cut.cuts, strict=True):
            if name not in known:
                has = ", ".join(map(repr, known)) or "none"
                raise InputError(f"{here}: the op has no axis {name!r}: its axes are {has}")
            steps = self.lines.steps(op, known[name])
            if steps is None:
                raise InputError(f"{here}: the op cannot be cut along axis {name!r}")
            between = next((position for position in positions if position % steps), None)
            if between is not None:
                raise InputError(
                    f"{here}: axis {name!r} cannot be cut at {between}: views allow only multiples "
                    f"of {steps}"
                )
        axes = tuple(known[name] for name in cut.axes)
        seen: set[tuple[str, int]] = set()
        for window in (window for axis in axes for window in axis.window.values()):
            if (window.tensor, window.axis) in seen:
                raise InputError(
                    f"{here}: two of the axes cut {window.tensor!r} along its axis {window.axis}"
                )
            seen.add((window.tensor, window.axis))
        self.axes[cut.op] = axes
        self.along[cut.op] = cut.intervals(tuple(axis.extent for axis in axes))
        every = [(k, window) for k, axis in enumerate(axes) for window in axis.windows]
        self.windows[cut.op] = [each for each in every if self.lines.has(each[1])]
        self.uncut[cut.op] = [each for each in every if not self.lines.has(each[1])]

    def _tensor_cuts(self) -> dict[str, list[set[int]]]:
        """For each tensor and each of its axes, the interior positions of its cuts."""
        tensor, lines = self.graph.tensor, self.lines
        # Storage and line -> units at which it is cut.
        cuts: dict[_Line, set[int]] = {}
        for op, along in self.along.items():
            for number, window in self.windows[op]:
                extent = extent_of(tensor[window.tensor], window.axis)
                ends = cuts.setdefault(self._line(window.tensor, window.axis), set())
                grain = lines.grain[window.tensor][window.axis]
                first = lines.first(window.tensor, window.axis)
                for start, stop in along[number]:
                    low, high = lines.interval(window, start, stop, extent)
                    if low < high:
                        ends.update((first + low // grain, first + high // grain))
        self._make_equal(cuts)
        found = {}
        for name in lines.line:
            found[name] = [set[int]() for _ in tensor[name].shape or ()]
            for axis, grain in lines.grain[name].items():
                first, extent = lines.first(name, axis), extent_of(tensor[name], axis)
                own = {grain * (k - first) for k in cuts.get(self._line(name, axis), ())}
                found[name][axis] = {position for position in own if 0 < position < extent}
        return found

    def intervals(self, op: str) -> Iterator[tuple[Interval, ...]]:
        """The intervals of each piece of an op with cuts, along all of its axes."""
        return product(*self.along[op])

    def _line(self, name: str, axis: int) -> _Line:
        return self.graph.root[name][0], self.lines.line[name][axis]

    def _make_equal(self, cuts: dict[_Line, set[int]]) -> None:
        """Give storages with corresponding bands the same cuts, by union-find over their lines."""
        root: dict[_Line, _Line] = {}

        def find(key: _Line) -> _Line:
            while root.setdefault(key, key) != key:
                root[key] = key = root[root[key]]
            return key

        for op in self.axes:
            for one, other in relations_of(self.graph.op[op]):
                for axis in self.common_axes(op, one, other).values():
                    root[find(self._line(one, axis))] = find(self._line(other, axis))
        groups: dict[_Line, set[int]] = {}
        for key in root:
            groups.setdefault(find(key), set()).update(cuts.get(key, ()))
        for key in root:
            cuts[key] = groups[find(key)]

    def common_axes(self, op: str, one: str, other: str) -> dict[int, int]:
        """Number of an axis cut -> axis of both tensors along which their bands correspond."""
        found: dict[int, int] = {}
        grain = self.lines.grain
        if one not in grain or other not in grain:
            return found
        for number, axis in enumerate(self.axes[op]):
            windows = axis.window.get(one), axis.window.get(other)
            if windows[0] is None or windows[1] is None or windows[0].axis != windows[1].axis:
                continue
            at = windows[0].axis
            same = extent_of(self.graph.tensor[one], at) == extent_of(self.graph.tensor[other], at)
            same &= at in grain[one] and grain[one].get(at) == grain[other].get(at)
            same = same and all(self._shows_all(name, at) for name in (one, other))
            if same and is_identity(windows[0]) and is_identity(windows[1]):
                found[number] = at
        return found

    def _shows_all(self, name: str, axis: int) -> bool:
        """True if a tensor's axis shows the whole line of its storage."""
        line, root = self.lines.line[name][axis], self.graph.root[name][0]
        return self.lines.shown[name][line] == self.lines.shown[root][line]


def cut_positions(
    graph: Graph, pieces: Iterable[Pieces], lines: Lines | None = None
) -> Mapping[str, Sequence[Collection[int]]]:
    """For each tensor that may be cut and each of its axes, the interior positions of its cuts."""
    return TensorCuts(graph, pieces, lines).at


def is_identity(window: Window) -> bool:
    """True if each step of the axis accesses the one position of its number."""
    return (window.stride, window.offset, window.size, window.table) == (1, 0, 1, None)


def relations_of(op: Op) -> Iterator[tuple[str, str]]:
    """Pairs of tensors that an op may give the same bytes."""
    yield from op.in_place
    for part, whole, _ in op.placements:
        yield part, whole


def extent_of(tensor: Tensor, axis: int) -> int:
    """Number of positions of a tensor along an axis."""
    assert tensor.shape is not None
    return tensor.shape[axis]
