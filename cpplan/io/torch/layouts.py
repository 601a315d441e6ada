"""Layouts of all tensors: the bytes of storages, and of views within them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from cpplan.io.torch.effects import storage_of
from cpplan.io.torch.extents import Extents
from cpplan.io.torch.values import is_dense
from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError
from cpplan.model.graph import Tensor
from cpplan.model.symbols import Symbols

_NAMES = {"complex32": "uint32", "qint8": "int8", "quint8": "uint8", "qint32": "int32"}


@dataclass
class _Layout:
    """A tensor's value without data, kind, storage, and byte range in the storage."""

    value: torch.Tensor
    kind: str
    root: str
    begin: Any
    end: Any


class Layouts:
    """The tensors of a graph, and their bytes in storages.

    Parameters
    ----------
    extents
        The symbolic sizes and their ranges.
    """

    def __init__(self, extents: Extents):
        self._extents = extents
        self._found: dict[str, _Layout] = {}
        self._owned: dict[int, str] = {}
        self._lost: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def add_root(self, name: str, value: torch.Tensor, kind: str, nbytes: Any = None) -> None:
        """Add a tensor with its own storage; ``nbytes`` follows from the tensor if left out."""
        self.check(name, value)
        self._found[name] = _Layout(value, kind, name, 0, _end(value) if nbytes is None else nbytes)

    def check(self, name: str, value: torch.Tensor) -> None:
        """Raise if a tensor has no strides."""
        if not is_dense(value):
            raise InputError(f"tensor {name!r}: is {value.layout}: expected a dense tensor")

    def add_view(self, name: str, value: torch.Tensor, root: str) -> None:
        """Add a tensor that lies in the storage of another one."""
        begin = value.storage_offset() * value.element_size()
        self._found[name] = _Layout(value, "intermediate", root, begin, _end(value))

    def add_constant(self, name: str, value: torch.Tensor, owned: torch.Tensor) -> None:
        """Add a tensor that the module owns, perhaps under several names."""
        root = self._owned.setdefault(storage_of(owned), name)
        if root == name:
            self.add_root(name, value, "constant")
            return
        self.add_view(name, value, root)
        self._found[name].kind = "constant"
        self._found[root].end = max(self._found[root].end, self._found[name].end)

    def add_workspace(self, name: str, nbytes: int) -> None:
        """Add bytes that an op needs while it runs."""
        value = torch.empty((nbytes,), dtype=torch.uint8, device="meta")
        self._found[name] = _Layout(value, "workspace", name, 0, nbytes)

    def root_of(self, name: str) -> str:
        """Name of the tensor in whose storage a tensor lies."""
        return self._found[name].root

    def storage_bytes(self, name: str) -> Any:
        """Bytes of the storage in which a tensor lies; may be symbolic."""
        return self._found[self.root_of(name)].end

    def value_of(self, name: str) -> torch.Tensor:
        """A tensor's value without data."""
        return self._found[name].value

    def is_constant(self, name: str) -> bool:
        """True if the tensor lies in a constant."""
        return self._found[self.root_of(name)].kind == "constant"

    def mark_output(self, name: str) -> None:
        """Mark a tensor that the model returns as an output, unless it is a constant."""
        if self._found[name].kind != "constant":
            self._found[name].kind = "output"

    def mark_written(self, name: str) -> None:
        """Mark a tensor that an op overwrites: an input becomes an output, with the new values."""
        root = self._found[self.root_of(name)]
        root.kind = "output" if root.kind == "input" else root.kind

    def nbytes(self, name: str) -> int:
        """Bytes of a tensor at the upper bounds of its sizes."""
        return self._extents.at_most(self._found[name].end - self._found[name].begin)

    def symbols(self) -> Symbols | None:
        """The variables with their ranges, and the tensors whose sizes are not known."""
        if self._extents.fixed:
            return None
        return Symbols(dims=self._extents.ranges, lost=dict(self._lost))

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, in the order in which they were added."""
        return tuple(self._tensor(name, layout) for name, layout in self._found.items())

    def _tensor(self, name: str, layout: _Layout) -> Tensor:
        value = layout.value
        dtype, width = _dtype(value), value.element_size()
        size = layout.end - layout.begin
        view_of: Any = None if layout.root == name else (layout.root, layout.begin)
        numbers = (*value.shape, size, layout.begin)
        if all(isinstance(number, int) for number in numbers):
            shape: Any = tuple(value.shape)
            if view_of is None and size < math.prod(shape) * width:
                shape, dtype = (size,), "uint8"  # elements share bytes
            return Tensor(name, int(size), shape, dtype, layout.kind, alignment=1, view_of=view_of)
        try:
            shape = tuple(map(self._extents.symbolic, value.shape))
            found = self._extents.symbolic(size)
            offset = self._extents.symbolic(layout.begin)
        except InputError as error:
            self._lost[name] = str(error)
            size, begin = map(self._extents.at_most, (size, layout.begin))
            view_of = None if view_of is None else (layout.root, begin)
            return Tensor(name, size, dtype=dtype, kind=layout.kind, view_of=view_of)
        if dtype is None or found != math.prod(shape) * width:
            # The bytes are not those of the elements: the number of bytes becomes the only extent.
            shape, dtype = (found,), "uint8"
        view_of = None if view_of is None else (layout.root, offset)
        return Tensor(name, shape=shape, dtype=dtype, kind=layout.kind, view_of=view_of)


def _end(value: torch.Tensor) -> Any:
    """Byte offset in the storage after the last element."""
    width = value.element_size()
    if any(isinstance(extent, int) and extent == 0 for extent in value.shape):
        return value.storage_offset() * width
    reach = sum((e - 1) * s for e, s in zip(value.shape, value.stride(), strict=True))
    if in_order(value):
        reach = math.prod(value.shape) - 1  # with symbols, the shorter expression
    return (value.storage_offset() + reach + 1) * width


def in_order(value: torch.Tensor) -> bool:
    """True if the elements lie without gaps, in row-major order."""
    expected: Any = 1
    for extent, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if str(extent) != "1" and str(stride) != str(expected):
            return False
        expected = expected * extent
    return True


def _dtype(value: torch.Tensor) -> str | None:
    name = str(value.dtype).removeprefix("torch.")
    name = _NAMES.get(name, name.replace("_", "", 1) if name.startswith("float") else name)
    return name if name in BITS and BITS[name] == 8 * value.element_size() else None
