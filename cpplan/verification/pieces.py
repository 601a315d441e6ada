"""The graph of pieces of a plan, derived again from the model and the plan's cuts, and checked.

Each op that is cut runs once for each product of its intervals, and accesses the windows of these
intervals. A tensor is cut wherever such a window begins or ends, so that every piece accesses whole
bands. Then is checked, by counting elements, that the pieces of an op write every element of its
outputs just once, and that the bands each piece reads are all that its windows ask for.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product

from cpplan.model.axes import Axis, Window
from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph, Op, Placement
from cpplan.model.pieces import Pieces
from cpplan.model.plan import Plan
from cpplan.model.tensor import Tensor
from cpplan.program.anf import Program
from cpplan.verification.access_trace import Access

Span = tuple[int, int]
Part = tuple[Span, ...]
"""A span along each axis of a tensor."""


def graph_of_pieces(graph: Graph, pieces: Sequence[Pieces]) -> Graph:
    """The graph whose ops are the pieces of a plan; the same one if there are none.

    Raises
    ------
    VerificationError
        If an op cannot be cut so, or its pieces do not write every element of an output just once,
        or read what is in no band; names the op.

    Examples
    --------
    >>> rows = Axis("rows", 4, (Window("x", 0, 1, -1, 3), Window("y", 0)))
    >>> shape = {"shape": (4, 2), "dtype": "int8"}
    >>> tensors = Tensor("x", kind="input", **shape), Tensor("y", kind="output", **shape)
    >>> graph = Graph("g", tensors, (Op("f", "Conv", ("x",), ("y",), axes=(rows,)),))
    >>> for op in graph_of_pieces(graph, [Pieces("f", ("rows",), ((1,),))]).ops:
    ...     print(op.name, op.inputs, op.outputs)
    f[0:1] ('x[0:2]',) ('y[0:1]',)
    f[1:4] ('x[0:2]', 'x[2:4]') ('y[1:4]',)
    """
    return describe_pieces(graph, pieces).graph if pieces else graph


@dataclass(frozen=True, slots=True)
class Described:
    """A graph of pieces, and where in the model its tensors and ops are.

    Attributes
    ----------
    parts
        Band, or sum so far, -> the tensor that it is a part of, and which part.
    bands
        Tensor that is cut -> its bands, in the order of its shape; without sums so far.
    works
        Piece -> the op, the names of the axes along which it is cut, and the piece's spans there.
    """

    graph: Graph
    parts: Mapping[str, tuple[str, Part]]
    bands: Mapping[str, tuple[str, ...]]
    works: Mapping[str, tuple[str, tuple[str, ...], tuple[Span, ...]]]


def describe_pieces(graph: Graph, pieces: Sequence[Pieces]) -> Described:
    """The graph of pieces, with the parts that its tensors are.

    Raises
    ------
    VerificationError
        As :func:`graph_of_pieces`.
    """
    cut: dict[str, _CutOp] = {}
    cuttable = _cuttable(graph)
    for entry in pieces:
        if entry.op in cut:
            raise VerificationError(f"op {entry.op!r} is cut twice in the plan")
        cut[entry.op] = _CutOp.of(graph, entry, cuttable)
    bands = _Bands(graph, cut, cuttable)
    made = _Making(graph, cut, bands)
    try:
        return made.graph()
    except InputError as error:
        raise VerificationError(f"graph of pieces: {error}") from error


def _cuttable(graph: Graph) -> set[str]:
    """Tensors with elements of whole bytes, in storages that no other tensor lies in."""
    found = set()
    for tensor in graph.tensors:
        own = tensor.kind not in ("constant", "workspace") and tensor.view_of is None
        if not own or tensor.shape is None or tensor.dtype is None or tensor.symbolic:
            continue
        width, rest = divmod(BITS[tensor.dtype], 8)
        if rest == 0 and 0 < tensor.nbytes == width * math.prod(tensor.shape):
            found.add(tensor.name)
    return found - {tensor.view_of[0] for tensor in graph.tensors if tensor.view_of is not None}


@dataclass(frozen=True, slots=True)
class _CutOp:
    """An op and the axes along which it is cut, each with the ends of its intervals."""

    op: Op
    axes: tuple[Axis, ...]
    ends: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, graph: Graph, entry: Pieces, cuttable: Collection[str]) -> _CutOp:
        here = f"pieces of op {entry.op!r}"
        op = graph.op.get(entry.op)
        if op is None:
            raise VerificationError(f"{here}: the model has no such op")
        if graph.symbols is not None:
            raise VerificationError(f"{here}: the sizes of its tensors depend on variables")
        if op.bodies or op.sequence is not None:
            raise VerificationError(f"{here}: an op with bodies, or of a sequence, runs whole")
        found = {axis.name: axis for axis in op.axes}
        axes, ends = [], []
        for name, cuts in zip(entry.axes, entry.cuts, strict=True):
            axis = found.get(name)
            if axis is None:
                raise VerificationError(f"{here}: it has no axis {name!r}")
            positions = (0, *cuts, axis.extent)
            if any(low >= high for low, high in pairwise(positions)):
                raise VerificationError(
                    f"{here}: axis {name!r}: {list(cuts)} are not ascending positions within its "
                    f"{axis.extent} steps"
                )
            axes.append(axis)
            ends.append(positions)
        uncut = next((name for name in op.outputs if name not in cuttable), None)
        if uncut is not None:
            raise VerificationError(f"{here}: it writes {uncut!r}, which cannot be cut")
        cut_at = [(window.tensor, window.axis) for axis in axes for window in axis.windows]
        if len(set(cut_at)) < len(cut_at):
            raise VerificationError(f"{here}: two axes cut one axis of a tensor")
        return cls(op, tuple(axes), tuple(ends))

    def works(self) -> Iterator[tuple[Span, ...]]:
        """The spans of each piece, in their order."""
        return product(*(list(pairwise(e)) for e in self.ends))

    def part(self, graph: Graph, tensor: str, work: Sequence[Span]) -> Part | None:
        """The part of a tensor that a piece accesses; ``None`` for none."""
        shape = graph.tensor[tensor].shape
        if shape is None:
            return ()
        spans = [(0, extent) for extent in shape]
        for axis, (first, last) in zip(self.axes, work, strict=True):
            for window in axis.windows:
                if window.tensor == tensor:
                    spans[window.axis] = _accessed(window, first, last, shape[window.axis])
        return None if any(low >= high for low, high in spans) else tuple(spans)

    def name(self, work: Sequence[Span]) -> str:
        return f"{self.op.name}[{_spans(work)}]"

    def alike(self, graph: Graph, one: str, other: str) -> list[int] | None:
        """Axes along which two tensors are cut alike, if all axes cut do so; else ``None``."""
        found = []
        for axis in self.axes:
            at = _common(graph, axis, one, other)
            if at is None:
                return None
            found.append(at)
        return found


def _accessed(window: Window, first: int, last: int, extent: int) -> Span:
    """The positions of a tensor's axis that steps ``first`` to ``last`` (excluded) access."""
    if window.table is not None:
        low, high = window.table[first][0], window.table[last - 1][1]
    else:
        low = window.offset + window.stride * first
        high = window.offset + window.stride * (last - 1) + window.size
    return max(0, min(low, extent)), max(0, min(high, extent))


def _common(graph: Graph, axis: Axis, one: str, other: str) -> int | None:
    """The axis that an op's axis has of two tensors alike, step by step; else ``None``."""
    windows = [window for window in axis.windows if window.tensor in (one, other)]
    if len(windows) != 2 or windows[0].axis != windows[1].axis:
        return None
    steps = {(w.stride, w.offset, w.size, w.table) for w in windows}
    extents = {(graph.tensor[w.tensor].shape or ())[w.axis] for w in windows}
    return windows[0].axis if steps == {(1, 0, 1, None)} and len(extents) == 1 else None


class _Bands:
    """Positions at which each tensor is cut along each of its axes."""

    def __init__(self, graph: Graph, cut: Mapping[str, _CutOp], cuttable: Collection[str]):
        self._graph, self.cuttable = graph, cuttable
        marks: dict[tuple[str, int], set[int]] = {}
        for each in cut.values():
            for axis, ends in zip(each.axes, each.ends, strict=True):
                for window in axis.windows:
                    if window.tensor not in self.cuttable:
                        continue
                    shape = graph.tensor[window.tensor].shape
                    assert shape is not None
                    extent = shape[window.axis]
                    found = marks.setdefault((window.tensor, window.axis), set())
                    for first, last in pairwise(ends):
                        low, high = _accessed(window, first, last, extent)
                        found.update({low, high} - {0, extent} if low < high else ())
        self._level(marks, cut)
        self._grid: dict[str, list[list[Span]]] = {}
        for (name, number), found in marks.items():
            shape = graph.tensor[name].shape
            assert shape is not None
            if name not in self._grid and any(marks.get((name, k)) for k in range(len(shape))):
                self._grid[name] = [[(0, extent)] for extent in shape]
            if found:
                positions = [0, *sorted(found), shape[number]]
                self._grid[name][number] = list(pairwise(positions))

    def _level(self, marks: dict[tuple[str, int], set[int]], cut: Mapping[str, _CutOp]) -> None:
        """Give tensors that lie in one another's place the same cuts, until nothing changes."""
        linked: list[tuple[tuple[str, int], tuple[str, int]]] = []
        for each in cut.values():
            pairs = [*each.op.in_place, *((p.part, p.whole) for p in each.op.placements)]
            for one, other in pairs:
                if one not in self.cuttable or other not in self.cuttable:
                    continue
                common = (_common(self._graph, axis, one, other) for axis in each.axes)
                linked += [((one, at), (other, at)) for at in common if at is not None]
        changed = True
        while changed:
            changed = False
            for one_axis, other_axis in linked:
                here, there = (marks.setdefault(key, set()) for key in (one_axis, other_axis))
                if here != there:
                    here |= there
                    there |= here
                    changed = True

    def is_cut(self, tensor: str) -> bool:
        return tensor in self._grid

    def parts(self, tensor: str) -> list[Part]:
        """All bands of a tensor that is cut, in the order of its shape."""
        return list(product(*self._grid[tensor]))

    def name(self, tensor: str, part: Part) -> str:
        cut = [span for span, line in zip(part, self._grid[tensor], strict=True) if len(line) > 1]
        return f"{tensor}[{_spans(cut)}]"

    def within(self, tensor: str, part: Part) -> list[Part]:
        """The bands that make up a part of a tensor.

        Raises
        ------
        VerificationError
            If they do not: it begins or ends within a band.
        """
        lines = []
        for (low, high), line in zip(part, self._grid[tensor], strict=True):
            first = bisect_left(line, (low, low))
            lines.append([span for span in line[first:] if span[1] <= high])
        found = list(product(*lines))
        if sum(map(_elements, found)) != _elements(part):
            raise VerificationError(f"tensor {tensor!r}: [{_spans(part)}] is not made of bands")
        return found


@dataclass
class _Making:
    """The tensors and ops of a graph of pieces in the making."""

    source: Graph
    cut: Mapping[str, _CutOp]
    bands: _Bands
    tensors: dict[str, Tensor] = field(default_factory=dict)
    parts: dict[str, tuple[str, Part]] = field(default_factory=dict)

    def graph(self) -> Described:
        source = self.source
        scratch = {name for each in self.cut.values() for name in each.op.workspaces}
        for tensor in source.tensors:
            if tensor.name in scratch:
                continue
            if not self.bands.is_cut(tensor.name):
                self.tensors[tensor.name] = tensor
                continue
            for part in self.bands.parts(tensor.name):
                name = self.bands.name(tensor.name, part)
                if name in source.tensor:
                    raise VerificationError(f"tensor {name!r} has the name of a band")
                shape = tuple(high - low for low, high in part)
                self.tensors[name] = replace(tensor, name=name, shape=shape, size=None)
                self.parts[name] = tensor.name, part
        ops = [made for op in source.ops for made in self._made(op)]
        graph = Graph(source.name, tuple(self.tensors.values()), tuple(ops))
        works = {
            each.name(work): (name, tuple(axis.name for axis in each.axes), work)
            for name, each in self.cut.items()
            for work in each.works()
        }
        bands = {
            tensor.name: tuple(
                self.bands.name(tensor.name, part) for part in self.bands.parts(tensor.name)
            )
            for tensor in source.tensors
            if self.bands.is_cut(tensor.name)
        }
        return Described(graph, self.parts, bands, works)

    def _after(self, op: Op) -> tuple[str, ...]:
        names: list[str] = []
        for other in op.after:
            each = self.cut.get(other)
            names += [other] if each is None else [each.name(work) for work in each.works()]
        return tuple(names)

    def _made(self, op: Op) -> list[Op]:
        each = self.cut.get(op.name)
        if each is not None:
            return self._pieces(each)

        def whole(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(
                band
                for name in names
                for band in (
                    [self.bands.name(name, part) for part in self.bands.parts(name)]
                    if self.bands.is_cut(name)
                    else [name]
                )
            )

        def keeps(names: Iterable[str]) -> bool:
            return not any(self.bands.is_cut(name) for name in names)

        return [
            replace(
                op,
                inputs=whole(op.inputs),
                outputs=whole(op.outputs),
                in_place=tuple(pair for pair in op.in_place if keeps(pair)),
                placements=tuple(p for p in op.placements if keeps(p[:2])),
                after=self._after(op),
                axes=(),
            )
        ]

    def _pieces(self, each: _CutOp) -> list[Op]:
        op, sums = each.op, any(axis.accumulates for axis in each.axes)
        works = list(each.works())
        extent = math.prod(axis.extent for axis in each.axes)
        made: list[Op] = []
        written: dict[str, int] = {}
        groups: dict[tuple[Span, ...], list[tuple[Span, ...]]] = {}
        for work in works:
            groups.setdefault(_kept(each, work), []).append(work)
        done, spent = 0, op.cost * 0
        newest: dict[str, str] = {}
        first: dict[str, str] = {}
        for work in works:
            reads = {name: self._accesses(each, name, work) for name in op.inputs}
            writes = {name: self._accesses(each, name, work) for name in op.outputs}
            suffix = each.name(work).removeprefix(op.name)
            for name in op.workspaces:
                scratch = replace(self.source.tensor[name], name=name + suffix)
                self.tensors[scratch.name] = scratch
            done += math.prod(high - low for low, high in work)
            upto = (
                op.cost * done / extent if isinstance(op.cost, float) else op.cost * done // extent
            )
            inputs = [band for bands in reads.values() for band in bands]
            outputs = [band for bands in writes.values() for band in bands]
            pairs: tuple[tuple[str, str], ...] = ()
            placements: tuple[Placement, ...] = ()
            is_last = groups[_kept(each, work)][-1] == work
            for band in outputs:
                written[band] = written.get(band, 0) + (not sums or is_last)
            if sums:
                steps = [w[1] for axis, w in zip(each.axes, work, strict=True) if axis.accumulates]
                label = "" if is_last else "+" + "+".join(map(str, steps))
                inputs += [newest[band] for band in outputs if band in newest]
                outputs = [self._sum(band, band + label, newest, first) for band in outputs]
            else:
                pairs = tuple(self._pairs(each, reads, writes))
                placements = tuple(self._placements(each, reads, writes))
            made.append(
                replace(
                    op,
                    name=each.name(work),
                    inputs=tuple(inputs),
                    outputs=tuple(outputs),
                    workspaces=tuple(name + suffix for name in op.workspaces),
                    cost=upto - spent,
                    in_place=pairs,
                    placements=placements,
                    after=self._after(op),
                    axes=(),
                )
            )
            spent = upto
        self._check_written(each, written)
        return made

    def _accesses(self, each: _CutOp, tensor: str, work: Sequence[Span]) -> list[str]:
        """Names of the bands of a tensor that a piece accesses."""
        part = each.part(self.source, tensor, work)
        if part is None:
            return []
        if not self.bands.is_cut(tensor):
            return [tensor]
        return [self.bands.name(tensor, band) for band in self.bands.within(tensor, part)]

    def _sum(self, band: str, name: str, newest: dict[str, str], first: dict[str, str]) -> str:
        """The tensor with a band's sum so far, in the storage of the first."""
        tensor = self.tensors[band] if band in self.tensors else self.source.tensor[band]
        view_of = (first[band], 0) if band in first else None
        kind = tensor.kind if name == band else "intermediate"
        self.tensors[name] = replace(tensor, name=name, kind=kind, view_of=view_of)
        if band in self.parts:
            self.parts[name] = self.parts[band]
        first.setdefault(band, name)
        newest[band] = name
        return name

    def _check_written(self, each: _CutOp, written: Mapping[str, int]) -> None:
        """Raise unless every band of an op's outputs is written just once."""
        for name in each.op.outputs:
            cut = self.bands.is_cut(name)
            bands = [self.bands.name(name, p) for p in self.bands.parts(name)] if cut else [name]
            for band in bands:
                if written.get(band, 0) != 1:
                    raise VerificationError(
                        f"pieces of op {each.op.name!r}: they write {band!r} "
                        f"{written.get(band, 0)} times: expected once"
                    )

    def _pairs(
        self, each: _CutOp, reads: Mapping[str, list[str]], writes: Mapping[str, list[str]]
    ) -> Iterator[tuple[str, str]]:
        for output, source in each.op.in_place:
            if each.alike(self.source, output, source) is None:
                continue
            by_part = {self._part(band): band for band in reads[source]}
            for band in writes[output]:
                found = by_part.get(self._part(band))
                if found is not None and self._nbytes(found) == self._nbytes(band):
                    yield band, found

    def _placements(
        self, each: _CutOp, reads: Mapping[str, list[str]], writes: Mapping[str, list[str]]
    ) -> Iterator[Placement]:
        """Bands that a piece copies in one part: all of one along the axis where shapes differ."""
        accessed = {**reads, **writes}
        for part, whole, offset in each.op.placements:
            small, large = self.source.tensor[part], self.source.tensor[whole]
            if each.alike(self.source, part, whole) is None:
                continue
            if small.shape is None or large.shape is None or len(small.shape) != len(large.shape):
                continue
            unlike = [
                k
                for k, ends in enumerate(zip(small.shape, large.shape, strict=True))
                if ends[0] != ends[1]
            ]
            if len(unlike) != 1 or any(extent != 1 for extent in large.shape[: unlike[0]]):
                continue
            (at,) = unlike
            row = large.nbytes // large.shape[at]
            if not row or offset % row:
                continue
            by_part = {self._part(band): band for band in accessed[part]}
            for band in accessed[whole]:
                spans = self._part(band)
                if spans[at] != (0, large.shape[at]):
                    continue
                inner = by_part.get((*spans[:at], (0, small.shape[at]), *spans[at + 1 :]))
                if inner is not None:
                    height = self._nbytes(band) // large.shape[at]
                    yield Placement(inner, band, offset // row * height)

    def _part(self, band: str) -> Part:
        if band in self.parts:
            return self.parts[band][1]
        shape = self.source.tensor[band].shape
        return tuple((0, extent) for extent in shape or ())

    def _nbytes(self, band: str) -> int:
        return self.tensors[band].nbytes


def _kept(each: _CutOp, work: Sequence[Span]) -> tuple[Span, ...]:
    """A piece's spans along the axes that do not add up."""
    return tuple(s for axis, s in zip(each.axes, work, strict=True) if not axis.accumulates)


def _elements(part: Part) -> int:
    return math.prod(high - low for low, high in part)


def _spans(part: Iterable[Span]) -> str:
    return ",".join(f"{low}:{high}" for low, high in part)


def copied_bytes(
    described: Described, program: Program, plan: Plan, accesses: Sequence[Access]
) -> int:
    """Bytes that a runtime copies whose kernels need each operand in one part.

    Of the bands that a run accesses of one tensor, all are copied unless they lie in the arena as
    the part does that they make up: one after another along one axis, before which there is only
    one position.
    """
    offsets = [] if plan.offset is None else plan.offset.tolist()
    at = dict(zip(plan.buffers, zip(plan.pool.tolist(), offsets, strict=True), strict=True))
    places: dict[tuple[int, str], tuple[int, int]] = {}
    for access in accesses:
        if access.op is not None and access.owner is not None:
            pool, offset = at[access.place.retention.name]
            begin = int(offset) + access.place.begin
            places[access.owner, access.place.tensor] = int(pool), begin
    total = 0
    for op, step in zip(program.ops, program.starts, strict=False):
        for names in (op.inputs, op.outputs):
            by_tensor: dict[str, dict[Part, str]] = {}
            for name in names:
                if name in described.parts:
                    tensor, part = described.parts[name]
                    by_tensor.setdefault(tensor, {})[part] = name
            for bands in by_tensor.values():
                sizes = [described.graph.tensor[name].nbytes for name in bands.values()]
                where = [places.get((step, name)) for name in bands.values()]
                if not _is_one_part(list(bands), sizes, where):
                    total += sum(sizes)
    return total


def _is_one_part(
    parts: Sequence[Part], sizes: Sequence[int], where: Sequence[tuple[int, int] | None]
) -> bool:
    """True if bands lie one after another, as they do in a tensor that is they all together."""
    if len(parts) == 1:
        return True
    unlike = [k for k in range(len(parts[0])) if len({part[k] for part in parts}) > 1]
    if len(unlike) > 1 or _elements(parts[0][: unlike[0]]) != 1:
        return False
    expected = where[0]
    for place, size in zip(where, sizes, strict=True):
        if place != expected:
            return False
        expected = None if place is None else (place[0], place[1] + size)
    return True
