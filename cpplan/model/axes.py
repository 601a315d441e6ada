"""Axes along which an op can run in pieces, with the parts of tensors that a piece accesses.

An op that can be split has one or more axes of iteration: rows of an image, channels, rows of a
matrix. A piece of the op covers an interval ``[a, b)`` of an axis. A :class:`Window` gives the
interval of a tensor's own axis that belongs to it: the part of an input that the piece reads, or of
an output that it writes. A convolution of stride ``s``, dilation ``d``, ``k`` taps and ``p`` rows
of padding needs ``[a s - p, (b - 1) s - p + d (k - 1) + 1)``, within the tensor: positions outside
are padding.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpplan.model.errors import InputError
from cpplan.model.names import check_name, tuple_of
from cpplan.model.tensor import LIMIT

__all__ = ["Axis", "Window"]


@dataclass(frozen=True, slots=True)
class Window:
    """Interval of a tensor's axis that belongs to an interval ``[a, b)`` of an op's axis.

    It is ``[a * stride + offset, (b - 1) * stride + offset + size)`` within the tensor, which may
    be empty; or, if there is a table, from the first position of entry ``a`` to the last of entry
    ``b - 1``.

    Attributes
    ----------
    tensor
        Name of an input or output of the op.
    axis
        Axis of the tensor's shape.
    stride, offset, size
        Distance from one step's first position to the next one's, first position of step 0, and
        number of positions of one step.
    table
        Interval ``(start, stop)`` of every step, if the steps are not regular (resizing). Starts
        and stops never decrease.
    """

    tensor: str
    axis: int
    stride: int = 1
    offset: int = 0
    size: int = 1
    table: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        check_name("a window's tensor", self.tensor)
        here = "window of", self.tensor
        _check_integer(here, "axis", self.axis, least=0)
        _check_integer(here, "stride", self.stride, least=0)
        _check_integer(here, "size", self.size, least=0)
        _check_integer(here, "offset", self.offset)
        if self.table is not None:
            object.__setattr__(self, "table", _read_table(here, self.table))

    def interval(self, start: int, stop: int, extent: int) -> tuple[int, int]:
        """Interval within a tensor of this extent; empty ones are ``(position, position)``."""
        if self.table is not None:
            low, high = self.table[start][0], self.table[stop - 1][1]
        else:
            low = start * self.stride + self.offset
            high = (stop - 1) * self.stride + self.offset + self.size
        low = min(max(low, 0), extent)
        return low, max(min(high, extent), low)


class _Indexed:
    """A place for the windows by tensor, which are no field of an axis."""

    __slots__ = ("_by_tensor",)
    if TYPE_CHECKING:
        _by_tensor: dict[str, Window]


@dataclass(frozen=True, slots=True)
class Axis(_Indexed):
    """One axis of an op's work, along which it can run in pieces.

    Attributes
    ----------
    name
        Unique within the op: ``"rows"``, ``"columns"``, ``"channels"``, ``"terms"`` …
    extent
        Number of steps along the axis; a piece covers consecutive steps.
    windows
        Parts of inputs and outputs that a piece accesses, one window a tensor. A tensor that is not
        listed is needed whole by every piece. The windows of an output cover it without overlap.
    accumulates
        True if each piece adds its part of a sum to the whole outputs; no window then lists an
        output.
    """

    name: str
    extent: int
    windows: tuple[Window, ...]
    accumulates: bool = False

    def __post_init__(self) -> None:
        check_name("an axis's name", self.name)
        _check_integer(("axis", self.name), "extent", self.extent, least=1)
        here = f"axis {self.name!r}"
        object.__setattr__(self, "windows", tuple_of(Window, f"{here}: windows", self.windows))
        for name, count in Counter(window.tensor for window in self.windows).items():
            if count > 1:
                raise InputError(f"{here}: tensor {name!r} has more than one window")
        for window in self.windows:
            if window.table is not None and len(window.table) != self.extent:
                raise InputError(
                    f"{here}: the table of {window.tensor!r} has {len(window.table)} entries, "
                    f"expected {self.extent}"
                )

    @property
    def window(self) -> dict[str, Window]:
        """Windows by tensor, made once: an op may read thousands of tensors."""
        try:
            return self._by_tensor
        except AttributeError:
            made = {window.tensor: window for window in self.windows}
            object.__setattr__(self, "_by_tensor", made)
            return made


def _check_integer(
    here: tuple[str, str], field: str, value: object, least: int | None = None
) -> None:
    """Raise if a value of a window or an axis is not an integer, or is below its least value."""
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or (least is not None and value < least)
        or abs(value) >= LIMIT
    ):
        expected = "an integer" if least is None else f"an integer >= {least}"
        if isinstance(value, int) and abs(value) >= LIMIT:
            expected += " and below 2**62"
        thing, name = here
        raise InputError(f"{thing} {name!r}: {field} must be {expected}, not {value!r}")


def _read_table(window: tuple[str, str], table: object) -> tuple[tuple[int, int], ...]:
    """The table of a window as tuples."""
    here = "{} {!r}".format(*window)
    entries = tuple_of(object, f"{here}: table", table)
    read: list[tuple[int, int]] = []
    for entry in entries:
        if not isinstance(entry, (tuple, list)) or len(entry) != 2:
            raise InputError(f"{here}: table must hold pairs (start, stop), not {entry!r}")
        start, stop = entry
        for value in entry:
            _check_integer(window, "table", value, least=0)
        if stop < start or (read and (start < read[-1][0] or stop < read[-1][1])):
            raise InputError(f"{here}: table must hold intervals in ascending order")
        read.append((start, stop))
    return tuple(read)
