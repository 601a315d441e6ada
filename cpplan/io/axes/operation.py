"""An op as the rules for axes see it, and parts of rules that all of them use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cpplan.model.axes import Axis, Window
from cpplan.model.tensor import Tensor

Array: TypeAlias = npt.NDArray[Any]

_NAMES = {
    "channels first": (
        ("batch", "channels", "columns"),
        ("batch", "channels", "rows", "columns"),
        ("batch", "channels", "planes", "rows", "columns"),
    ),
    "channels last": (
        ("batch", "columns", "channels"),
        ("batch", "rows", "columns", "channels"),
        ("batch", "planes", "rows", "columns", "channels"),
    ),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """An op with its tensors by position, its attributes, and values of small constants.

    Attributes
    ----------
    kind
        Its kind in its framework: ``"Conv"``, ``"CONV_2D"``, ``"aten.convolution"``.
    inputs, outputs
        Tensors by position; ``None`` for those left out, and for what is no tensor.
    attributes
        Settings by name, as the framework calls them.
    value
        Value of the constant input of that position; ``None`` if it is not known.
    layout
        ``"channels first"`` or ``"channels last"``: names the axes of images.
    """

    kind: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    value: Callable[[int], Array | None] = field(default=lambda _: None, repr=False)
    layout: str = "channels first"

    def has(self, number: int) -> bool:
        """True if there is an input of that position."""
        return number < len(self.inputs) and self.inputs[number] is not None

    def input(self, number: int = 0) -> Tensor:
        """The input of that position.

        Raises
        ------
        NoAxes
            If it is left out.
        """
        found = self.inputs[number] if number < len(self.inputs) else None
        if found is None:
            raise NoAxes
        return found

    @property
    def output(self) -> Tensor:
        """The only output.

        Raises
        ------
        NoAxes
            If there are more, or none.
        """
        there = [tensor for tensor in self.outputs if tensor is not None]
        if len(there) != 1:
            raise NoAxes
        return there[0]

    def shape(self, number: int = 0) -> tuple[int, ...]:
        """Shape of an input."""
        return shape_of(self.input(number))

    def integers(self, number: int) -> list[int] | None:
        """Integers that a constant input holds; ``None`` if they are not known."""
        value = self.value(number) if self.has(number) else None
        if value is None or np.asarray(value).dtype.kind not in "iu":
            return None
        return [int(each) for each in np.asarray(value).reshape(-1)]

    def names(self, rank: int) -> tuple[str, ...]:
        """Names of the axes of a tensor of that rank, if it is an image."""
        for names in _NAMES[self.layout]:
            if len(names) == rank and (rank > 3 or self.layout == "channels last"):
                return names
        return plain_names(rank)


Rule: TypeAlias = Callable[[Operation], Iterable[Axis]]


class NoAxes(Exception):
    """The op cannot be split along any axis; raised inside of rules."""


def plain_names(rank: int) -> tuple[str, ...]:
    """Names of the axes of a matrix, or of several."""
    if rank <= 2:
        return ("rows", "columns")[:rank]
    outer = ("batch",) if rank == 3 else tuple(f"batch {k}" for k in range(rank - 2))
    return (*outer, "rows", "columns")


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """Shape of a tensor."""
    if tensor.shape is None or tensor.symbolic:
        raise NoAxes
    return tensor.shape


def same(name: str, extent: int, places: Iterable[tuple[Tensor, int]]) -> Axis:
    """The axis along which each step accesses the same position of tensors, each along an axis."""
    return Axis(name, extent, tuple(Window(tensor.name, axis) for tensor, axis in places))


def element_wise(operation: Operation, only: Sequence[int] | None = None) -> list[Axis]:
    """Axes of an op whose inputs are broadcast to its output, element by element.

    Parameters
    ----------
    only
        Inputs that are broadcast; the others are needed whole.
    """
    output = operation.output
    shape = shape_of(output)
    rank = len(shape)
    numbers = range(len(operation.inputs)) if only is None else only
    inputs = [operation.input(k) for k in numbers if operation.has(k)]
    axes = []
    for axis, (name, extent) in enumerate(zip(operation.names(rank), shape, strict=True)):
        places = [(output, axis)]
        for tensor in inputs:
            own = axis - rank + len(shape_of(tensor))
            if own >= 0 and shape_of(tensor)[own] == extent:
                places.append((tensor, own))
        axes.append(same(name, extent, places))
    return axes


def alike(operation: Operation, but: Iterable[int] = ()) -> list[Axis]:
    """Axes of an op of one input and one output of its shape, without those it mixes."""
    shape, output = operation.shape(), operation.output
    if shape_of(output) != shape:
        raise NoAxes
    mixed = {axis % len(shape) for axis in but}
    return [
        same(name, extent, [(operation.input(), axis), (output, axis)])
        for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True))
        if axis not in mixed
    ]


def checked_axis(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise NoAxes
    return axis % rank
