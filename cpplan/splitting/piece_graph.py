"""The graph of pieces: from a graph and the cuts of its ops follows one graph, with these rules.

*Pieces.* An op with cuts becomes one op a piece, in the place of the op and in lexicographic order
of their intervals; ``conv1[0:8]`` and, along two axes, ``conv1[0:8,4:9]``. All other ops stay
whole.

*Windows.* Along each axis of a tensor that one of the axes cut has a window for, a piece accesses
the window's interval; along all other axes it accesses the whole tensor. An empty interval means
that the piece does not access the tensor at all.

*Bands.* A tensor is cut, along each of its axes, at the ends of all intervals that pieces of its
writer and of its readers access; each product of the parts between is a tensor of its own, a
*band*. It has the tensor's kind, alignment and pools, and bears the intervals of the axes that
have cuts, in the order of the shape: ``t[0:8]``, ``t[0:8,4:9]``. So each piece reads and writes
whole bands, and mostly several; a tensor without cuts keeps its name. Not cut are constants,
tensors of unknown shape or type, elements that are not whole bytes, and storages with views that
have no lines; pieces read them whole, and an op that writes one cannot be cut along an axis of it.

*Equal bands.* The two tensors of an in-place pair, or of a placement, of an op with cuts have the
same cuts along every axis for which a cut axis has the identity as window of both (stride 1,
offset 0, size 1, no table) and both have the same extent, in equal units: their bands correspond
to each other.

*Views.* A tensor and its views are cut alike, unit by unit of the lines that
:mod:`cpplan.splitting.lines` finds, each as far as it shows the storage; a band of a view is a view
of the band of its storage that holds it, and begins there where its first element lies. An interval
that a piece reads is rounded outwards to whole units. Tensors that show a part of an axis of their
storage have no equal bands along it.

*Accumulating axes.* Along one, each piece adds to all bands that the op writes. The first piece
makes ``y+8`` (for band ``y``, where 8 steps of the axis are in it), the next reads it and writes
``y+16``, and the last writes ``y``: all of them the same storage, of which the later are views.

*Costs.* A piece's share of the op's cost is that of its steps: with ``w`` of the op's ``n`` steps
in the pieces before and with it, the costs of these add up to ``cost * w // n`` (``cost * w / n``
where it is a float), so that those of all add up to the op's.

*What carries over.* A piece has copies of all the op's workspaces, whole (``ws[0:8]``); runs after
all pieces of what the op runs after, unless both are cut and it reads what that writes, or a view
made of it, when bands say so; and has those in-place pairs and placements whose bands
correspond. Ops with bodies, and those of a sequence, have no pieces.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple, TypedDict

from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph, Op, Placement
from cpplan.model.pieces import Pieces
from cpplan.model.plan import Plan
from cpplan.model.tensor import Tensor
from cpplan.program.anf import Program
from cpplan.splitting.lines import find_lines, shown_box

Interval = tuple[int, int]
Box = tuple[Interval, ...]
"""An interval along each axis of a tensor's shape."""
_Line = tuple[str, int]


class _Location(TypedDict):
    """Storage, offset and bytes of a view."""

    view_of: tuple[str, int]
    size: int | None


class Band(NamedTuple):
    """A part of a tensor that is a tensor of its own."""

    name: str
    box: Box


@dataclass(frozen=True, slots=True)
class PieceGraph:
    """The graph of pieces, and where in it the ops and tensors of the original graph are.

    Attributes
    ----------
    graph
        The graph of pieces.
    cuts
        The cuts that it follows from.
    pieces
        Op of the original graph -> its pieces' intervals along the axes cut -> name of the piece.
        Whole ops have one, of no interval.
    bands
        Tensor of the original graph that has cuts -> its bands, in the order of the shape.
    source
        Op of the graph of pieces -> the op that it is a piece of.
    part
        Band, or sum so far, -> the tensor that it is a part of, and its intervals there.
    """

    graph: Graph
    cuts: tuple[Pieces, ...]
    pieces: Mapping[str, Mapping[tuple[Interval, ...], str]]
    bands: Mapping[str, tuple[Band, ...]]
    source: Mapping[str, str]
    part: Mapping[str, tuple[str, Box]]


def split_graph(graph: Graph, pieces: Iterable[Pieces]) -> PieceGraph:
    """The graph of pieces that follows from the cuts of some ops.

    Raises
    ------
    InputError
        If the cuts name an unknown op or axis, leave an axis, or the op cannot be cut so.

    Examples
    --------
    >>> axis = Axis("rows", 4, (Window("x", 0), Window("y", 0)))
    >>> shape = {"shape": (4, 2), "dtype": "int8"}
    >>> tensors = Tensor("x", kind="input", **shape), Tensor("y", kind="output", **shape)
    >>> graph = Graph("g", tensors, (Op("f", "Relu", ("x",), ("y",), axes=(axis,)),))
    >>> found = split_graph(graph, [Pieces("f", ("rows",), ((1,),))]).graph
    >>> [(op.name, op.inputs, op.outputs) for op in found.ops]
    [('f[0:1]', ('x[0:1]',), ('y[0:1]',)), ('f[1:4]', ('x[1:4]',), ('y[1:4]',))]
    """
    return _Splitter(graph, tuple(pieces)).build()


def cut_positions(
    graph: Graph, pieces: Iterable[Pieces]
) -> Mapping[str, Sequence[Collection[int]]]:
    """Interior positions at which each tensor that may be cut is, along each of its axes.

    Raises
    ------
    InputError
        As :func:`split_graph`.
    """
    return _Splitter(graph, tuple(pieces)).cuts


def as_pieces(plan: Plan, source: Graph | Program) -> tuple[Plan, Graph]:
    """The plan as one of its graph of pieces, in which every op runs whole, and that graph.

    Its bound holds there, too.

    Raises
    ------
    InputError
        If the plan is for another model.
    """
    graph = source.graph if isinstance(source, Program) else source
    with located("the plan is for another model"):
        graph = split_graph(graph, plan.pieces).graph
    return replace(plan, pieces=(), copied_bytes=None), graph


def is_identity(window: Window) -> bool:
    """True if a window's interval is the op's own."""
    return (window.stride, window.offset, window.size, window.table) == (1, 0, 1, None)


def reads_from(graph: Graph, op: Op, other: Op) -> bool:
    """True if an op reads what another one writes, or a view that is made of it."""
    names = list(op.inputs)
    while names:
        name = names.pop()
        if name in other.outputs:
            return True
        maker = None if graph.is_storage(name) else graph.producer.get(name)
        made_from = [] if maker is None else maker.inputs
        sources = [t for t in made_from if graph.root[t][0] == graph.root[name][0]]
        names += sources if len(sources) == 1 else []
    return False


class _Splitter:
    """The steps from cuts to the graph of pieces."""

    def __init__(self, graph: Graph, pieces: tuple[Pieces, ...]):
        if graph.symbols is not None:
            raise InputError("pieces need fixed sizes: bind the graph's variables first")
        self._graph, self._given = graph, pieces
        self._lines = find_lines(graph)
        self._axes: dict[str, tuple[Axis, ...]] = {}
        self._intervals: dict[str, list[tuple[Interval, ...]]] = {}
        for cut in pieces:
            self._read(cut)
        self.cuts = self._tensor_cuts()
        self._bands: dict[str, dict[Box, str]] = {}
        self._parts: dict[str, list[list[Interval]]] = {}
        self._box: dict[str, Box] = {}
        self._sums: dict[str, str] = {}
        for name, axes in self.cuts.items():
            if any(axes):
                self._make_bands(name, axes)
            else:
                self._box[name] = tuple((0, n) for n in graph.tensor[name].shape or ())

    def _read(self, cut: Pieces) -> None:
        here = f"pieces of op {cut.op!r}"
        op = self._graph.op.get(cut.op)
        if op is None:
            raise InputError(f"{here}: the graph has no such op")
        if cut.op in self._axes:
            raise InputError(f"{here}: are given twice")
        known = {axis.name: axis for axis in op.axes}
        for name in cut.axes:
            if name not in known:
                has = ", ".join(map(repr, known)) or "none"
                raise InputError(f"{here}: the op has no axis {name!r}: its axes are {has}")
            if not self._lines.can_cut(op, known[name]):
                raise InputError(f"{here}: the op cannot be cut along axis {name!r}")
        axes = tuple(known[name] for name in cut.axes)
        seen: set[tuple[str, int]] = set()
        for window in (window for axis in axes for window in axis.window.values()):
            if (window.tensor, window.axis) in seen:
                raise InputError(
                    f"{here}: two of the axes cut {window.tensor!r} along its axis {window.axis}"
                )
            seen.add((window.tensor, window.axis))
        self._axes[cut.op] = axes
        along = cut.intervals(tuple(axis.extent for axis in axes))
        self._intervals[cut.op] = list(product(*along))

    def _windows(self, op: str) -> Iterator[tuple[int, Window]]:
        """Windows of the axes that an op is cut along, where tensors may be cut."""
        for number, axis in enumerate(self._axes[op]):
            for window in axis.windows:
                if self._lines.has(window):
                    yield number, window

    def _tensor_cuts(self) -> dict[str, list[set[int]]]:
        """Interior positions of each tensor's cuts along each of its axes."""
        tensor, lines = self._graph.tensor, self._lines
        # Storage and line -> units between which it is cut.
        cuts: dict[_Line, set[int]] = {}
        for op, all_intervals in self._intervals.items():
            for number, window in self._windows(op):
                extent = _extent(tensor[window.tensor], window.axis)
                ends = cuts.setdefault(self._line(window.tensor, window.axis), set())
                for start, stop in {intervals[number] for intervals in all_intervals}:
                    low, high = lines.interval(window, start, stop, extent)
                    if low < high:
                        grain = lines.grain[window.tensor][window.axis]
                        first = lines.first(window.tensor, window.axis)
                        ends.update((first + low // grain, first + high // grain))
        self._make_equal(cuts)
        found = {}
        for name in lines.line:
            found[name] = [set[int]() for _ in tensor[name].shape or ()]
            for axis, grain in lines.grain[name].items():
                first, extent = lines.first(name, axis), _extent(tensor[name], axis)
                own = {grain * (k - first) for k in cuts.get(self._line(name, axis), ())}
                found[name][axis] = {position for position in own if 0 < position < extent}
        return found

    def _line(self, name: str, axis: int) -> _Line:
        return self._graph.root[name][0], self._lines.line[name][axis]

    def _make_equal(self, cuts: dict[_Line, set[int]]) -> None:
        """Give storages whose bands correspond the same cuts, by union-find over their lines."""
        root: dict[_Line, _Line] = {}

        def find(key: _Line) -> _Line:
            while root.setdefault(key, key) != key:
                root[key] = key = root[root[key]]
            return key

        for op in self._axes:
            for one, other in _relations(self._graph.op[op]):
                for axis in self._common_axes(op, one, other).values():
                    root[find(self._line(one, axis))] = find(self._line(other, axis))
        groups: dict[_Line, set[int]] = {}
        for key in root:
            groups.setdefault(find(key), set()).update(cuts.get(key, ()))
        for key in root:
            cuts[key] = groups[find(key)]

    def _common_axes(self, op: str, one: str, other: str) -> dict[int, int]:
        """Number of an axis cut -> the tensors' axis along which their bands correspond."""
        found: dict[int, int] = {}
        grain = self._lines.grain
        if one not in grain or other not in grain:
            return found
        for number, axis in enumerate(self._axes[op]):
            windows = axis.window.get(one), axis.window.get(other)
            if windows[0] is None or windows[1] is None or windows[0].axis != windows[1].axis:
                continue
            at = windows[0].axis
            same = _extent(self._graph.tensor[one], at) == _extent(self._graph.tensor[other], at)
            same &= at in grain[one] and grain[one].get(at) == grain[other].get(at)
            same = same and all(self._shows_all(name, at) for name in (one, other))
            if same and is_identity(windows[0]) and is_identity(windows[1]):
                found[number] = at
        return found

    def _shows_all(self, name: str, axis: int) -> bool:
        """True if a tensor shows all of the axis of its storage that its own goes along."""
        line, root = self._lines.line[name][axis], self._graph.root[name][0]
        return self._lines.shown[name][line] == self._lines.shown[root][line]

    def _make_bands(self, name: str, axes: list[set[int]]) -> None:
        tensor = self._graph.tensor[name]
        parts: list[list[Interval]] = []
        for axis, ends in enumerate(axes):
            positions = [0, *sorted(ends), _extent(tensor, axis)]
            parts.append(list(pairwise(positions)))
        self._parts[name] = parts
        cut = [axis for axis, ends in enumerate(axes) if ends]
        self._bands[name] = {
            box: f"{name}[{_text(box[axis] for axis in cut)}]" for box in product(*parts)
        }
        self._box.update((band, box) for box, band in self._bands[name].items())

    def build(self) -> PieceGraph:
        """The graph of pieces."""
        tensors: list[Tensor] = []
        for tensor in self._graph.tensors:
            bands = self._bands.get(tensor.name)
            if tensor.kind == "workspace":
                tensors.append(tensor)
            elif bands is None:
                tensors.append(self._uncut(tensor))
            else:
                tensors.extend(self._band(tensor, name, box) for box, name in bands.items())
        by_name = {tensor.name: tensor for tensor in tensors}
        names = {
            op.name: {
                intervals: f"{op.name}[{_text(intervals)}]" if intervals else op.name
                for intervals in self._intervals.get(op.name, [()])
            }
            for op in self._graph.ops
        }
        ops: list[Op] = []
        source: dict[str, str] = {}
        for op in self._graph.ops:
            after = tuple(
                name
                for other in op.after
                if not self._is_followed_by_bands(other, op)
                for name in names[other].values()
            )
            if op.name not in self._axes:
                ops.append(self._whole(op, after))
            else:
                ops.extend(self._cut(op, names[op.name], after, by_name))
            source.update(dict.fromkeys(names[op.name].values(), op.name))
        graph = Graph(self._graph.name, tuple(by_name.values()), tuple(ops))
        all_bands = {
            original: tuple(Band(name, box) for box, name in boxes.items())
            for original, boxes in self._bands.items()
        }
        part = {band: (name, box) for name, found in all_bands.items() for band, box in found}
        part |= {name: part[band] for name, band in self._sums.items() if band in part}
        return PieceGraph(graph, self._given, names, all_bands, source, part)

    def _is_followed_by_bands(self, other: str, op: Op) -> bool:
        """True if both ops are cut, and one reads what the other writes, or a view of it."""
        cut = other in self._axes and op.name in self._axes
        return cut and reads_from(self._graph, op, self._graph.op[other])

    def _band(self, tensor: Tensor, name: str, box: Box) -> Tensor:
        """The band of a tensor; of a view, a view of the band of its storage."""
        shape = tuple(stop - start for start, stop in box)
        if tensor.view_of is None:
            # Tensors that are cut have whole elements, all of the same bytes.
            size = tensor.nbytes // math.prod(tensor.shape or ()) * math.prod(shape)
            return replace(tensor, name=name, shape=shape, size=size)
        return replace(tensor, name=name, shape=shape, **self._within_band(tensor, box))

    def _uncut(self, tensor: Tensor) -> Tensor:
        """A tensor without cuts; a view lies in a band of its storage if that has cuts."""
        if tensor.view_of is None or self._graph.root[tensor.name][0] not in self._bands:
            return tensor
        return replace(tensor, **self._within_band(tensor, self._box[tensor.name]))

    def _within_band(self, view: Tensor, box: Box) -> _Location:
        """Location of a part of a view in the band of its storage that holds it."""
        root, start = self._graph.root[view.name]
        storage, lines = self._graph.tensor[root], self._lines
        whole = [(0, extent) for extent in storage.shape or ()]
        inside = list(whole)
        axis_of = {line: axis for axis, line in lines.line[view.name].items()}
        for line, (low, high) in lines.shown[view.name].items():
            width = lines.grain[root][line]
            if line in axis_of:
                grain = lines.grain[view.name][axis_of[line]]
                low, high = (low + end // grain for end in box[axis_of[line]])
            inside[line] = low * width, high * width
            whole[line] = next(
                part
                for part in self._parts[root][line]
                if part[0] <= low * width and high * width <= part[1]
            )
        base = self._bands[root][tuple(whole)]
        if (start, view.nbytes) == (0, storage.nbytes):
            return {"view_of": (base, 0), "size": None}
        # Between the corners of the part, what the view leaves out of the last position stays out.
        width = storage.nbytes // math.prod(storage.shape or ())
        shown = shown_box(self._graph, view)
        assert shown is not None
        for line in range(len(whole)):
            if line not in lines.shown[view.name]:
                inside[line] = shown[line]
        first = last = 0
        for (low, high), (begin, end) in zip(inside, whole, strict=True):
            first = first * (end - begin) + low - begin
            last = last * (end - begin) + high - 1 - begin
        return {"view_of": (base, first * width), "size": (last + 1 - first) * width}

    def _whole(self, op: Op, after: tuple[str, ...]) -> Op:
        """An op without cuts, which reads and writes all bands."""
        if not any(name in self._bands for name in op.tensors) and after == op.after:
            return op if not op.axes else replace(op, axes=())
        kept = [r for r in op.in_place if not any(name in self._bands for name in r)]
        placed = [p for p in op.placements if not any(name in self._bands for name in p[:2])]
        return replace(
            op,
            inputs=tuple(band for name in op.inputs for band in self._all(name)),
            outputs=tuple(band for name in op.outputs for band in self._all(name)),
            in_place=tuple(kept),
            placements=tuple(placed),
            after=after,
            axes=(),
        )

    def _all(self, name: str) -> Iterable[str]:
        return self._bands[name].values() if name in self._bands else (name,)

    def _accessed(self, op: str, tensor: str, intervals: tuple[Interval, ...]) -> list[str]:
        """Names of the bands of a tensor that a piece accesses."""
        if tensor not in self._bands:
            windows = [(n, w) for n, w in self._windows(op) if w.tensor == tensor]
            shape = self._graph.tensor[tensor]
            for number, window in windows:
                extent = _extent(shape, window.axis)
                low, high = self._lines.interval(window, *intervals[number], extent)
                if low == high:
                    return []
            return [tensor]
        parts = list(self._parts[tensor])
        for number, window in self._windows(op):
            if window.tensor == tensor:
                extent = _extent(self._graph.tensor[tensor], window.axis)
                low, high = self._lines.interval(window, *intervals[number], extent)
                parts[window.axis] = [
                    part for part in parts[window.axis] if low <= part[0] and part[1] <= high
                ]
        return [self._bands[tensor][box] for box in product(*parts)]

    def _cut(
        self,
        op: Op,
        names: Mapping[tuple[Interval, ...], str],
        after: tuple[str, ...],
        tensors: dict[str, Tensor],
    ) -> Iterator[Op]:
        """The pieces of an op."""
        adding = [number for number, axis in enumerate(self._axes[op.name]) if axis.accumulates]
        total = math.prod(axis.extent for axis in self._axes[op.name])
        seen: dict[str, list[str]] = {}
        done, spent = 0, op.cost * 0
        last = {
            tuple(interval for k, interval in enumerate(i) if k not in adding): i for i in names
        }
        for intervals, name in names.items():
            suffix = name[len(op.name) :]
            reads = {t: self._accessed(op.name, t, intervals) for t in op.inputs}
            writes = {t: self._accessed(op.name, t, intervals) for t in op.outputs}
            workspaces = []
            for workspace in op.workspaces:
                original = self._graph.tensor[workspace]
                tensors[workspace + suffix] = replace(original, name=workspace + suffix)
                workspaces.append(workspace + suffix)
            done += math.prod(stop - start for start, stop in intervals)
            until = (
                op.cost * done / total if isinstance(op.cost, float) else op.cost * done // total
            )
            cost, spent = until - spent, until
            inputs = [band for bands in reads.values() for band in bands]
            outputs = [band for bands in writes.values() for band in bands]
            pairs = self._pairs(op, reads, writes, tensors)
            placements = self._placements(op, reads, writes, tensors)
            if adding:
                pairs = placements = ()
                kept = tuple(i for k, i in enumerate(intervals) if k not in adding)
                ends = last[kept] == intervals
                steps = "+".join(str(intervals[k][1]) for k in adding)
                inputs += [seen[band][-1] for band in outputs if band in seen]
                outputs = [
                    self._partial(band, band if ends else f"{band}+{steps}", seen, tensors)
                    for band in outputs
                ]
            yield replace(
                op,
                name=name,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                workspaces=tuple(workspaces),
                cost=cost,
                in_place=pairs,
                placements=placements,
                after=after,
                axes=(),
            )
        for workspace in op.workspaces:
            tensors.pop(workspace)

    def _partial(
        self, band: str, name: str, seen: dict[str, list[str]], tensors: dict[str, Tensor]
    ) -> str:
        """Add the tensor that holds a band's sum so far, and return its name."""
        chain = seen.setdefault(band, [])
        view_of = (chain[0], 0) if chain else None
        kind = tensors[band].kind if name == band else "intermediate"
        tensors[name] = replace(tensors[band], name=name, kind=kind, view_of=view_of)
        self._sums[name] = band
        chain.append(name)
        return name

    def _pairs(
        self,
        op: Op,
        reads: Mapping[str, list[str]],
        writes: Mapping[str, list[str]],
        tensors: Mapping[str, Tensor],
    ) -> tuple[tuple[str, str], ...]:
        """In-place pairs of the bands that a piece accesses."""
        found = []
        for output, source in op.in_place:
            if len(self._common_axes(op.name, output, source)) < len(self._axes[op.name]):
                continue
            there = {self._box[band]: band for band in reads[source]}
            for band in writes[output]:
                other = there.get(self._box[band])
                if other is not None and tensors[band].nbytes == tensors[other].nbytes:
                    found.append((band, other))
        return tuple(found)

    def _placements(
        self,
        op: Op,
        reads: Mapping[str, list[str]],
        writes: Mapping[str, list[str]],
        tensors: Mapping[str, Tensor],
    ) -> tuple[Placement, ...]:
        """Placements of the bands that a piece accesses, if part and whole differ in one axis."""
        found = []
        accessed = {**reads, **writes}
        for part, whole, offset in op.placements:
            if len(self._common_axes(op.name, part, whole)) < len(self._axes[op.name]):
                continue
            shapes = self._graph.tensor[part].shape, self._graph.tensor[whole].shape
            assert shapes[0] is not None
            assert shapes[1] is not None
            pairs = enumerate(zip(shapes[0], shapes[1], strict=False))
            differ = [k for k, (one, other) in pairs if one != other]
            if len(shapes[0]) != len(shapes[1]) or len(differ) != 1:
                continue
            (at,) = differ
            inner, left = math.prod(shapes[1][at + 1 :]), offset * shapes[1][at]
            start, rest = divmod(left, max(self._graph.tensor[whole].nbytes, 1))
            if rest or math.prod(shapes[1][:at]) != 1 or not inner:
                continue
            there = {self._box[band]: band for band in accessed[part]}
            for band in accessed[whole]:
                box = list(self._box[band])
                box[at] = (0, shapes[0][at])
                within = there.get(tuple(box))
                if within is not None and self._box[band][at] == (0, shapes[1][at]):
                    found.append(
                        Placement(within, band, start * tensors[band].nbytes // shapes[1][at])
                    )
        return tuple(found)


def _relations(op: Op) -> Iterator[tuple[str, str]]:
    yield from op.in_place
    for part, whole, _ in op.placements:
        yield part, whole


def _extent(tensor: Tensor, axis: int) -> int:
    assert tensor.shape is not None
    return tensor.shape[axis]


def _text(intervals: Iterable[Interval]) -> str:
    return ",".join(f"{start}:{stop}" for start, stop in intervals)
