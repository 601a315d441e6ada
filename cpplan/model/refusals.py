"""Combinations that are refused, as data: tables of them are checked, tested and documented."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cpplan.model.errors import InputError


@dataclass(frozen=True, slots=True)
class Refusal:
    """A combination of options, or of an option and a kind of model, that is refused.

    Attributes
    ----------
    options
        Words for what cannot be combined, at least two; the message has each.
    message
        One line; ``{}`` stands for the name of something in it.
    when
        True for a combination that is refused; called with what was asked for.
    name
        The name for ``{}``, called like ``when``.
    """

    options: tuple[str, ...]
    message: str
    when: Callable[..., bool]
    name: Callable[..., object] | None = None


def refuse(rules: Iterable[Refusal], *asked: Any) -> None:
    """Raise if a combination that was asked for is refused by one of the rules."""
    for rule in rules:
        if rule.when(*asked):
            name = "" if rule.name is None else rule.name(*asked)
            raise InputError(rule.message.format(name))
