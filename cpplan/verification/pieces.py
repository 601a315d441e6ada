"""The graph of pieces of a plan, derived again from the model and the plan's cuts, and checked.

Each op that is cut runs once for each product of its intervals, and accesses the windows of these
intervals. A tensor is cut wherever such a window begins or ends, so that every piece accesses whole
bands. The check then counts elements: the pieces of an op must write every element of its outputs
exactly once, and the bands that a piece reads must make up its windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph, Op, Placement
from cpplan.model.pieces import Pieces
from cpplan.model.tensor import Tensor
from cpplan.verification.piece_bands import Bands, CutOp, Part, Span
from cpplan.verification.piece_lines import cut_tensors


@dataclass(frozen=True, slots=True)
class Described:
    """A graph of pieces, with the parts of the model that its tensors and ops are.

    Attributes
    ----------
    parts
        Band, or partial sum of one -> its tensor in the model, and the part of that tensor.
    bands
        Tensor that is cut -> its bands, in the order of its shape, without partial sums.
    pieces
        Piece -> its op, the names of the axes along which the op is cut, and the piece's spans on
        these axes.
    """

    graph: Graph
    parts: Mapping[str, tuple[str, Part]]
    bands: Mapping[str, tuple[str, ...]]
    pieces: Mapping[str, tuple[str, tuple[str, ...], tuple[Span, ...]]]


def describe_pieces(graph: Graph, pieces: Sequence[Pieces]) -> Described:
    """The graph of pieces, with the parts of the model that its tensors are."""
    cut: dict[str, CutOp] = {}
    places = cut_tensors(graph)
    for entry in pieces:
        if entry.op in cut:
            raise VerificationError(f"op {entry.op!r} is cut twice in the plan")
        cut[entry.op] = CutOp.of(graph, entry, places)
    bands = Bands(graph, cut, places)
    made = _Making(graph, cut, bands)
    try:
        return made.graph()
    except InputError as error:
        raise VerificationError(f"graph of pieces: {error}") from error


@dataclass
class _Making:
    """The tensors and ops of a graph of pieces in the making."""

    source: Graph
    cut: Mapping[str, CutOp]
    bands: Bands
    tensors: dict[str, Tensor] = field(default_factory=dict)
    parts: dict[str, tuple[str, Part]] = field(default_factory=dict)

    def graph(self) -> Described:
        source = self.source
        scratch = {name for each in self.cut.values() for name in each.op.workspaces}
        for tensor in source.tensors:
            if tensor.name in scratch:
                continue
            if not self.bands.is_cut(tensor.name):
                self.tensors[tensor.name] = self._view(tensor, tensor)
                continue
            for part in self.bands.parts(tensor.name):
                name = self.bands.name(tensor.name, part)
                if name in source.tensor:
                    raise VerificationError(f"tensor {name!r} has the name of a band")
                shape = tuple(high - low for low, high in part)
                band = replace(tensor, name=name, shape=shape, size=None, view_of=None)
                self.tensors[name] = self._view(tensor, band, part)
                self.parts[name] = tensor.name, part
        ops = [made for op in source.ops for made in self._made(op)]
        graph = Graph(source.name, tuple(self.tensors.values()), tuple(ops))
        pieces = {
            each.name(piece): (name, tuple(axis.name for axis in each.axes), piece)
            for name, each in self.cut.items()
            for piece in each.pieces()
        }
        bands = {
            tensor.name: tuple(
                self.bands.name(tensor.name, part) for part in self.bands.parts(tensor.name)
            )
            for tensor in source.tensors
            if self.bands.is_cut(tensor.name)
        }
        return Described(graph, self.parts, bands, pieces)

    def _view(self, tensor: Tensor, band: Tensor, part: Part | None = None) -> Tensor:
        """A band of a tensor, or the whole tensor; a view becomes a view of a band of its base."""
        if tensor.view_of is None or not self.bands.is_cut(self.source.root[tensor.name][0]):
            return band
        whole = tuple((0, extent) for extent in tensor.shape or ())
        base, offset, nbytes = self.bands.base(tensor.name, whole if part is None else part)
        return replace(band, view_of=(base, offset), size=nbytes)

    def _after(self, op: Op) -> tuple[str, ...]:
        names: list[str] = []
        for other in op.after:
            each = self.cut.get(other)
            both = each is not None and op.name in self.cut
            if both and set(each.op.outputs) & set(self._shown(op.inputs)):  # type: ignore[union-attr]
                continue  # each piece reads bands that the other's pieces write
            names += [other] if each is None else [each.name(piece) for piece in each.pieces()]
        return tuple(names)

    def _shown(self, names: Iterable[str]) -> Iterator[str]:
        """Tensors, and for each view the tensors it was made from, back to one first written."""
        graph = self.source
        for name in names:
            while True:
                yield name
                maker = graph.producer.get(name)
                before = [] if maker is None or graph.is_storage(name) else list(maker.inputs)
                kin = [n for n in before if graph.root[n][0] == graph.root[name][0]]
                if len(kin) != 1:
                    break
                name = kin[0]

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

    def _pieces(self, each: CutOp) -> list[Op]:
        op, sums = each.op, any(axis.accumulates for axis in each.axes)
        pieces = list(each.pieces())
        extent = math.prod(axis.extent for axis in each.axes)
        made: list[Op] = []
        written: dict[str, int] = {}
        groups: dict[tuple[Span, ...], list[tuple[Span, ...]]] = {}
        for piece in pieces:
            groups.setdefault(_kept(each, piece), []).append(piece)
        done, spent = 0, op.cost * 0
        newest: dict[str, str] = {}
        first: dict[str, str] = {}
        for piece in pieces:
            reads = {name: self._accesses(each, name, piece) for name in op.inputs}
            writes = {name: self._accesses(each, name, piece) for name in op.outputs}
            suffix = each.name(piece).removeprefix(op.name)
            for name in op.workspaces:
                scratch = replace(self.source.tensor[name], name=name + suffix)
                self.tensors[scratch.name] = scratch
            done += math.prod(high - low for low, high in piece)
            upto = (
                op.cost * done / extent if isinstance(op.cost, float) else op.cost * done // extent
            )
            inputs = [band for bands in reads.values() for band in bands]
            outputs = [band for bands in writes.values() for band in bands]
            pairs: tuple[tuple[str, str], ...] = ()
            placements: tuple[Placement, ...] = ()
            is_last = groups[_kept(each, piece)][-1] == piece
            for band in outputs:
                written[band] = written.get(band, 0) + (not sums or is_last)
            if sums:
                steps = [w[1] for axis, w in zip(each.axes, piece, strict=True) if axis.accumulates]
                label = "" if is_last else "+" + "+".join(map(str, steps))
                inputs += [newest[band] for band in outputs if band in newest]
                outputs = [self._sum(band, band + label, newest, first) for band in outputs]
            else:
                pairs = tuple(self._pairs(each, reads, writes))
                placements = tuple(self._placements(each, reads, writes))
            made.append(
                replace(
                    op,
                    name=each.name(piece),
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

    def _accesses(self, each: CutOp, tensor: str, piece: Sequence[Span]) -> list[str]:
        """Names of the bands of a tensor that a piece accesses."""
        part = each.part(self.source, tensor, piece)
        if part is None:
            return []
        if not self.bands.is_cut(tensor):
            return [tensor]
        return [self.bands.name(tensor, band) for band in self.bands.within(tensor, part)]

    def _sum(self, band: str, name: str, newest: dict[str, str], first: dict[str, str]) -> str:
        """The tensor with a band's partial sum, in the storage of the band's first partial sum."""
        tensor = self.tensors[band] if band in self.tensors else self.source.tensor[band]
        view_of = (first[band], 0) if band in first else None
        kind = tensor.kind if name == band else "intermediate"
        self.tensors[name] = replace(tensor, name=name, kind=kind, view_of=view_of)
        if band in self.parts:
            self.parts[name] = self.parts[band]
        first.setdefault(band, name)
        newest[band] = name
        return name

    def _check_written(self, each: CutOp, written: Mapping[str, int]) -> None:
        """Raise unless every band of an op's outputs is written exactly once."""
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
        self, each: CutOp, reads: Mapping[str, list[str]], writes: Mapping[str, list[str]]
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
        self, each: CutOp, reads: Mapping[str, list[str]], writes: Mapping[str, list[str]]
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


def _kept(each: CutOp, piece: Sequence[Span]) -> tuple[Span, ...]:
    """A piece's spans along the axes that do not add up."""
    return tuple(s for axis, s in zip(each.axes, piece, strict=True) if not axis.accumulates)
