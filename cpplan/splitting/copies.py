"""Bytes that a runtime copies to give kernels each tensor in one contiguous part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from cpplan.model.graph import Graph
from cpplan.program.anf import Program
from cpplan.program.copy_names import tensor_copies
from cpplan.splitting.bands import Box
from cpplan.splitting.piece_graph import PieceGraph


def count_copied_bytes(
    pieces: PieceGraph, program: Program, places: Mapping[str, tuple[int, int]]
) -> int:
    """Bytes that must be copied because the bands of one tensor do not lie together.

    For each run and each tensor, these are all bands of the tensor that the run reads or writes,
    unless they already lie as the tensor itself would.


    Parameters
    ----------
    pieces
        The graph of pieces.
    program
        The program that runs it.
    places
        Buffer -> number of its pool, and offset there. Bands outside the arena count as lying
        where they lie in the whole tensor.
    """
    graph, names = program.graph, tensor_copies(program.graph)
    copies: dict[str, int] = {}
    total = 0
    for op in program.ops:
        read = {graph.root[name][0] for name in op.inputs}
        for root in {graph.root[name][0] for name in op.outputs} - read:
            copies[root] = copies.get(root, -1) + 1
        for side in (op.inputs, op.outputs):
            accessed: dict[str, dict[Box, str]] = {}
            for name in side:
                if name in pieces.part:
                    tensor, box = pieces.part[name]
                    accessed.setdefault(tensor, {})[box] = name
            for bands in accessed.values():
                found = []
                for name in bands.values():
                    root, offset = graph.root[name]
                    place = places.get(names.copy(root, copies.get(root, 0)))
                    found.append(None if place is None else (place[0], place[1] + offset))
                if not _in_one_part(graph, list(bands), list(bands.values()), found):
                    total += sum(graph.tensor[name].nbytes for name in bands.values())
    return total


def _in_one_part(
    graph: Graph, boxes: list[Box], names: list[str], places: list[tuple[int, int] | None]
) -> bool:
    """True if bands, in row-major order, lie in memory as one tensor of their size would."""
    if len(boxes) == 1:
        return True
    axes = {k for one, other in pairwise(boxes) for k in _different(one, other)}
    if len(axes) > 1:
        return False
    (axis,) = axes
    if math.prod(stop - start for start, stop in boxes[0][:axis]) != 1:
        return False
    ends = zip(names, pairwise(places), strict=False)
    for name, (here, there) in ends:
        if here is None or there is None:
            if here is not there:
                return False
        elif there != (here[0], here[1] + graph.tensor[name].nbytes):
            return False
    return True


def _different(one: Box, other: Box) -> Iterable[int]:
    return (k for k, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
