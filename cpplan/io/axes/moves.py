"""Axes of ops that only move elements: concatenation, slices, padding, transposition, reshaping."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from cpplan.io.axes.operation import NoAxes, Operation, same, shape_of
from cpplan.model.axes import Axis, Window
from cpplan.model.tensor import Tensor
from cpplan.runtime import limits


def concat_axes(operation: Operation, axis: int) -> Iterator[Axis]:
    """Axes of a concatenation, the one along which it joins its inputs among them."""
    output = operation.output
    shape = shape_of(output)
    inputs = [tensor for tensor in operation.inputs if tensor is not None]
    if any(len(shape_of(tensor)) != len(shape) for tensor in inputs):
        raise NoAxes
    for along, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        if along != axis:
            yield same(name, extent, [(tensor, along) for tensor in (*inputs, output)])
            continue
        starts = itertools.accumulate((shape_of(t)[axis] for t in inputs[:-1]), initial=0)
        windows = [Window(t.name, axis, 1, -at) for t, at in zip(inputs, starts, strict=True)]
        yield Axis(name, extent, (*windows, Window(output.name, axis)))


def split_axes(operation: Operation, axis: int, source: Tensor) -> Iterator[Axis]:
    """Axes of a split, the one along which it cuts its input among them."""
    shape = shape_of(source)
    parts = [tensor for tensor in operation.outputs if tensor is not None]
    if sum(shape_of(tensor)[axis] for tensor in parts) != shape[axis]:
        raise NoAxes
    for along, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        if along != axis:
            yield same(name, extent, [(source, along), *((part, along) for part in parts)])
            continue
        if extent * len(parts) > limits.MOST_POSITIONS:
            continue
        windows, start = [Window(source.name, axis)], 0
        for part in parts:
            stop = start + shape_of(part)[axis]
            table = [
                (min(max(k, start), stop) - start, min(max(k + 1, start), stop) - start)
                for k in range(extent)
            ]
            windows.append(Window(part.name, axis, table=tuple(table)))
            start = stop
        yield Axis(name, extent, tuple(windows))


def slice_axes(operation: Operation, starts: Sequence[int], steps: Sequence[int]) -> Iterator[Axis]:
    """Axes of a slice; ``starts`` and ``steps`` along each axis of its input."""
    source, output = operation.input(), operation.output
    shape = shape_of(output)
    if not len(shape_of(source)) == len(shape) == len(starts) == len(steps):
        raise NoAxes
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        if steps[axis] > 0:
            window = Window(source.name, axis, steps[axis], starts[axis])
            yield Axis(name, extent, (window, Window(output.name, axis)))


def pad_axes(operation: Operation, before: Sequence[int], *, constant: bool) -> Iterator[Axis]:
    """Axes of a padding; ``before`` in front of each axis, negative to cut."""
    source, output = operation.input(), operation.output
    shape, extents = shape_of(output), shape_of(source)
    if not len(extents) == len(shape) == len(before):
        raise NoAxes
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        if constant or (before[axis] == 0 and extents[axis] == extent):
            window = Window(source.name, axis, 1, -before[axis])
            yield Axis(name, extent, (window, Window(output.name, axis)))


def transpose_axes(operation: Operation, order: Sequence[int]) -> Iterator[Axis]:
    """Axes of a transposition; ``order`` lists the input's axes as the output has them."""
    source, output = operation.input(), operation.output
    shape = shape_of(output)
    if sorted(order) != list(range(len(shape))):
        raise NoAxes
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        yield same(name, extent, [(source, order[axis]), (output, axis)])


def reshape_axes(operation: Operation) -> Iterator[Axis]:
    """Axes of a reshape: positions of one tensor that are whole positions of the other.

    Before both axes lie as many elements, and a position of one holds a whole number of the
    other's. A step is a position of the coarser one.
    """
    source, output = operation.input(), operation.output
    before, after = shape_of(source), shape_of(output)
    if math.prod(before) != math.prod(after) or not math.prod(after):
        raise NoAxes
    names = operation.names(len(after))
    for axis, extent in enumerate(after):
        for own, read in enumerate(before):
            outer = math.prod(before[:own]) == math.prod(after[:axis])
            if extent < 2 or read < 2 or not outer:
                continue
            inside, made = math.prod(before[own + 1 :]), math.prod(after[axis + 1 :])
            if inside % made == 0 and read * inside == extent * made:
                width = inside // made
                windows = Window(source.name, own), Window(output.name, axis, width, 0, width)
                yield Axis(names[axis], read, windows)
                break
            if made % inside == 0 and read * inside == extent * made:
                width = made // inside
                windows = Window(source.name, own, width, 0, width), Window(output.name, axis)
                yield Axis(names[axis], extent, windows)
                break


def block_axes(operation: Operation, block: int, *, deeper: bool) -> Iterator[Axis]:
    """Batch and spatial axes of an op that moves blocks of an image into its channels, or back."""
    source, output = operation.input(), operation.output
    rank = len(shape_of(output))
    if rank != 4 or len(shape_of(source)) != 4:
        raise NoAxes
    names = operation.names(rank)
    large, small = (source, output) if deeper else (output, source)
    yield same("batch", shape_of(output)[0], [(source, 0), (output, 0)])
    for axis in (2, 3) if operation.layout == "channels first" else (1, 2):
        windows = Window(large.name, axis, block, 0, block), Window(small.name, axis)
        yield Axis(names[axis], shape_of(small)[axis], windows)


def gather_axes(operation: Operation, axis: int) -> list[Axis]:
    """Axes of a gather: those of its indices, and those of the data that it takes whole."""
    table, picked, output = operation.input(0), operation.input(1), operation.output
    rank, shape = len(shape_of(picked)), shape_of(output)
    if len(shape) != rank + len(shape_of(table)) - 1:
        raise NoAxes
    axes = []
    for along, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        inside = axis <= along < axis + rank
        own = along if along < axis else along - rank + 1
        place: tuple[Tensor, int] = (picked, along - axis) if inside else (table, own)
        axes.append(same(name, extent, [place, (output, along)]))
    return axes


def stack_axes(operation: Operation, axis: int) -> Iterator[Axis]:
    """Axes of an op that stacks its inputs along a new axis, or takes such a stack apart."""
    read = [tensor for tensor in operation.inputs if tensor is not None]
    made = [tensor for tensor in operation.outputs if tensor is not None]
    if not read or not made:
        raise NoAxes
    apart = len(shape_of(read[0])) > len(shape_of(made[0]))
    (stack, *others), parts = (read, made) if apart else (made, read)
    if others:
        raise NoAxes
    shape = shape_of(stack)
    for along, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        if along != axis:
            own = along - (along > axis)
            yield same(name, extent, [(stack, along), *((part, own) for part in parts)])
