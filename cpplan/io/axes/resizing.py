"""Axes of ops that resize images: a table of the rows that each row is made from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from cpplan.io.axes.operation import NoAxes, Operation, shape_of
from cpplan.model.axes import Axis, Window


def resize_axes(
    operation: Operation, tables: Mapping[int, Sequence[tuple[int, int]] | None]
) -> Iterator[Axis]:
    """Axes of a resizing."""
    source, output = operation.input(), operation.output
    shape, extents = shape_of(output), shape_of(source)
    if len(shape) != len(extents):
        raise NoAxes
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        if axis in tables:
            table = tables[axis]
            if table is None or not _ascends(table):
                continue
            window = Window(source.name, axis, table=tuple(table))
        elif extent == extents[axis]:
            window = Window(source.name, axis)
        else:
            continue
        yield Axis(name, extent, (window, Window(output.name, axis)))


def nearest(positions: Sequence[int], extent: int) -> list[tuple[int, int]]:
    """Intervals of one position each, within the image."""
    kept = (min(max(position, 0), extent - 1) for position in positions)
    return [(position, position + 1) for position in kept]


def between(lower: Sequence[int], extent: int, reach: int = 2) -> list[tuple[int, int]]:
    """Intervals of some positions from a lower one on, within the image."""
    return [(min(max(low, 0), extent - 1), max(min(low + reach, extent), 1)) for low in lower]


def _ascends(table: Sequence[tuple[int, int]]) -> bool:
    return all(a[0] <= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(table))
