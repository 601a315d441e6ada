"""Placements of TFLite's operators that only copy: the table of rules.

Kernels copy element by element in order, or piece by piece, so that a copy onto itself changes
nothing. What is added by a padding lies outside the box that is copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from cpplan.io.axes.boxes import (
    Box,
    BoxRule,
    concat_boxes,
    pad_boxes,
    slice_boxes,
    split_boxes,
    stack_boxes,
)
from cpplan.io.axes.operation import NoAxes, Operation, checked_axis, shape_of
from cpplan.io.tflite.axes import known_integers, slice_steps
from cpplan.model.tensor import Tensor


def _concat(operation: Operation) -> Iterable[Box]:
    if operation.attributes["activation"]:
        raise NoAxes
    return concat_boxes(operation, _axis(operation, operation.output))


def _pad(operation: Operation) -> Iterable[Box]:
    return pad_boxes(operation, known_integers(operation, 1)[::2])


def _split(operation: Operation, *, source: int, axis: int) -> Iterable[Box]:
    image, (along,) = operation.input(source), known_integers(operation, axis)
    return split_boxes(operation, checked_axis(along, len(shape_of(image))), image)


def _axis(operation: Operation, whole: Tensor) -> int:
    return checked_axis(operation.attributes["axis"], len(shape_of(whole)))


RULES: dict[str, BoxRule] = {
    "CONCATENATION": _concat,
    "PACK": lambda op: stack_boxes(op, _axis(op, op.output)),
    "PAD": _pad,
    "PADV2": _pad,
    "SLICE": lambda op: slice_boxes(op, *slice_steps(op)),
    "SPLIT": partial(_split, source=1, axis=0),
    "SPLIT_V": partial(_split, source=0, axis=2),
    "STRIDED_SLICE": lambda op: slice_boxes(op, *slice_steps(op)),
    "UNPACK": lambda op: stack_boxes(op, _axis(op, op.input()), apart=True),
}
