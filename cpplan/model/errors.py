"""What can go wrong, one class per answer the caller has to give.

The command line turns each into an exit code; a library user catches the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cpplan.model.printable import MESSAGE, printable


class CpplanError(Exception):
    """Any failure cpplan foresees; its text is one line, however odd the names in it."""

    exit_code = 2

    def __str__(self) -> str:
        return printable(super().__str__(), MESSAGE)


class InputError(CpplanError, ValueError):
    """The input is unreadable or contradicts itself: names the thing and what was expected."""


class MissingExtraError(CpplanError, ImportError):
    """An optional package is needed: names the extra that brings it."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(
            f"{purpose} needs the package {package!r}: pip install 'cpplan[{extra}]'", name=package
        )


class InfeasibleError(CpplanError):
    """It does not fit: says by how many bytes, and which tensors at which step."""

    exit_code = 3


class VerificationError(CpplanError, AssertionError):
    """A plan breaks a rule it promised to keep: names the tensors and the step."""

    exit_code = 4


@contextmanager
def located(place: object) -> Iterator[None]:
    """Say in front of an :class:`InputError` where it is: in which file, entry or option.

    Examples
    --------
    >>> with located("model.json"):
    ...     raise InputError("no ops: expected at least one")
    Traceback (most recent call last):
    cpplan.model.errors.InputError: model.json: no ops: expected at least one
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
