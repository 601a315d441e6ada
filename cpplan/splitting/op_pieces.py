"""The pieces of one op, and the relations of the op that hold for them.

See :mod:`cpplan.splitting.piece_graph`, "Accumulating axes", "Costs" and "What carries over".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from cpplan.model.graph import Op, Placement
from cpplan.model.tensor import Tensor
from cpplan.splitting.bands import Bands
from cpplan.splitting.tensor_cuts import Interval, TensorCuts

_Accessed = Mapping[str, list[str]]


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
