"""Contents of a TFLite file: its subgraphs, tensors and operators.

Field numbers follow the schema of TensorFlow Lite, version 3 (``schema.fbs`` in the sources of
TensorFlow and of LiteRT); the package ``tflite`` has the names of its operators. In a file, two
tensors may have the same name, and operators have no names: unique ones are given to both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path

from cpplan.io.tflite.flat_table import Table, read_root
from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError, MissingExtraError, VerificationError
from cpplan.runtime import limits

_IDENTIFIER = b"TFL3"
_CUSTOM = 32
RESOURCE = "RESOURCE"
# Element types by number; a type whose elements have no fixed size has the schema's name.
_DTYPES = (
    "float32", "float16", "int32", "uint8", "int64", "STRING", "bool", "int16", "complex64",
    "int8", "float64", "complex128", "uint64", RESOURCE, "VARIANT", "uint32", "uint16", "int4",
    "bfloat16", "int2", "uint4", "float8e4m3fn", "float8e5m2",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor of the file.

    Attributes
    ----------
    shape, signature
        Extents; and extents with -1 for axes that are only known at run time.
    dtype
        cpplan's name of the element type, or ``STRING``, ``RESOURCE`` or ``VARIANT``.
    buffer
        Number of the model's buffer with its values; 0 for none.
    data_bytes
        Bytes of its values in the file; ``None`` if the file has none, so that it is not a
        constant.
    variable
        True if the tensor keeps its value from run to run.
    scales, zero_points
        Scales and zero points of its quantization; empty if it has none.
    bounded
        True if extents are only known at run time, and ``shape`` has the largest that they can be.
    """

    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    dtype: str
    buffer: int
    data_bytes: int | None
    variable: bool
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    bounded: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of its elements; elements narrower than a byte take one each, as in TFLite Micro.

        Elements of types without a size take four bytes.
        """
        return math.prod(self.shape) * max(1, BITS.get(self.dtype, 32) // 8)

    @property
    def in_arena(self) -> bool:
        """True if a runtime places it among the tensors that live no longer than a run."""
        return not self.data_bytes and not self.variable and self.nbytes > 0


@dataclass(frozen=True, slots=True)
class FileOperator:
    """An operator: its kind, and the numbers of its tensors, -1 for an optional one left out.

    ``options`` is the table with its settings.
    """

    kind: str
    custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table | None


@dataclass(frozen=True, slots=True)
class FileSubgraph:
    """A subgraph; the runtime runs its operators in the order in which they are listed."""

    name: str
    tensors: tuple[FileTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[FileOperator, ...]
    table: Table


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """A whole file. ``metadata`` has names, each with the number of its buffer."""

    data: bytes = field(repr=False)
    root: Table
    subgraphs: tuple[FileSubgraph, ...]
    buffers: tuple[Table, ...]
    metadata: tuple[tuple[str, int], ...]

    def buffer_span(self, number: int) -> tuple[int, int]:
        """Position of a buffer's bytes in the file, and their number."""
        return self.buffers[number].vector(0, 1) or (0, 0)


def parse_model(source: str | PathLike[str] | bytes) -> TfliteModel:
    """The content of a ``.tflite`` file, or of its bytes.

    Raises
    ------
    InputError
        If the file cannot be read, is not a TFLite model, is cut short, or uses an operator that
        the package ``tflite`` does not know.
    MissingExtraError
        If that package is missing.
    """
    if find_spec("tflite") is None:
        raise MissingExtraError("tflite", "tflite", "reading TFLite models")
    data = source if isinstance(source, bytes) else _read(source)
    if data[4:8] != _IDENTIFIER:
        raise InputError(f"not a TFLite model: expected the identifier TFL3, not {data[4:8]!r}")
    root = read_root(data)
    buffers = root.tables(4)
    filled = [_data_bytes(buffer) for buffer in buffers]
    kinds = [_kind(code) for code in root.tables(1)]
    room = _Room(len(data))
    subgraphs = tuple(_subgraph(table, kinds, filled, room) for table in root.tables(2))
    if not subgraphs:
        raise InputError("not a TFLite model: it has no subgraph")
    metadata = tuple((entry.text(0), entry.number(1, "<I")) for entry in root.tables(6))
    for name, number in metadata:
        _check_number(f"metadata {name!r}: buffer", number, len(buffers))
    return TfliteModel(data, root, subgraphs, buffers, metadata)


@contextmanager
def naming(source: str | PathLike[str] | bytes) -> Iterator[None]:
    """Add the file's name to every error raised in this context."""
    try:
        yield
    except (InputError, VerificationError) as error:
        if isinstance(source, bytes):
            raise type(error)(f"TFLite model: {error}") from error
        raise type(error)(f"{fspath(source)}: {error}") from error


def _read(source: str | PathLike[str]) -> bytes:
    path = Path(source)
    if path.exists() and not path.is_file():  # reading a pipe could wait for ever
        raise InputError("is not a regular file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"cannot be read: {error}") from error


def _data_bytes(buffer: Table) -> int | None:
    _, count = buffer.vector(0, 1) or (0, 0)
    # In files above 2 GiB, values follow the FlatBuffer; these fields have their place and size.
    outside = buffer.number(2, "<Q") if buffer.number(1, "<Q") > 1 else 0
    return count or outside or None


def _kind(code: Table) -> tuple[str, bool]:
    """Name of the operators with a code, and True if their kernel is not TFLite's own."""
    from tflite.utils import BUILTIN_OPCODE2NAME

    # Numbers above 126 did not fit into the older field.
    number = max(code.number(0, "<b"), code.number(3, "<i"))
    if number == _CUSTOM:
        return code.text(1) or "CUSTOM", True
    if number not in BUILTIN_OPCODE2NAME:
        raise InputError(f"operator code {number} is not one that the package tflite knows")
    return BUILTIN_OPCODE2NAME[number], False


class _Room:
    """Bytes that tensors and operators may still take: few may be those of several."""

    def __init__(self, size: int):
        self.left = limits.MOST_SHARED * size + (1 << 16)

    def take(self, count: int) -> None:
        """Raise once there are more bytes than the file can reasonably hold."""
        self.left -= count
        if self.left < 0:
            raise InputError("no TFLite model: too many tensors or operators share their bytes")


def _subgraph(
    table: Table, kinds: list[tuple[str, bool]], filled: list[int | None], room: _Room
) -> FileSubgraph:
    for listed in (0, 3):
        _, count = table.vector(listed, 4) or (0, 0)
        room.take(24 * count)
    entries = table.tables(0), table.tables(3)
    tensors = tuple(_tensor(entry, filled, room) for entry in entries[0])
    inputs, outputs = table.integers(1), table.integers(2)
    for number in (*inputs, *outputs):
        _check_number("tensor of a subgraph's boundary", number, len(tensors))
    operators = tuple(_operator(entry, kinds, len(tensors), room) for entry in entries[1])
    return FileSubgraph(table.text(4), tensors, inputs, outputs, operators, table)


def _tensor(table: Table, filled: list[int | None], room: _Room) -> FileTensor:
    name, shape, buffer = table.text(3), table.integers(0), table.number(2, "<I")
    dtype = table.number(1, "<b")
    _check_number(f"tensor {name!r}: buffer", buffer, len(filled))
    if not 0 <= dtype < len(_DTYPES):
        raise InputError(f"tensor {name!r}: element type {dtype} is not understood")
    if table.number(10, "<I"):
        raise InputError(f"tensor {name!r}: values in files of their own are not supported")
    quantization = table.table(4)
    signature = table.integers(7)
    scales = tuple(quantization.numbers(2, "f4").tolist()) if quantization else ()
    zero_points = tuple(quantization.numbers(3, "i8").tolist()) if quantization else ()
    extents, levels = len(shape) + len(signature), len(scales) + 2 * len(zero_points)
    room.take(len(name) + 4 * (extents + levels))
    return FileTensor(
        name=name,
        shape=shape,
        signature=signature or shape,
        dtype=_DTYPES[dtype],
        buffer=buffer,
        data_bytes=filled[buffer],
        variable=bool(table.number(5, "<B")),
        scales=scales,
        zero_points=zero_points,
    )


def _operator(
    table: Table, kinds: list[tuple[str, bool]], tensors: int, room: _Room
) -> FileOperator:
    code = table.number(0, "<I")
    _check_number("operator: code", code, len(kinds))
    kind, custom = kinds[code]
    inputs, outputs = table.integers(1), table.integers(2)
    room.take(4 * (len(inputs) + len(outputs)))
    for number in (*inputs, *outputs):
        if number != -1:
            _check_number(f"operator {kind}: tensor", number, tensors)
    return FileOperator(kind, custom, inputs, outputs, table.table(4))


def _check_number(what: str, number: int, count: int) -> None:
    if not 0 <= number < count:
        raise InputError(f"{what} {number} does not exist: there are {count}")


def unique_names(model: TfliteModel) -> list[list[str]]:
    """Names of the tensors of every subgraph: as in the file, made unique if necessary."""
    taken: set[str] = set()
    return [
        [
            free_name(tensor.name or f"tensor_{s}_{k}", taken)
            for k, tensor in enumerate(source.tensors)
        ]
        for s, source in enumerate(model.subgraphs)
    ]


def op_names(source: FileSubgraph, names: Sequence[str]) -> list[str]:
    """Names of a subgraph's ops: the name of the first tensor written, or else the kind."""
    taken: set[str] = set()
    return [
        free_name(names[o.outputs[0]] if o.outputs and o.outputs[0] >= 0 else o.kind, taken)
        for o in source.operators
    ]


def free_name(name: str, taken: set[str]) -> str:
    """The name, followed by the first number that makes it unique if it is taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}#{number}"
    taken.add(free)
    return free
