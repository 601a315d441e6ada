"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from os import PathLike

from cpplan.model.errors import InputError
from cpplan.runtime.regular_file import resolve_target


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8 to ``path``; see :func:`write_bytes`."""
    write_pieces(path, (text,))


def write_pieces(path: str | PathLike[str], pieces: Iterable[str]) -> None:
    """Write text given in pieces, so that the whole text is never in memory."""
    try:
        write_blocks(path, (piece.encode() for piece in pieces))
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: cannot be written: a name is not Unicode text") from error


def write_bytes(path: str | PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path`` through a temporary file in the same folder, then rename.

    A symbolic link stays a link: the file that it leads to is written.
    """
    write_blocks(path, (data,))


def write_blocks(path: str | PathLike[str], pieces: Iterable[bytes]) -> None:
    """Write bytes given in blocks; see :func:`write_bytes`.

    Raises
    ------
    InputError
        As :func:`write_bytes`. An error that the source of the blocks raises is passed on, and no
        file is written.
    """
    target = resolve_target(path)
    try:
        # A name of its own: the target's name with a suffix could be too long.
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".cpplan.")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp gives 0600, but a plan is not secret
        os.replace(temporary, target)
    except OSError as error:
        os.unlink(temporary)
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    except BaseException:
        os.unlink(temporary)
        raise
