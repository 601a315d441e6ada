"""Writing to the standard streams, also if they are closed or cannot encode the text."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TextIO


def write_to(stream: TextIO | None, text: str) -> str | None:
    """Write ``text``; return the reason if it could not be written, else ``None``.

    Characters that the stream's encoding lacks are escaped. A stream that failed is redirected,
    so that Python's own flush at exit does not fail again.
    """
    if stream is None:
        return "it is closed"
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        # The reader of the pipe has closed it.
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
