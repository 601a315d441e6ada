"""Limits on the bytes, nodes, rows and nesting that a file may make a reader produce."""

from __future__ import annotations

from gzip import GzipFile
from typing import IO

from cpplan.model.errors import InputError

# Most bytes that compressed text, or one part of an archive, may unpack to.
MOST_UNPACKED = 256 << 20
# Most bytes of compressed text that is not ASCII: in memory, a character then takes up to 4 bytes.
MOST_WIDE = 64 << 20
# Most values of packed JSON: a constant, and some for each byte that is stored. Graphs as they are
# written have about one a byte; each value takes up to 230 bytes in memory.
MOST_VALUES = 2_000_000
MOST_VALUES_PER_BYTE = 4
# Most nodes after expanding an ONNX model's functions: a constant, and some for each node.
MOST_NODES = 20_000
MOST_NODES_PER_NODE = 50
# Most subgraphs of a TFLite model that run one another, and most bytes of its tensors and operators
# as a multiple of the file's: parts of a FlatBuffer may be shared by any number of others.
MOST_CALLERS = 64
MOST_SHARED = 3
# Most bytes that a TFLite model may take beside the rest when it is run to learn its shapes.
MOST_RUN = 4 << 30
# Most steps of a problem in which a number is kept for each step.
MOST_STEPS = 1 << 28
# Most positions in the tables that say what each position of an axis is made of.
MOST_POSITIONS = 1 << 20
# Most rows, cells and settings of a table of results, and most pairs of a model and a setting: each
# may be missing.
MOST_ROWS = 250_000
MOST_CELLS = 6_000_000
MOST_SETTINGS = 500
MOST_PAIRS = 1_000_000
# Most characters of a manifest, and most dots on one line and in total: parsing time grows with the
# square of the number of parts of a key, and each part takes a kilobyte.
MOST_MANIFEST = 1 << 20
MOST_DOTS = 250
MOST_DOTS_IN_ALL = 50_000


def read_unpacked(stream: IO[bytes] | GzipFile, what: str, *, stored: int = 0) -> bytes:
    """Unpacked bytes of a stream, if they are within the limit.

    If a file stores ``stored`` bytes uncompressed, the limit is larger by that number.
    """
    data = stream.read(MOST_UNPACKED + stored + 1)
    if len(data) > MOST_UNPACKED + stored:
        raise InputError(f"{what} unpacks to more than {MOST_UNPACKED >> 20} MiB")
    return data


def check_text(data: bytes, what: str, *, stored: int) -> None:
    """Raise if JSON text that was unpacked from ``stored`` bytes would take too much memory.

    Values are counted by commas and opening brackets, those in names too.
    """
    if len(data) > MOST_WIDE and not data.isascii():
        raise InputError(f"{what} unpacks to more than {MOST_WIDE >> 20} MiB that are not ASCII")
    most = MOST_VALUES + MOST_VALUES_PER_BYTE * stored
    if sum(map(data.count, (b",", b"[", b"{"))) > most:
        raise InputError(f"{what} unpacks to more than {most} values of JSON")
