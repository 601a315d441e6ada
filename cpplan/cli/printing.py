"""Output shared by all commands: plans, and errors that name the files concerned."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import CpplanError, InputError, MissingExtraError, OptionError
from cpplan.model.printable import MESSAGE, printable
from cpplan.runtime.streams import write_to

if TYPE_CHECKING:
    from cpplan.model.plan import Plan


def arena_notes(
    model: str,
    result: Plan,
    dims: Mapping[str, int],
    stated: Container[str],
    kernels: str | None = None,
    *,
    limit: int | str | None = None,
) -> dict[str, str]:
    """Note on TFLite Micro's arena for a plan of a TFLite model, or on why it cannot follow it.

    Other models, and plans without offsets, get no note. ``limit`` is that on the arena, if any.
    """
    if not model.lower().endswith(".tflite") or result.offset is None:
        return {}
    from cpplan.io.tflite import micro_arena

    try:
        arena = str(micro_arena(model, result, dims, stated=stated, kernels=kernels))
        if isinstance(limit, int):
            arena += f"; the limit is {format_bytes(limit)}"
    except InputError as error:
        arena = f"none: {str(error).removeprefix(f'{model}: ')}"
    return {"micro arena": arena}


def describe(result: Plan, notes: Mapping[str, str] | None = None) -> str:
    """Text of a plan: its summary, the notes, and a map of the arena if it is small."""
    from cpplan.report.arena_text import format_arena

    text = f"{result}\n"
    for name, note in (notes or {}).items():
        text += f"{name:<12} {printable(note, MESSAGE)}\n"
    if result.symbols is not None:
        from cpplan.report.symbols_text import format_symbols

        text += format_symbols(result)
    arena = format_arena(result)
    return text if arena is None else f"{text}\n{arena}\n"


def describe_suggestions(result: Plan) -> str:
    """Lines of what a plan of fewer bytes needs; empty if nothing was found."""
    from cpplan.solving.request import OPTIONS

    lines = []
    for number, one in enumerate(result.suggestions):
        flags = (OPTIONS[name].flag(value) for name, value in one.options.items())
        saved = f"{format_bytes(one.lacking)} above the limit" if one.lacking else "fits"
        if result.peak is not None:
            saved = f"{one.peak / result.peak - 1:.1%}"
        head = "" if number else "smaller"
        lines.append(f"{head:<12} {' '.join(flags)}: {format_bytes(one.peak)} ({saved})\n")
    return "".join(lines)


def in_flags(text: str) -> str:
    """A message of options as the command line has them: ``remat=True`` is ``--remat``.

    Names of ops and values stand in quotes, and stay.

    Examples
    --------
    >>> in_flags("cost_limit limits what runs again: it needs remat=True or order='search'")
    '--cost-limit limits what runs again: it needs --remat or --order search'
    """
    from cpplan.solving.request import OPTIONS

    def flag(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name not in OPTIONS or (value is None and "_" not in name):
            return found[0]
        if value is None:
            return OPTIONS[name].names.partition("/")[0]
        return OPTIONS[name].flag(True if value == "True" else value.strip("'"))

    return re.sub(
        r"(?<![\w'\"./-])([a-z]+(?:_[a-z]+)*)(?:=(True|'[^']*'|[\d.]*\d))?(?![\w'\"=/-])",
        flag,
        text,
    )


@contextmanager
def naming(*paths: str) -> Iterator[None]:
    """Prefix errors with the files concerned, each named once."""
    where = printable(", ".join(paths), MESSAGE)
    try:
        yield
    except MissingExtraError:
        raise
    except CpplanError as error:
        text, kind = str(error), type(error)
        if isinstance(error, OptionError):
            text, kind = in_flags(text), InputError
        for path in paths:
            text = text.removeprefix(f"{printable(path, MESSAGE)}: ")
        raise kind(f"{where}: {text}") from error


def print_out(text: str) -> None:
    reason = write_to(sys.stdout, text)
    if reason is not None:
        raise InputError(f"cannot write to standard output: {reason}")
