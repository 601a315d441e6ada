"""Checks that only regular files are read and written, not devices, pipes, sockets or folders."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from cpplan.model.errors import InputError


def check_source(path: str | PathLike[str]) -> None:
    """Raise if a path exists but is not a regular file: reading a pipe could wait for ever.

    Raises
    ------
    InputError
        Names the file.
    """
    if not isinstance(path, (str, PathLike)):
        raise InputError(f"expected a path, not {type(path).__name__}")
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{str(path)!r} cannot be read: {error}") from error
    _check_regular(path, mode)


def _check_regular(path: str | PathLike[str], mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: is a folder: expected a file")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: is not a regular file")


def resolve_target(path: str | PathLike[str]) -> Path:
    """Path of the file that writing to ``path`` creates or replaces; symbolic links are followed.

    Raises
    ------
    InputError
        If the path exists but is not a regular file, or the file cannot be written; names it.
    """
    if not isinstance(path, (str, PathLike)) or not os.fspath(path):
        raise InputError(f"expected a path to write to, not {path!r}")
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG  # to be created
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{str(path)!r} cannot be written: {error}") from error
    _check_regular(path, mode)
    if not target.parent.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {str(target.parent)!r}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: cannot be written: its folder admits no new files")
    return target


def check_targets(source: str | PathLike[str], targets: Mapping[str, str]) -> None:
    """Raise for files that cannot be written, before the work that fills them."""
    seen: dict[Path, str] = {}
    for option, path in targets.items():
        if path in ("", "-"):
            raise InputError(f"{option} {path!r}: expected the name of a file")
        target = resolve_target(path)
        _create_beside(target, path)
        if _is_same(target, source):
            raise InputError(f"{option} {path}: would overwrite the file that is read")
        other = next((seen[known] for known in seen if _is_same(target, known)), None)
        if other is not None:
            raise InputError(f"{option} {path}: is the same file as that of {other}")
        seen[target] = option


def _create_beside(target: Path, path: str) -> None:
    """Raise if a new file in the target's folder fails, whatever its permissions say."""
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def _is_same(one: Path, other: str | PathLike[str]) -> bool:
    """True if two names stand for the same file, which need not exist."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
