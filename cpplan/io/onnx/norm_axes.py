"""Axes of ONNX's normalizations: all axes except those along which elements are normalized."""

from __future__ import annotations

from collections.abc import Iterator

from cpplan.io.axes.operation import NoAxes, Operation, alike, same
from cpplan.io.onnx.operation import axis_of
from cpplan.model.axes import Axis


def batch_norm_axes(operation: Operation) -> Iterator[Axis]:
    """All axes, if mean and variance are inputs; these are cut with the channels."""
    image, shape = operation.input(), operation.shape()
    given = operation.attributes
    if given.get("training_mode") or (given["opset"] < 7 and not given.get("is_test")):
        raise NoAxes
    if len(operation.shape(1)) != 1:  # statistics of each position
        raise NoAxes
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        places = [(image, axis), (operation.output, axis)]
        if axis == 1 or (len(shape) == 1 and axis == 0):
            places += [(operation.input(k), 0) for k in range(1, 5)]
        yield same(name, extent, places)


def instance_norm_axes(operation: Operation) -> Iterator[Axis]:
    """Batch and channels; the weights are cut with the channels."""
    image, shape, output = operation.input(), operation.shape(), operation.output
    yield same("batch", shape[0], [(image, 0), (output, 0)])
    yield same(
        "channels", shape[1], [(image, 1), (output, 1), *((operation.input(k), 0) for k in (1, 2))]
    )


def outer_axes(operation: Operation) -> list[Axis]:
    """The batch alone."""
    return alike(operation, but=range(1, len(operation.shape())))


def softmax_axes(operation: Operation) -> list[Axis]:
    """All axes except the normalized one; before opset 13, only the axes in front of it."""
    rank = len(operation.shape())
    if operation.attributes["opset"] >= 13:
        return alike(operation, but=(axis_of(operation, rank, -1),))
    return alike(operation, but=range(axis_of(operation, rank, 1), rank))


def layer_norm_axes(operation: Operation) -> Iterator[Axis]:
    """Axes in front of the normalized ones; weights are cut with an axis that they have."""
    image, shape, output = operation.input(), operation.shape(), operation.output
    first = axis_of(operation, len(shape), -1)
    names = operation.names(len(shape))
    for axis in range(first):
        places = [(image, axis), (output, axis)]
        for k in (1, 2):
            if operation.has(k):
                own = axis - len(shape) + len(operation.shape(k))
                if own >= 0 and operation.shape(k)[own] == shape[axis]:
                    places.append((operation.input(k), own))
        yield same(names[axis], shape[axis], places)
