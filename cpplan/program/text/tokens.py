"""The tokens of a Program's text, line by line.

The grammar is in ``cpplan.program.text.printer``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

from cpplan.model.errors import InputError

_TOKEN = re.compile(r'%?"(?:[^"\\]|\\.)*"|%[A-Za-z0-9_./:~-]+|[A-Za-z0-9_./:~+-]+|[()\[\]{},=]|\S')
_MARKS = frozenset("()[]{},=:")
_BYTES = re.compile(r"[0-9]{1,1000}")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?")
_T = TypeVar("_T")


class Line:
    """The tokens of one line, read from left to right."""

    def __init__(self, number: int, tokens: list[str]):
        self.number, self.tokens, self.at = number, tokens, 0

    @property
    def ahead(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def fail(self, expected: str) -> NoReturn:
        found = "the line ends" if self.ahead is None else f"found {self.ahead!r}"
        raise InputError(f"line {self.number}: expected {expected}, but {found}")

    def take(self, token: str) -> bool:
        found = self.ahead == token
        self.at += found
        return found

    def expect(self, token: str) -> None:
        if not self.take(token):
            self.fail(f"{token!r}")

    def end(self) -> None:
        if self.ahead is not None:
            self.fail("the end of the line")

    def word(self, what: str) -> str:
        token = self.ahead
        if token is None or token.startswith("%") or token in _MARKS:
            self.fail(what)
        self.at += 1
        return self._unquoted(token, what)

    def tensor(self) -> str:
        token = self.ahead
        if token is None or not token.startswith("%") or token == "%":
            self.fail("a tensor, %name")
        self.at += 1
        return self._unquoted(token[1:], "a tensor, %name")

    def is_bytes(self) -> bool:
        return self.ahead is not None and _BYTES.fullmatch(self.ahead) is not None

    def bytes(self, what: str) -> int:
        if not self.is_bytes():
            self.fail(f"{what}, a non-negative integer")
        self.at += 1
        return int(self.tokens[self.at - 1])

    def quantity(self, what: str) -> int | float:
        token = self.ahead or ""
        if not _NUMBER.fullmatch(token):
            self.fail(f"{what}, a number")
        self.at += 1
        return int(token) if _BYTES.fullmatch(token) else float(token)

    def several(self, item: Callable[[], _T]) -> list[_T]:
        items = [item()]
        while self.take(","):
            items.append(item())
        return items

    def checked(self, make: Callable[[], _T]) -> _T:
        """Call ``make`` and return its result, with the line's number added to any error."""
        try:
            return make()
        except InputError as error:
            raise InputError(f"line {self.number}: {error}") from error

    def _unquoted(self, token: str, what: str) -> str:
        if not token.startswith('"'):
            return token
        try:
            return str(json.loads(token))
        except ValueError:
            self.at -= 1
            self.fail(f"{what} as a JSON string")


class Lines:
    """The lines of a text that have tokens; ``next`` raises an ``InputError`` after the last."""

    def __init__(self, text: str):
        self.lines = self._read(text)
        self.ahead = next(self.lines, None)
        self.last = 1 + text.count("\n")

    def peek(self) -> Line | None:
        return self.ahead

    def next(self, expected: str) -> Line:
        line = self.ahead
        if line is None:
            raise InputError(f"line {self.last}: expected {expected}, but the text ends")
        self.ahead = next(self.lines, None)
        return line

    @staticmethod
    def _read(text: str) -> Iterator[Line]:
        for number, line in enumerate(text.split("\n"), 1):
            tokens = _TOKEN.findall(line)
            if "#" in tokens:
                del tokens[tokens.index("#") :]
            if tokens:
                yield Line(number, tokens)
