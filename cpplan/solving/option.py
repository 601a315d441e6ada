"""Options: how the command line calls a field of a request, and which values it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["text", "choice", "switch", "flag", "integer", "number", "seconds"]


@dataclass(frozen=True, slots=True)
class Option:
    """A field of :class:`~cpplan.solving.request.Request` as an option of the command line.

    Attributes
    ----------
    names
        As ``click`` takes them: ``--order``, ``--in-place/--no-in-place``.
    help
        One sentence or two.
    kind
        Of its value: ``"choice"`` of ``choices``, ``"switch"`` on or off, ``"flag"`` on if given,
        ``"integer"`` within ``between``, ``"number"``, positive ``"seconds"``, or ``"text"``.
    metavar
        For its value in the help.
    choices
        The values it may have.
    between
        Its least and its largest value.
    many
        True if it may be given several times.
    read
        Makes its value from the text, or from all texts of one that may be given several times.
    """

    names: str
    help: str
    kind: Kind
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    between: tuple[int, int] | None = None
    many: bool = False
    read: Callable[[Any], Any] | None = None


def option_field(default: Any, names: str, help: str, kind: Kind, **values: Any) -> Any:
    """A field of a dataclass with its entry in the table of options."""
    return field(default=default, metadata={"option": Option(names, help, kind, **values)})
