"""Methods of data whose work is done by functions of rooms above.

Graphs, programs and plans are data; rooms above read, write, bind and explain them. The few methods
that users call on the data itself are named by the package's face (``cpplan/__init__.py``), as all
public functions are: this module knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

_PLACES: dict[str, str] = {}


def offer(places: Mapping[str, str]) -> None:
    """Say which function, ``"module:function"``, does the work of each method."""
    _PLACES.update(places)


@cache
def method(name: str) -> Callable[..., Any]:
    """The function that does the work of a method, imported if necessary."""
    return find_function(_PLACES[name])


def find_function(place: str) -> Callable[..., Any]:
    """The function that ``"module:function"`` names, imported if necessary."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
