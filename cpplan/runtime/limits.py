"""Limits on the bytes, nodes, rows and nesting that a file may make a reader produce."""

from __future__ import annotations

from gzip import GzipFile
from typing import IO

from cpplan.model.errors import InputError

# Most bytes that compressed text, or one part of an archive, may unpack to.
MOST_UNPACKED = 256 << 20
# Most nodes after expanding an ONNX model's functions: a constant, and some for each node.
MOST_NODES = 20_000
MOST_NODES_PER_NODE = 50
# Most subgraphs of a TFLite model that run one another, and most bytes of its tensors and operators
# as a multiple of the file's: parts of a FlatBuffer may be shared by any number of others.
MOST_CALLERS = 64
MOST_SHARED = 3
# Most steps of a problem in which a number is kept for each step.
MOST_STEPS = 1 << 28
# Most rows of a table of results.
MOST_ROWS = 250_000
# Most characters of a manifest, and most dots on one line and in total: parsing time grows with the
# square of the number of parts of a key, and each part takes a kilobyte.
MOST_MANIFEST = 1 << 20
MOST_DOTS = 250
MOST_DOTS_IN_ALL = 50_000


def read_unpacked(stream: IO[bytes] | GzipFile, what: str, *, stored: int = 0) -> bytes:
    """Unpacked bytes of a stream, if they are within the limit.

    If a file stores ``stored`` bytes uncompressed, the limit is larger by that number.

    Raises
    ------
    InputError
        If ``what`` unpacks to more bytes.

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
