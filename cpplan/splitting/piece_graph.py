"""The graph of pieces, which follows from a graph and the cuts of its ops by these rules.

*Pieces.* An op with cuts is replaced by its pieces, one op each, in lexicographic order of their
intervals. A piece is named ``conv1[0:8]`` or, along two axes, ``conv1[0:8,4:9]``. All other ops
stay whole.

*Windows.* If an axis cut has a window of a tensor, a piece accesses the window's interval along the
window's axis of the tensor. Along all other axes it accesses the whole tensor. If an interval is
empty, the piece does not access the tensor at all.

*Bands.* A tensor is cut, along each of its axes, at the ends of all intervals that pieces of its
writer and of its readers access. The parts along all axes divide it into boxes, and each box
becomes a tensor of the graph of pieces, a *band*. A band has the tensor's kind, alignment and
pools; its name has the intervals of the axes that have cuts, in the order of the shape:
``t[0:8]``, ``t[0:8,4:9]``. So each piece reads and writes whole bands, usually several. A tensor
without cuts keeps its name. Four kinds of tensor are never cut: constants, tensors of unknown shape
or type, tensors whose elements are not whole bytes, and storages with views that have no lines.
Pieces read them whole, and an op that writes one cannot be cut along an axis of it.

*Equal bands.* The two tensors of an in-place pair or a placement get the same cuts along an axis if
the op is cut along an axis whose windows of both are the identity (stride 1, offset 0, size 1, no
table), and both tensors have the same extent there, in equal units. Their bands then correspond to
each other.

*Views.* A tensor and its views have the same cuts, between units of the lines that
:mod:`cpplan.splitting.lines` finds, as far as each view shows the storage. A band of a view is
itself a view: of the band of the storage that contains it, at the offset of its first element. An
interval that a piece reads is rounded outwards to whole units. Pieces that write an image whose
views are windows write whole windows. A tensor that shows only a part of an axis of its storage has
no equal bands along that axis.

*Accumulating axes.* Along such an axis, each piece adds to all bands that the op writes. The first
piece writes the partial sum ``y+8`` of band ``y`` after 8 steps, the next reads it and writes
``y+16``, and the last writes ``y``. All of them share one storage: the first is the storage's own
tensor, and the later ones are views of it.

*Costs.* The cost of a piece is proportional to its steps. If the pieces up to some piece have ``w``
of the op's ``n`` steps, their costs add up to ``cost * w // n`` (``cost * w / n`` if the cost is a
float). So the costs of all pieces add up to the op's.

*What carries over.* A piece has a whole copy of each workspace of the op (``ws[0:8]``), and those
in-place pairs and placements whose bands correspond. If the op runs after another one, a piece runs
after all its pieces; but if both ops are cut, and one reads a result of the other or a view of it,
the bands order their pieces. Ops with bodies and ops of a sequence have no pieces.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from cpplan.model.errors import located
from cpplan.model.graph import Graph, Op, Placement
from cpplan.model.pieces import Pieces
from cpplan.model.plan import Plan
from cpplan.model.tensor import Tensor
from cpplan.program.anf import Program
from cpplan.splitting.bands import Band, Bands, Box, text_of
from cpplan.splitting.lines import Lines
from cpplan.splitting.tensor_cuts import Interval, TensorCuts

_Accessed = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class PieceGraph:
    """The graph of pieces, with maps between it and the original graph.

    Attributes
    ----------
    graph
        The graph of pieces.
    cuts
        The cuts from which the graph follows.
    pieces
        Op of the original graph -> intervals along the axes cut -> name of the piece. An op that
        is not cut has one piece, with no intervals.
    bands
        Tensor of the original graph with cuts -> its bands, in row-major order.
    source
        Op of the graph of pieces -> op of the original graph.
    part
        Band or partial sum -> tensor of the original graph, and its box there.
    """

    graph: Graph
    cuts: tuple[Pieces, ...]
    pieces: Mapping[str, Mapping[tuple[Interval, ...], str]]
    bands: Mapping[str, tuple[Band, ...]]
    source: Mapping[str, str]
    part: Mapping[str, tuple[str, Box]]


def split_graph(graph: Graph, pieces: Iterable[Pieces], lines: Lines | None = None) -> PieceGraph:
    """The graph of pieces that follows from the cuts of some ops.

    ``lines`` are the axes along which tensors may be cut; they are found if left out.

    Raises
    ------
    InputError
        If the cuts name an unknown op or axis or exceed an axis, or the op cannot be cut there.
    """
    cuts = TensorCuts(graph, pieces, lines)
    bands = Bands(cuts)
    tensors = {tensor.name: tensor for tensor in bands.tensors()}
    names = {
        op.name: {
            intervals: f"{op.name}[{text_of(intervals)}]" if intervals else op.name
            for intervals in (cuts.intervals(op.name) if op.name in cuts.axes else [()])
        }
        for op in graph.ops
    }
    ops: list[Op] = []
    source: dict[str, str] = {}
    # Partial sum -> the band that it becomes.
    sums: dict[str, str] = {}
    for op in graph.ops:
        after = tuple(
            name
            for other in op.after
            if not _is_followed_by_bands(cuts, other, op)
            for name in names[other].values()
        )
        if op.name not in cuts.axes:
            ops.append(whole_op(op, bands, after))
        else:
            ops.extend(OpPieces(op, cuts, bands, tensors, sums).make(names[op.name], after))
        source.update(dict.fromkeys(names[op.name].values(), op.name))
    all_bands = {
        original: tuple(Band(name, box) for box, name in boxes.items())
        for original, boxes in bands.of.items()
    }
    part = {band: (name, box) for name, found in all_bands.items() for band, box in found}
    part |= {name: part[band] for name, band in sums.items() if band in part}
    pieced = Graph(graph.name, tuple(tensors.values()), tuple(ops))
    return PieceGraph(pieced, cuts.given, names, all_bands, source, part)


def _is_followed_by_bands(cuts: TensorCuts, other: str, op: Op) -> bool:
    """True if both ops are cut, and ``op`` reads a result of ``other`` or a view of it."""
    cut = other in cuts.axes and op.name in cuts.axes
    return cut and reads_from(cuts.graph, op, cuts.graph.op[other])


def as_pieces(plan: Plan, source: Graph | Program) -> tuple[Plan, PieceGraph]:
    """The plan rewritten for its graph of pieces, where every op runs whole, and that graph.

    The plan's bound holds there, too.
    """
    graph = source.graph if isinstance(source, Program) else source
    with located("the plan is for another model"):
        pieces = split_graph(graph, plan.pieces)
    return replace(plan, pieces=(), copied_bytes=None), pieces


def reads_from(graph: Graph, op: Op, other: Op) -> bool:
    """True if an op reads a result of another op, or a view made from it."""
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


class _Placed(NamedTuple):
    """A placement of tensors that differ in one axis: first position there, and both extents."""

    part: str
    whole: str
    axis: int
    start: int
    extents: tuple[int, int]


def whole_op(op: Op, bands: Bands, after: tuple[str, ...]) -> Op:
    """An op that is not cut, with all bands of its tensors as its inputs and outputs."""
    if not any(name in bands.of for name in op.tensors) and after == op.after:
        return op if not op.axes else replace(op, axes=())
    kept = [r for r in op.in_place if not any(name in bands.of for name in r)]
    placed = [p for p in op.placements if not any(name in bands.of for name in p[:2])]
    return replace(
        op,
        inputs=tuple(band for name in op.inputs for band in bands.names(name)),
        outputs=tuple(band for name in op.outputs for band in bands.names(name)),
        in_place=tuple(kept),
        placements=tuple(placed),
        after=after,
        axes=(),
    )


class OpPieces:
    """The pieces of an op with cuts.

    Parameters
    ----------
    op
        The op.
    cuts, bands
        Cuts of the ops, and the bands of all tensors.
    tensors
        Tensors of the graph of pieces by name; receives copies of workspaces and partial sums.
    sums
        Partial sum -> the band that it becomes; receives those of the op.
    """

    def __init__(
        self,
        op: Op,
        cuts: TensorCuts,
        bands: Bands,
        tensors: dict[str, Tensor],
        sums: dict[str, str],
    ):
        self._op, self._cuts, self._bands = op, cuts, bands
        self._tensors, self._sums = tensors, sums
        self._axes = cuts.axes[op.name]
        self._adding = [number for number, axis in enumerate(self._axes) if axis.accumulates]
        # Pieces that accumulate have no relations: each partial sum is a view of the first one.
        self._pairs = [] if self._adding else [p for p in op.in_place if self._correspond(*p)]
        self._placed = [] if self._adding else list(self._find_placed())

    def make(
        self, names: Mapping[tuple[Interval, ...], str], after: tuple[str, ...]
    ) -> Iterator[Op]:
        """Yield the pieces with these intervals and names, in their order."""
        op, adding = self._op, self._adding
        total = math.prod(axis.extent for axis in self._axes)
        # Band -> names of its partial sums.
        seen: dict[str, list[str]] = {}
        done, spent = 0, op.cost * 0
        last = {
            tuple(interval for k, interval in enumerate(i) if k not in adding): i for i in names
        }
        for intervals, name in names.items():
            suffix = name[len(op.name) :]
            reads = {t: self._bands.accessed(op.name, t, intervals) for t in op.inputs}
            writes = {t: self._bands.accessed(op.name, t, intervals) for t in op.outputs}
            workspaces = []
            for workspace in op.workspaces:
                original = self._tensors[workspace]
                self._tensors[workspace + suffix] = replace(original, name=workspace + suffix)
                workspaces.append(workspace + suffix)
            done += math.prod(stop - start for start, stop in intervals)
            until = (
                op.cost * done / total if isinstance(op.cost, float) else op.cost * done // total
            )
            cost, spent = until - spent, until
            inputs = [band for bands in reads.values() for band in bands]
            outputs = [band for bands in writes.values() for band in bands]
            if adding:
                kept = tuple(i for k, i in enumerate(intervals) if k not in adding)
                ends = last[kept] == intervals
                steps = "+".join(str(intervals[k][1]) for k in adding)
                inputs += [seen[band][-1] for band in outputs if band in seen]
                outputs = [
                    self._partial(band, band if ends else f"{band}+{steps}", seen)
                    for band in outputs
                ]
            yield replace(
                op,
                name=name,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                workspaces=tuple(workspaces),
                cost=cost,
                in_place=self._pairs_of(reads, writes),
                placements=self._placements_of({**reads, **writes}),
                after=after,
                axes=(),
            )
        for workspace in op.workspaces:
            self._tensors.pop(workspace)

    def _partial(self, band: str, name: str, seen: dict[str, list[str]]) -> str:
        """Add the tensor that holds a partial sum of a band, and return its name."""
        tensors, chain = self._tensors, seen.setdefault(band, [])
        view_of = (chain[0], 0) if chain else None
        kind = tensors[band].kind if name == band else "intermediate"
        tensors[name] = replace(tensors[band], name=name, kind=kind, view_of=view_of)
        self._sums[name] = band
        chain.append(name)
        return name

    def _correspond(self, one: str, other: str) -> bool:
        """True if the bands of two tensors correspond along all axes cut."""
        return len(self._cuts.common_axes(self._op.name, one, other)) == len(self._axes)

    def _pairs_of(self, reads: _Accessed, writes: _Accessed) -> tuple[tuple[str, str], ...]:
        """In-place pairs of the bands that a piece accesses."""
        found = []
        box, tensors = self._bands.box, self._tensors
        for output, source in self._pairs:
            there = {box[band]: band for band in reads[source]}
            for band in writes[output]:
                other = there.get(box[band])
                if other is not None and tensors[band].nbytes == tensors[other].nbytes:
                    found.append((band, other))
        return tuple(found)

    def _find_placed(self) -> Iterator[_Placed]:
        """Yield placements whose tensors differ in one axis: they may hold for bands, too."""
        tensor = self._cuts.graph.tensor
        for part, whole, offset in self._op.placements:
            if not self._correspond(part, whole):
                continue
            shapes = tensor[part].shape, tensor[whole].shape
            assert shapes[0] is not None
            assert shapes[1] is not None
            pairs = enumerate(zip(shapes[0], shapes[1], strict=False))
            differ = [k for k, (one, other) in pairs if one != other]
            if len(shapes[0]) != len(shapes[1]) or len(differ) != 1:
                continue
            (at,) = differ
            inner, left = math.prod(shapes[1][at + 1 :]), offset * shapes[1][at]
            start, rest = divmod(left, max(tensor[whole].nbytes, 1))
            if not rest and math.prod(shapes[1][:at]) == 1 and inner:
                yield _Placed(part, whole, at, start, (shapes[0][at], shapes[1][at]))

    def _placements_of(self, accessed: _Accessed) -> tuple[Placement, ...]:
        """Placements of the bands that a piece accesses."""
        found = []
        box, tensors = self._bands.box, self._tensors
        for part, whole, at, start, (own, extent) in self._placed:
            there = {box[band]: band for band in accessed[part]}
            for band in accessed[whole]:
                inner = (*box[band][:at], (0, own), *box[band][at + 1 :])
                within = there.get(inner)
                if within is not None and box[band][at] == (0, extent):
                    offset = start * tensors[band].nbytes // extent
                    found.append(Placement(within, band, offset))
        return tuple(found)
