"""Limits on the bytes, nodes, rows and nesting that a file may make a reader produce."""

from __future__ import annotations

from gzip import GzipFile
from typing import IO

from cpplan.model.errors import InputError

# Bytes that compressed text, or one part of an archive, may unpack to.
MOST_UNPACKED = 256 << 20
# Nodes that expanding an ONNX model's functions may give: some, and more for a large file.
MOST_NODES = 20_000
MOST_NODES_PER_NODE = 50
# Rows of a table of results.
MOST_ROWS = 250_000
# Characters of a manifest, and dots on one of its lines and in all: the time that its parser needs
# grows with the square of the parts of a key, and each part takes a kilobyte.
MOST_MANIFEST = 1 << 20
MOST_DOTS = 250
MOST_DOTS_IN_ALL = 50_000


def read_unpacked(stream: IO[bytes] | GzipFile, what: str, *, stored: int = 0) -> bytes:
    """Unpacked bytes of a stream, if they are within the limit.

    A file that stores bytes as they are may have so many more.

    Raises
    ------
    InputError
        Says that ``what`` unpacks to more.

    Examples
    --------
    >>> from io import BytesIO
    >>> read_unpacked(BytesIO(b"{}"), "model.json")
    b'{}'
    """
    data = stream.read(MOST_UNPACKED + stored + 1)
    if len(data) > MOST_UNPACKED + stored:
        raise InputError(f"{what} unpacks to more than {MOST_UNPACKED >> 20} MiB")
    return data
