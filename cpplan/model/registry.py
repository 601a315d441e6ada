"""Registries of functions that a user can name and add to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from cpplan.model.errors import InputError
from cpplan.model.names import not_understood

T = TypeVar("T")


class Registry(Generic[T]):
    """Functions of one kind by name, in the order in which they were registered.

    Parameters
    ----------
    kind
        Kind of function, for messages; with an article.
    wanted
        Noun for the expected name, for messages.
    """

    def __init__(self, kind: str, wanted: str):
        self._kind, self._wanted = kind, wanted
        self._functions: dict[str, T] = {}

    def add(self, name: str, function: T) -> None:
        """Register a function under ``name``.

        Raises
        ------
        InputError
            If the name is taken.
        """
        if name in self._functions:
            raise InputError(f"{self._kind} named {name!r} is already registered")
        self._functions[name] = function

    def register(self, name: str) -> Callable[[T], T]:
        """Register the decorated function under ``name``.

        Raises
        ------
        InputError
            If the name is taken.
        """

        def add(function: T) -> T:
            self.add(name, function)
            return function

        return add

    def remove(self, name: str) -> None:
        """Remove the function with this name.

        Raises
        ------
        InputError
            If no function has this name; lists the known names.
        """
        self.get(name)
        del self._functions[name]

    def get(self, name: str) -> T:
        """The function with this name.

        Raises
        ------
        InputError
            If no function has this name; lists the known names.
        """
        if not isinstance(name, str) or name not in self._functions:
            raise not_understood(f"{self._wanted} {name!r}", name, self._functions)
        return self._functions[name]

    def names(self) -> tuple[str, ...]:
        """All names, the built-in ones first."""
        return tuple(self._functions)


class Named(Protocol):
    """A registry, or a room's module that passes these functions of one on."""

    def get(self, name: str, /) -> object: ...

    def names(self) -> tuple[str, ...]: ...


def chosen_names(registry: Named, names: Iterable[str] | None) -> tuple[str, ...]:
    """These names, or all of a registry if ``None``."""
    if isinstance(names, str):
        raise InputError(f"algorithms must be a list of names, not {names!r}")
    chosen = tuple(registry.names() if names is None else names)
    for name in chosen:
        registry.get(name)
    return chosen
