"""Errors, one class for each reaction expected of the caller.

The command line turns each into an exit code; a library user catches the class.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cpplan.model.printable import MESSAGE, printable


class CpplanError(Exception):
    """Base class of all foreseen failures; its text is one line, even if names hold line ends."""

    exit_code = 2

    def __str__(self) -> str:
        return printable(super().__str__(), MESSAGE)


class InputError(CpplanError, ValueError):
    """Error for unreadable or contradictory input; names the thing and what was expected."""


class OptionError(InputError):
    """Error for options of a request; the command line says it in flags."""


class MissingExtraError(CpplanError, ImportError):
    """Error for a missing optional package; names the extra that installs it."""

    def __init__(self, package: str, extra: str, purpose: str):
        install = f"pip install '.[{extra}]' in a clone of cpplan"
        super().__init__(f"{purpose} needs the package {package!r}: {install}", name=package)


class InfeasibleError(CpplanError):
    """Error if no plan fits; says by how many bytes, and which tensors at which step."""

    exit_code = 3


class NotFoundError(CpplanError):
    """Error if no plan that fits was found in time, though one may exist; says what was found."""

    exit_code = 3


def error_without_plan(status: str, message: str) -> InfeasibleError | NotFoundError:
    """The error for a search without a plan: proved infeasible, or none was found in time."""
    return InfeasibleError(message) if status == "infeasible" else NotFoundError(message)


class VerificationError(CpplanError, AssertionError):
    """Error for a plan that breaks a rule; names the tensors and the step."""

    exit_code = 4


class DefectWarning(UserWarning):
    """Warning of a defect of a planner or a heuristic; the run went on with other plans."""


def warn_of_defect(text: str) -> None:
    """Warn of a defect in one line; call it where the error is handled.

    So where warnings are errors, as in tests, the traceback shows where the defect is.
    """
    warnings.warn(printable(text, MESSAGE), DefectWarning, stacklevel=3)


def first_line(error: BaseException) -> str:
    """The first line of a foreign error's text, or its class if it has none."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


@contextmanager
def located(place: object) -> Iterator[None]:
    """Prefix an :class:`InputError` with its place: the file, entry or option.

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
