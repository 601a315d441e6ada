"""One random case: the Python that makes it, and what is false about what cpplan answers to it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from cpplan import Graph, Op, Placement, Pool, Problem, Tensor
from cpplan.model.problem import Gap

_INDENT = "    "


class Case(NamedTuple):
    """A case of some mode.

    Attributes
    ----------
    lines
        Python statements that make the case and call cpplan.
    false
        A function that does the same, and returns the assertions that fail, as Python.
    """

    lines: tuple[str, ...]
    false: Callable[[], list[str]]


Mode = Callable[[random.Random], Case]


def python_of(value: object) -> str:
    """A Python expression that makes the value: graphs, problems and all they consist of.

    Examples
    --------
    >>> python_of(Tensor("v", 0, view_of=("t", 1)))
    "Tensor('v', 0, view_of=('t', 1))"
    """
    if isinstance(value, Problem):
        return _call(Problem, _fields_of(value), positional=4)
    if isinstance(value, (Tensor, Op, Graph, Pool)):
        positional = {Tensor: 2, Op: 2, Graph: 3, Pool: 2}[type(value)]
        return _call(type(value), _fields_of(value), positional)
    if isinstance(value, (Gap, Placement)):
        return f"{type(value).__name__}({', '.join(map(python_of, value))})"
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(python_of, value))
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {python_of(v)}" for k, v in value.items()) + "}"
    return repr(value)


def as_test(name: str, case: Case, false: Iterable[str]) -> str:
    """A test function of the case, to be pasted into a file of tests."""
    lines = [f"def test_{name}() -> None:", *(_INDENT + line for line in case.lines)]
    return "\n".join([*lines, *(_INDENT + line for line in false)])


def _fields_of(value: Any) -> dict[str, tuple[object, object]]:
    """Fields with their defaults."""
    assert is_dataclass(value)
    found = {}
    for field in fields(value):
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        found[field.name] = getattr(value, field.name), default
    return found


def _call(kind: type, given: dict[str, tuple[object, object]], positional: int) -> str:
    parts = []
    for number, (name, (value, default)) in enumerate(given.items()):
        if isinstance(value, np.ndarray) and default is None and (value == 1).all():
            continue  # alignments, reads and writes of one
        text = python_of(value)
        if number < positional:
            parts.append(text)
        elif name not in ("answers", "symbols") and text != python_of(default):
            parts.append(f"{name}={text}")
    return f"{kind.__name__}({', '.join(parts)})"
