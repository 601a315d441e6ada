"""One setting of a batch: keywords of ``cpplan.solve`` under a name, checked before any model."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph, Op
from cpplan.model.names import check_name, tuple_of
from cpplan.model.pool import Pool
from cpplan.model.tensor import Tensor
from cpplan.runtime.search_options import check_search_options
from cpplan.solving.pipeline import solve
from cpplan.solving.shares import is_share

KEYWORDS = tuple(
    name for name in inspect.signature(solve).parameters if name not in ("source", "progress")
)
# What may be a share of the bytes that the given order keeps live at once.
_LIMITS = ("memory_limit", "capacity")
# Names of ops that only the model has.
_OF_MODELS = ("first", "last")


@dataclass(frozen=True)
class Setting:
    """How every model is planned.

    Attributes
    ----------
    name
        What its rows are called.
    options
        Keywords of :func:`cpplan.solve` but ``progress``. One worker if ``workers`` is left out.
        ``memory_limit`` and ``capacity`` may be shares (``"60%"``) of the bytes that the model has
        live at once in its given order with nothing shared. ``pools`` may be mappings.

    Raises
    ------
    InputError
        If a keyword is unknown, or ``solve`` does not understand its value.

    Examples
    --------
    >>> Setting("searched", {"order": "search", "time_limit": 5}).threads
    1
    >>> Setting("searched", {"ordre": "search"})
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: setting 'searched': unknown key 'ordre': expected 'order'
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("a setting's name", self.name)
        with located(f"setting {self.name!r}"):
            object.__setattr__(self, "options", _checked(self.options))

    @property
    def threads(self) -> int:
        return int(self.options["workers"])

    @property
    def plain(self) -> dict[str, Any]:
        """The options as JSON-ready values."""
        values = dict(self.options)
        if values.get("pools") is not None:
            values["pools"] = [asdict(pool) for pool in values["pools"]]
        return {key: list(v) if isinstance(v, tuple) else v for key, v in sorted(values.items())}


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        raise InputError(f"keywords must be a mapping, not {options!r}")
    values = dict(options)
    for key in values:
        check_key(key, KEYWORDS)
    if values.get("workers") is None:
        values["workers"] = 1
    for key in _OF_MODELS:
        if key in values:
            values[key] = tuple_of(str, key, values[key])
    if values.get("pools") is not None:
        values["pools"] = tuple(map(_pool, values["pools"]))
    for key in _LIMITS:
        if values.get(key) is not None and not is_share(values[key]):
            values[key] = parse_bytes(values[key])
    check_search_options(
        values.get("time_limit", 60.0), values["workers"], values.get("seed", 0),
        deterministic=values.get("deterministic", False),
    )  # fmt: skip
    _try(values)
    return values


def check_key(key: str, known: Iterable[str]) -> None:
    """Refuse a key that is not known, with those that are spelt like it, or else all."""
    from difflib import get_close_matches

    known = tuple(known)
    if key in known:
        return
    close = get_close_matches(str(key), known, n=3)
    expected = " or ".join(map(repr, close)) if close else f"one of {', '.join(known)}"
    raise InputError(f"unknown key {key!r}: expected {expected}")


def _pool(given: object) -> Pool:
    if isinstance(given, Pool):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"a pool must be a table or a Pool, not {given!r}")
    for key in given:
        check_key(key, [known.name for known in fields(Pool)])
    return Pool(**given)


def _try(values: Mapping[str, Any]) -> None:
    """Let ``solve`` judge every value, on a model of one op, which takes no time."""
    options = {key: value for key, value in values.items() if key not in _OF_MODELS}
    options |= {key: 1 for key in _LIMITS if options.get(key) is not None}
    tensors = (Tensor("x", size=1, kind="input"), Tensor("y", size=1, kind="output"))
    solve(Graph("one op", tensors, (Op("op", inputs=("x",), outputs=("y",)),)), **options)
