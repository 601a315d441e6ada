"""A model whose ops run in pieces, as ``execute`` runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from cpplan.io.pieces import PieceWork, common, piece_work, slices, within
from cpplan.model.graph import Graph, Op
from cpplan.model.pieces import Pieces
from cpplan.verification.execution import Execution, ModelRun
from cpplan.verification.pieces import describe_pieces
from cpplan.verification.tensor_bytes import Array


class DividedRun(ModelRun, Protocol):
    """A model whose ops can be run whole, and piece by piece."""

    def compute_piece(
        self, work: PieceWork, parts: Mapping[str, Array], sums: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """Parts of an op's outputs that a piece computes, from those of its inputs.

        ``sums`` are what the pieces before it have added up, if pieces add up.
        """


class PiecesRun:
    """The pieces of a model's ops; every band must be that part of the unsplit run's tensor.

    Attributes
    ----------
    graph
        The graph of pieces.
    output_names
        The bands of the model's outputs.
    """

    def __init__(self, run: DividedRun, pieces: Sequence[Pieces]):
        self._run, self._whole = run, run.graph
        self._described = describe_pieces(run.graph, pieces)
        self.graph: Graph = self._described.graph
        self._bands = bands = self._described.bands
        self.output_names = tuple(
            band for name in run.output_names for band in bands.get(name, [name])
        )
        self._values: dict[str, Array] = {}

    def values(self) -> Mapping[str, Array]:
        """Every value of the unsplit, unplanned run, also band by band; and every sum so far."""
        self._values = dict(self._run.values())
        for name, (tensor, part) in self._described.parts.items():
            self._values[name] = np.ascontiguousarray(self._values[tensor][slices(part)])
        for op in self.graph.ops:
            if op.name in self._described.pieces and self._adds(op):
                self._values.update(self.compute(op, {}))
        return self._values

    def compute(self, op: Op, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Results of a piece, or of a whole op, on these bands; on the unsplit run's otherwise."""
        bands = {name: arrays[name] if name in arrays else self._values[name] for name in op.inputs}
        if op.name not in self._described.pieces:
            source = self._whole.op[op.name]
            inputs = {name: self._joined(name, bands) for name in source.inputs}
            results = self._run.compute(source, inputs)
            return self._cut(op, results, {})
        source_name, axes, spans = self._described.pieces[op.name]
        source = self._whole.op[source_name]
        work = piece_work(self._whole, source, axes, spans)
        parts = {
            name: self._part(name, work, bands) for name in source.inputs if name in work.boxes
        }
        sums = self._sums(source, work, op, bands) if self._adds(op) else {}
        return self._cut(op, self._run.compute_piece(work, parts, sums), work.boxes)

    def _sums(
        self, source: Op, work: PieceWork, op: Op, bands: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Sums of the pieces before one; none before the first."""
        if work.begins:
            return {}
        found = {}
        for name in source.outputs:
            if name not in self._bands:
                before = next(n for n in op.inputs if self.graph.root[n][0].startswith(f"{name}+"))
                found[name] = bands[before]
                continue
            found[name] = self._part(name, work, bands)
        return found

    def whole_outputs(self, done: Execution) -> Execution:
        """The execution, with the model's outputs joined from their bands."""
        outputs = {}
        for name in self._run.output_names:
            if name in self._bands:
                outputs[name] = self._joined(name, done.outputs)
            else:
                outputs[name] = done.outputs[name]
        return replace(done, outputs=outputs)

    def _adds(self, op: Op) -> bool:
        """True if a piece adds to what pieces before it wrote."""
        name, axes, _ = self._described.pieces[op.name]
        return any(a.accumulates for a in self._whole.op[name].axes if a.name in axes)

    def _joined(self, name: str, bands: Mapping[str, Array]) -> Array:
        """A whole tensor from its bands."""
        if name not in self._bands:
            return bands[name] if name in bands else self._values[name]
        whole = np.empty(self._values[name].shape, self._values[name].dtype)
        for band in self._bands[name]:
            whole[slices(self._described.parts[band][1])] = bands[band]
        return whole

    def _part(self, name: str, work: PieceWork, bands: Mapping[str, Array]) -> Array:
        """The part of a tensor that a piece reads, gathered from bands."""
        box = work.boxes[name]
        if name not in self._bands:
            value = bands[name] if name in bands else self._values[name]
            place: tuple[Any, ...] = (*slices(box), ...)
            taken: Array = np.asarray(value)[place]
            return taken
        gathered = np.empty([high - low for low, high in box], self._values[name].dtype)
        for band, value in bands.items():
            tensor, part = self._described.parts.get(band, ("", ()))
            if tensor == name and (both := common(part, box)) is not None:
                gathered[slices(within(both, box))] = value[slices(within(both, part))]
        return gathered

    def _cut(
        self, op: Op, results: Mapping[str, Array], boxes: Mapping[str, tuple[tuple[int, int], ...]]
    ) -> dict[str, Array]:
        """The bands of an op's results; ``boxes`` are the parts that these are."""
        found = {}
        for name in op.outputs:
            if name not in self._described.parts:
                whole = name if name in results else name.rpartition("+")[0]
                found[name] = results[whole]
                continue
            tensor, part = self._described.parts[name]
            box = within(part, boxes[tensor]) if tensor in boxes else part
            found[name] = np.ascontiguousarray(results[tensor][slices(box)])
        return found
