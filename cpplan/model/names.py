"""Checks of the names of tensors, ops, buffers and models."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TypeVar

from cpplan.model.errors import InputError

_T = TypeVar("_T")


def check_name(what: str, name: object, *, empty: bool = False) -> None:
    """Raise if a name is no string, is empty, or cannot be written as UTF-8 (a lone surrogate)."""
    if not isinstance(name, str) or not (name or empty):
        raise InputError(f"{what} must be a {'' if empty else 'non-empty '}string, not {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} must be Unicode text, but {name!r} holds a lone surrogate"
        ) from error


def check_names(what: str, names: Iterable[str]) -> None:
    """:func:`check_name` for many names, in one pass if all are valid."""
    names = tuple(names)
    try:
        "".join(names).encode()
    except (TypeError, UnicodeEncodeError):
        for name in names:
            check_name(what, name, empty=True)


def not_understood(what: str, given: object, known: Iterable[str]) -> InputError:
    """The error for a name that is none of the known ones; it says which one is near.

    Parameters
    ----------
    what
        What was given, as the message begins.
    given, known
        The name, and the names that are possible.

    Examples
    --------
    >>> str(not_understood("mode 'fsat'", "fsat", ("fast", "slow")))
    "mode 'fsat' is not understood (perhaps 'fast'): expected one of fast, slow"
    """
    from difflib import get_close_matches

    known = tuple(known)
    near = "".join(f" (perhaps {name!r})" for name in get_close_matches(str(given), known, n=1))
    return InputError(f"{what} is not understood{near}: expected one of {', '.join(known)}")


def check_key(key: str, known: Iterable[str]) -> None:
    """Refuse an unknown key; the message lists similar known keys, or else all."""
    from difflib import get_close_matches

    known = tuple(known)
    if key in known:
        return
    close = get_close_matches(str(key), known, n=3)
    expected = " or ".join(map(repr, close)) if close else f"one of {', '.join(known)}"
    raise InputError(f"unknown key {key!r}: expected {expected}")


def tuple_of(kind: type[_T], what: str, values: object) -> tuple[_T, ...]:
    """``values`` as a tuple of instances of ``kind``; a string does not count as a sequence."""
    if isinstance(values, (tuple, list)):  # nearly always true, and graphs have millions of them
        plain: tuple[_T, ...] = tuple(values)
        if not plain or set(map(type, plain)) == {kind}:
            return plain
    expected = f"{what} must be a sequence" + ("" if kind is object else f" of {kind.__name__}")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{expected}, not {type(values).__name__}")
    found = tuple(values)
    # Check the few distinct types, since there may be a million values.
    if not all(issubclass(one, kind) for one in set(map(type, found))):
        stray = next(value for value in found if not isinstance(value, kind))
        raise InputError(f"{expected}, but holds {type(stray).__name__}")
    return found


def name_of_file(path: str | PathLike[str]) -> str:
    """Name of a file without its suffix; bytes that are not valid Unicode become ``?``."""
    return Path(path).stem.encode("utf-8", "replace").decode()
