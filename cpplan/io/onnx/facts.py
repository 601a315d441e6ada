"""Facts about ONNX tensors with symbolic sizes, and the call of a node as shape rules see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from cpplan.io.onnx.bytes import Array
from cpplan.model.errors import InputError
from cpplan.model.shapes import Dim, Range, dim_max

if TYPE_CHECKING:
    import onnx

Extent: TypeAlias = "int | Dim"
Shape: TypeAlias = tuple[Extent, ...]


class Lost(Exception):
    """Error with the reason why a tensor's symbolic shape is not known; caught and collected."""


@dataclass(frozen=True, slots=True)
class Fact:
    """The symbolic shape of a tensor, and its elements if known.

    Attributes
    ----------
    shape
        The tensor's extents.
    data
        The tensor's elements, if they are few and known: an array of the tensor's dtype, or of
        objects if some are expressions.
    varies
        True if the shape, or the sizes that the tensor was computed from, depend on a variable.
    """

    shape: Shape
    data: Array | None = None
    varies: bool = True


# The fact about a tensor, or the reason why it is lost.
Known: TypeAlias = Fact | str


@dataclass(frozen=True)
class Call:
    """A node, and the facts about its inputs.

    ``inputs`` has ``None`` for inputs left out, and the reason (a text) for lost ones.
    """

    node: onnx.NodeProto
    inputs: Sequence[Fact | str | None]
    opsets: Mapping[str, int]
    ranges: Mapping[str, Range]

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The node's attributes by name; text is ``str``."""
        import onnx

        values = {a.name: onnx.helper.get_attribute_value(a) for a in self.node.attribute}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}

    @property
    def opset(self) -> int:
        return self.opsets.get("", 1)

    def has(self, k: int) -> bool:
        """True if the node has input number ``k``."""
        return k < len(self.inputs) and self.inputs[k] is not None

    def fact(self, k: int) -> Fact:
        """The fact about input ``k``; raises :exc:`Lost` if there is none."""
        fact = self.inputs[k] if k < len(self.inputs) else None
        if fact is None:
            raise Lost(f"it has no input {k}")
        if isinstance(fact, str):
            raise Lost(f"the shape of its input {self.node.input[k]!r} is not known")
        return fact

    def shape(self, k: int = 0) -> Shape:
        """The extents of input ``k``."""
        return self.fact(k).shape

    def numbers(self, k: int) -> list[Extent]:
        """The integers that input ``k`` holds."""
        data = self.fact(k).data
        if data is None or data.dtype.kind not in "iuO":
            raise Lost(f"the values of its input {self.node.input[k]!r} are not known")
        values: list[Extent] = data.reshape(-1).tolist()
        if not all(isinstance(value, (int, Dim)) for value in values):
            raise Lost(f"the values of its input {self.node.input[k]!r} are no integers")
        return values

    def integers(
        self, name: str, k: int | None, default: Sequence[int] | None = None
    ) -> list[int] | None:
        """Plain integers from an attribute or, since later opsets, from input ``k``."""
        if name in self.attributes:
            return list(self.attributes[name])
        if k is None or not self.has(k):
            return None if default is None else list(default)
        values = self.numbers(k)
        if not all(isinstance(value, int) for value in values):
            raise Lost(f"its {name} depend on a variable")
        return [value for value in values if isinstance(value, int)]

    def axis(self, default: int, rank: int) -> int:
        """The attribute ``axis``, counted from the front."""
        return checked_axis(self.attributes.get("axis", default), rank)

    def bounds(self, extent: Extent) -> Range:
        """The smallest and the largest value of an expression, as far as known."""
        if isinstance(extent, int):
            return Range(extent, extent)
        try:
            return extent.bounds(self.ranges)
        except InputError:  # a divisor may be zero
            return Range(None, None)

    def at_least(self, extent: Extent, other: Extent) -> bool:
        """True if one extent is provably at least the other."""
        lower = self.bounds(extent - other).lower
        return lower is not None and lower >= 0

    def larger(self, one: Extent, other: Extent) -> Extent:
        """The larger of two extents, one of them if it is provably the larger."""
        if self.at_least(one, other):
            return one
        return other if self.at_least(other, one) else dim_max(one, other)

    def smaller(self, one: Extent, other: Extent) -> Extent:
        """The smaller of two extents, one of them if it is provably the smaller."""
        return -self.larger(-one, -other)


def checked_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; raises :exc:`Lost` if there is no such axis."""
    if not -rank <= axis < max(rank, 1):
        raise Lost(f"axis {axis} is not one of {rank}")
    return axis % rank if rank else 0


def broadcast(call: Call, shapes: Sequence[Shape]) -> Shape:
    """The shape to which all these shapes are broadcast, by the rules of NumPy.

    Extents that are not provably equal must be equal when the model runs, unless one of them is 1.
    So their maximum is right if none is zero; and if one of them is a number above 1, that number
    is right.
    """
    rank = max(map(len, shapes), default=0)
    result: list[Extent] = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, rank - len(shape)):
            result[axis] = _common(call, result[axis], extent)
    return tuple(result)


def _common(call: Call, one: Extent, other: Extent) -> Extent:
    if one == other or other == 1:
        return one
    if one == 1:
        return other
    for fixed in (one, other):
        if isinstance(fixed, int):
            if isinstance(one, int) and isinstance(other, int):
                raise Lost(f"extents {one} and {other} are neither equal nor 1")
            return fixed
    if not (call.at_least(one, 1) and call.at_least(other, 1)):
        raise Lost(f"extents {one} and {other} may be zero and differ")
    return call.larger(one, other)
