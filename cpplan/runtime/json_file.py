"""Reading of JSON files, with errors that name the file.

A file whose name ends in ``.gz`` is decompressed.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import Counter
from os import PathLike
from typing import Any

from cpplan.model.errors import InputError
from cpplan.model.printable import quote
from cpplan.runtime.limits import check_text, read_unpacked
from cpplan.runtime.regular_file import check_source


def is_compressed(path: str | PathLike[str]) -> bool:
    """True if a file's name has the suffix of compressed files."""
    return os.fspath(path).lower().endswith(".gz")


def read_text(path: str | PathLike[str]) -> str:
    """The file's text, with its line ends unchanged.

    Raises
    ------
    InputError
        If the file does not exist, is not a regular file, cannot be read, or is not UTF-8; or if
        its name ends in ``.gz`` and it is not compressed, is cut short, or unpacks to more than 256
        MiB or to too many values of JSON; names the file.
    """
    check_source(path)
    try:
        if is_compressed(path):
            with gzip.open(path, "rb") as packed:
                data = read_unpacked(packed, f"{path}:")
            check_text(data, f"{path}:", stored=os.path.getsize(path))
            return data.decode("utf-8-sig")
        with open(path, encoding="utf-8-sig", newline="") as stream:
            return stream.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path}: expected gzip data, which this is not or is cut short"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8 text") from error


def read_json(path: str | PathLike[str]) -> Any:
    """The file's JSON value."""
    return parse_json(read_text(path), path)


def parse_json(text: str, path: str | PathLike[str]) -> Any:
    """The JSON value of a file's text."""
    try:
        return parse_values(text)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")  # of a string that does not end
        raise InputError(
            f"{path}: not JSON: {what} at line {error.lineno}, column {error.colno}"
        ) from error
    except ValueError as error:  # an integer of thousands of digits
        raise InputError(f"{path}: not JSON: a number is out of range") from error
    except RecursionError as error:
        raise InputError(f"{path}: not a model: JSON nested too deeply") from error


def parse_values(text: str) -> Any:
    """The JSON value of a text, with the errors of ``json.loads``."""
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise InputError(f"key {quote(twice)} is given twice in one object")
    return found
