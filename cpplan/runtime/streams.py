"""Writing to the standard streams, whatever became of them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TextIO


def write_to(stream: TextIO | None, text: str) -> str | None:
    """Write ``text`` and say why it could not be written, if so (``None``: it was written).

    Characters that the stream's encoding lacks are escaped. A stream that failed is pointed
    elsewhere, so that Python's own flush at exit does not fail again.
    """
    if stream is None:
        return "it is closed"
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        # Whoever read it has seen enough.
        _silence(stream)
    except OSError as error:
        _silence(stream)
        return error.strerror or str(error)
    except ValueError:
        return "it is closed"
    return None


def _silence(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
