"""One setting of a batch: keywords of ``cpplan.solve`` under a name, checked before any model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

from cpplan.model.errors import InputError, located
from cpplan.model.names import check_key, check_name
from cpplan.model.pool import Pool
from cpplan.solving.request import Request, make_request

# Options whose values are kept as the request reads them: limits in bytes, names as tuples.
_READ = ("memory_limit", "capacity", "first", "last")


@dataclass(frozen=True)
class Setting:
    """Keywords of ``cpplan.solve`` under a name.

    Attributes
    ----------
    name
        Name of the setting in its rows.
    options
        Keywords of :func:`cpplan.solve` except ``progress``. One worker if ``workers`` is left out.
        ``memory_limit`` and ``capacity`` may be shares (``"60%"``) of the most bytes live at a step
        of the model's given order, without sharing. ``pools`` may be mappings.

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
    def request(self) -> Request:
        """The options with all that they leave out."""
        return make_request(self.options)

    @property
    def threads(self) -> int:
        return int(self.options["workers"])

    @property
    def plain(self) -> dict[str, Any]:
        """The options as values that JSON can hold."""
        values = dict(self.options)
        if values.get("pools") is not None:
            values["pools"] = [asdict(pool) for pool in values["pools"]]
        return {key: list(v) if isinstance(v, tuple) else v for key, v in sorted(values.items())}


def setting_name(options: Mapping[str, Any]) -> str:
    """A name made from the options, for a setting without a name."""
    return ", ".join(f"{key}={_in_words(value)}" for key, value in options.items())


def _in_words(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "+".join(str(getattr(part, "name", part)) for part in value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        raise InputError(f"keywords must be a mapping, not {options!r}")
    values = dict(options)
    if values.get("workers") is None:
        values["workers"] = 1
    if values.get("pools") is not None:
        if not isinstance(values["pools"], (list, tuple)):
            raise InputError(f"pools must be a list, not {values['pools']!r}")
        values["pools"] = tuple(map(_pool, values["pools"]))
    request = make_request(values)
    if values.get("tuning") is not None:
        values["tuning"] = {
            room: asdict(given) if is_dataclass(given) and not isinstance(given, type) else given
            for room, given in values["tuning"].items()
        }
    return {key: getattr(request, key) if key in _READ else values[key] for key in values}


def _pool(given: object) -> Pool:
    if isinstance(given, Pool):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"a pool must be a table or a Pool, not {given!r}")
    for key in given:
        check_key(key, [known.name for known in fields(Pool)])
    return Pool(**given)
