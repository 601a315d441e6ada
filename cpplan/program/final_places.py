"""Places of tensors' latest values after a program's last step, as plans list them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from cpplan.program.anf import Program
from cpplan.program.liveness import last_places


class FinalPlaces(NamedTuple):
    """Places after the last step.

    Attributes
    ----------
    views
        Tensor -> buffer and byte offset in it, for tensors that do not lie at the start of the
        buffer of their own name.
    inputs, outputs
        Names of the graph's inputs and outputs that lie in the buffers.
    """

    views: dict[str, tuple[str, int]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def final_places(program: Program, buffers: Collection[str]) -> FinalPlaces:
    """Places of the tensors whose latest values lie in these buffers. O(ops + tensors)."""
    graph = program.graph
    if len(program.order) > len(graph.ops):
        placed = set(buffers)
        places = {name: place for name, place in last_places(program).items() if place[0] in placed}
        inputs, outputs = (
            tuple(t.name for t in graph.tensors if t.kind == kind and t.name in places)
            for kind in ("input", "output")
        )
        views = {name: place for name, place in places.items() if place != (name, 0)}
        return FinalPlaces(views, inputs, outputs)
    columns = graph.columns
    names, number, (roots, offsets) = columns.names, columns.number, columns.places
    held = np.zeros(len(names), np.bool_)
    held[[number[name] for name in buffers if name in number]] = True
    held = held[roots]
    moved = np.flatnonzero(held & ((roots != np.arange(len(names))) | (offsets != 0)))
    lying = zip(moved.tolist(), roots[moved].tolist(), offsets[moved].tolist(), strict=True)
    return FinalPlaces(
        {names[k]: (names[root], at) for k, root, at in lying},
        tuple([names[k] for k in np.flatnonzero(held & columns.are({"input"})).tolist()]),
        tuple([names[k] for k in np.flatnonzero(held & columns.are({"output"})).tolist()]),
    )
