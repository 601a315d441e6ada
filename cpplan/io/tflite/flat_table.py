"""Tables of a FlatBuffer, read in place; references out of the file are refused.

A table starts with the distance back to its vtable, which lists the position of each field in the
table, 0 for a field left out. Strings, vectors and other tables lie elsewhere: the field holds the
distance ahead to them (https://flatbuffers.dev/internals/). The readers that ``flatc`` generates
for Python trust these distances: from a file that is cut short they may read wrong numbers without
an error. This reader checks each distance, and gives the position of a field for code that writes
to it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cpplan.model.errors import InputError

_DISTANCE = "<I"


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its position in the file, and the positions of its fields.

    Fields are numbered in the order in which the schema declares them.
    """

    data: bytes = field(repr=False)
    position: int

    def __post_init__(self) -> None:
        size, span = self._sizes()
        if size < 4 or size % 2 or span < 4:
            raise InputError(f"no FlatBuffer: byte {self.position} starts no table")
        read_number(self.data, "<B", self.position + span - 1)

    @property
    def vtable(self) -> int:
        """Position of the table's vtable."""
        return self.position - read_number(self.data, "<i", self.position)

    @property
    def field_count(self) -> int:
        """Number of fields that the table could hold, by its schema or an older one."""
        return (self._sizes()[0] - 4) // 2

    def place(self, field: int) -> int | None:
        """Position of a field in the file; ``None`` if it is left out."""
        size, span = self._sizes()
        if 4 + 2 * field >= size:
            return None
        within = read_number(self.data, "<H", self.vtable + 4 + 2 * field)
        if within >= span:
            raise InputError(f"no FlatBuffer: field {field} is not in its table")
        return self.position + within if within else None

    def number(self, field: int, format: str, default: int = 0) -> int:
        """A field that is a number, in one of the formats of ``struct``."""
        place = self.place(field)
        return default if place is None else read_number(self.data, format, place)

    def follow(self, field: int) -> int:
        """Position of the object that a field refers to."""
        place = self.place(field)
        assert place is not None
        return self._follow(place)

    def table(self, field: int) -> Table | None:
        """A field that is another table."""
        place = self.place(field)
        return None if place is None else Table(self.data, self._follow(place))

    def vector(self, field: int, width: int) -> tuple[int, int] | None:
        """Position of a vector's first element, and its number of elements of ``width`` bytes."""
        place = self.place(field)
        if place is None:
            return None
        start = self._follow(place)
        count = read_number(self.data, _DISTANCE, start)
        if count:
            read_number(self.data, "<B", start + 3 + count * width)
        return start + 4, count

    def numbers(self, field: int, dtype: str) -> npt.NDArray[np.generic]:
        """A field that is a vector of numbers; an empty one if left out."""
        kind = np.dtype(dtype).newbyteorder("<")
        start, count = self.vector(field, kind.itemsize) or (0, 0)
        return np.frombuffer(self.data, kind, count, start)

    def integers(self, field: int) -> tuple[int, ...]:
        """A field that is a vector of 32-bit integers; an empty one if left out."""
        return tuple(self.numbers(field, "i4").tolist())

    def tables(self, field: int) -> tuple[Table, ...]:
        """A field that is a vector of tables; an empty one if left out."""
        start, count = self.vector(field, 4) or (0, 0)
        places = range(start, start + 4 * count, 4)
        return tuple(Table(self.data, self._follow(place)) for place in places)

    def text(self, field: int) -> str:
        """A field that is a string; an empty one if left out."""
        start, count = self.vector(field, 1) or (0, 0)
        try:
            return self.data[start : start + count].decode()
        except UnicodeDecodeError as error:
            raise InputError("no FlatBuffer: a string is not UTF-8 text") from error

    def _follow(self, place: int) -> int:
        return place + read_number(self.data, _DISTANCE, place)

    def _sizes(self) -> tuple[int, int]:
        """Bytes of the vtable, and of the table that it describes."""
        return tuple(read_number(self.data, "<H", self.vtable + k) for k in (0, 2))  # type: ignore[return-value]


def read_number(data: bytes, format: str, position: int) -> int:
    """The number at a position."""
    width = struct.calcsize(format)
    if not 0 <= position <= len(data) - width:
        raise InputError(
            f"cut short, or no FlatBuffer: byte {max(position, position + width - 1)} is needed "
            f"of {len(data)}"
        )
    return int(struct.unpack_from(format, data, position)[0])


def read_root(data: bytes) -> Table:
    """The root table of a file."""
    return Table(data, read_number(data, _DISTANCE, 0))
