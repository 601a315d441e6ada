"""Weights of an ONNX model in files beside it: checked, read, counted, moved one at a time.

The path, offset and length of a weight come from an untrusted file: they are checked before any
byte is read or written.
"""

from __future__ import annotations

import os
import reprlib
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from cpplan.io.onnx.types import bodies_of, dtype_name
from cpplan.model.dtypes import tensor_bytes
from cpplan.model.errors import InputError
from cpplan.runtime.atomic import write_blocks
from cpplan.runtime.limits import MOST_UNPACKED

if TYPE_CHECKING:
    import onnx

MOST_BYTES = 1 << 31  # an ONNX file, a protobuf message, must be smaller
_PAGE = 4096  # offsets at which weights can be mapped into memory
# Fields that give the place of a weight, and a number of digits that no offset reaches.
_KEYS = ("location", "offset", "length")
_DIGITS = 20


def check_external_data(model: onnx.ModelProto, folder: Path) -> None:
    """Check that every weight that a model keeps in another file lies whole in a file of a folder.

    The values are not read. A location must be a path within the folder, of a regular file and
    without links; a length, if given, must be the tensor's; and weights that overlap may add up to
    about twice the bytes of their files at most.
    """
    stored: dict[Path, int] = {}
    asked = 0
    for tensor in _external_tensors(model.graph):
        place = _place(tensor, folder)
        stored[place.path] = place.path.stat().st_size
        asked += place.length
    held = sum(stored.values())
    if asked > 2 * held + MOST_UNPACKED:
        raise InputError(
            f"its weights cannot be read: they take {asked} B, but their files hold {held} B: "
            "expected weights that do not lie over one another"
        )


def load_external_data(model: onnx.ModelProto, folder: Path) -> None:
    """Load the weights that a model keeps in files of a folder, in place."""
    check_external_data(model, folder)
    for tensor in _external_tensors(model.graph):
        tensor.raw_data = _read(tensor, folder)
        tensor.data_location = tensor.DEFAULT
        del tensor.external_data[:]


def weight_bytes(model: onnx.ModelProto) -> int:
    """Bytes of the weights that a model keeps in other files."""
    return sum(
        tensor_bytes(tensor.dims, dtype_name(tensor.data_type) or "uint8")
        for tensor in _external_tensors(model.graph)
    )


def move_external_data(model: onnx.ModelProto, folder: Path, target: Path) -> None:
    """Copy the weights that a model keeps in files of a folder to one file, and refer to that file.

    One weight is in memory at a time; each begins at a multiple of 4096 bytes.

    Raises
    ------
    InputError
        As :func:`load_external_data`, or if the file cannot be written.
    """
    check_external_data(model, folder)
    tensors = list(_external_tensors(model.graph))
    places: list[tuple[int, int]] = []

    def blocks() -> Iterator[bytes]:
        end = 0
        for tensor in tensors:
            data = _read(tensor, folder)
            begin = -(-end // _PAGE) * _PAGE
            yield bytes(begin - end)
            yield data
            places.append((begin, len(data)))
            end = sum(places[-1])

    write_blocks(target, blocks())
    for tensor, (offset, length) in zip(tensors, places, strict=True):
        del tensor.external_data[:]
        for key, value in (("location", target.name), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))


class _Place(NamedTuple):
    """The bytes of a file that hold a weight."""

    path: Path
    offset: int
    length: int


def _place(tensor: onnx.TensorProto, folder: Path) -> _Place:
    """The bytes of a file that hold a weight; raises if the file does not hold them."""
    given = {entry.key: entry.value for entry in tensor.external_data if entry.key in _KEYS}
    location = given.get("location", "")

    def refuse(why: str) -> NoReturn:
        raise InputError(
            "its weights cannot be read: "
            f"tensor {_short(tensor.name)} in file {_short(location)}: {why}"
        )

    if len(given) < sum(entry.key in _KEYS for entry in tensor.external_data):
        refuse("expected location, offset and length once each")
    dtype = dtype_name(tensor.data_type)
    if dtype is None or any(extent < 0 for extent in tensor.dims):
        refuse("expected elements of a fixed width and no negative extent")
    if (
        not location
        or Path(location).is_absolute()
        or {"..", "\\"} & {*Path(location).parts, *location}
    ):
        refuse("expected a path within the model's folder")
    numbers = [given.get(key, "0") for key in ("offset", "length")]
    if not all(text.isascii() and text.isdigit() and len(text) < _DIGITS for text in numbers):
        refuse("expected an offset and a length in digits")
    offset, length = map(int, numbers)
    wanted = tensor_bytes(tensor.dims, dtype)
    if "length" in given and length != wanted:
        refuse(
            f"its length is {length} B, but {reprlib.repr([*tensor.dims])} of {dtype} "
            f"take {wanted} B"
        )
    path = folder.resolve() / location
    try:
        linked = os.path.realpath(path) != str(path)
        found = path.stat()
    except OSError as error:
        refuse(f"{error.strerror}")
    except ValueError:
        refuse("expected a path without NUL")
    if linked:
        refuse("is a link, or lies in one: expected a file of the model's folder")
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        refuse("expected a regular file with one name")
    if offset + wanted > found.st_size:
        refuse(f"expected {wanted} B from byte {offset} on, but it ends at {found.st_size}")
    return _Place(path, offset, wanted)


def _read(tensor: onnx.TensorProto, folder: Path) -> bytes:
    place = _place(tensor, folder)
    try:
        with open(place.path, "rb") as stream:
            stream.seek(place.offset)
            data = stream.read(place.length)
    except OSError as error:
        raise InputError(f"its weights cannot be read: {error.strerror}") from error
    if len(data) < place.length:
        raise InputError(f"its weights cannot be read: {str(place.path)!r} has become shorter")
    return data


def _short(text: str) -> str:
    return reprlib.repr(text)


def _external_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    held = [*graph.initializer]
    for sparse in graph.sparse_initializer:
        held += (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            held += (attribute.t, *attribute.tensors)
    for tensor in held:
        if tensor.data_location == tensor.EXTERNAL:
            yield tensor
    for node in graph.node:
        for body in bodies_of(node):
            yield from _external_tensors(body)
