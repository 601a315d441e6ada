"""Options: the command line's name and values for a field of a request."""

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
        Names in the form of ``click``: ``--order``, ``--in-place/--no-in-place``.
    help
        Help text of one or two sentences.
    kind
        Kind of its value: ``"choice"`` of ``choices``, ``"switch"`` on or off, ``"flag"`` on if
        given, ``"integer"`` within ``between``, ``"number"``, positive ``"seconds"``, or
        ``"text"``.
    metavar
        Placeholder of the value in the help.
    choices
        Allowed values.
    between
        Least and largest value.
    many
        True if the option may be given several times.
    read
        Function from the text to the value; with ``many``, from a tuple of texts.
    """

    names: str
    help: str
    kind: Kind
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    between: tuple[int, int] | None = None
    many: bool = False
    read: Callable[[Any], Any] | None = None

    def flag(self, value: Any) -> str:
        """The option with a value, as on a command line."""
        name = self.names.partition("/")[0]
        return name if value is True else f"{name} {value}"


def option_field(default: Any, names: str, help: str, kind: Kind, **values: Any) -> Any:
    """A field of a dataclass with its entry in the table of options."""
    return field(default=default, metadata={"option": Option(names, help, kind, **values)})
