"""Reader of expressions: a tokenizer and precedence climbing; no text is executed.

Besides Python's integer arithmetic it reads forms that exporters write: ``floor(h/2 - 1/2) + 1``,
``Max(1, n)``, ``n**2``. Fractions are kept as numerator and denominator until they are rounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cpplan.model.errors import InputError
from cpplan.model.printable import printable, quote
from cpplan.model.shapes.building import ceildiv, dim_max, dim_min, variable
from cpplan.model.shapes.dim import Dim
from cpplan.model.shapes.writing import CALLS, IDENTIFIER, LITERAL

LONGEST, DEEPEST, HIGHEST_POWER = 4096, 60, 64
_TOKEN = re.compile(
    rf"(?P<number>[0-9]+(?![\w.]))|(?P<name>{IDENTIFIER.pattern})|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<operator>\*\*|//|[-+*/%(),])"
)
_SUMS, _PRODUCTS = ("+", "-"), ("*", "//", "/", "%")


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Ratio(NamedTuple):
    top: int | Dim
    bottom: int = 1


def parse_dim(text: str) -> int | Dim:
    """Expression of integers and variables, read from text.

    Operators are ``+ - * // %`` and ``**`` with an integer, calls ``max``, ``min``, ``ceildiv``,
    ``floordiv``, ``mod``, and ``floor`` and ``ceil`` of a fraction (``floor(h/2)``); all have
    Python's precedence. A variable is a word of letters, digits and ``_``, or any text between
    backquotes.

    Raises
    ------
    InputError
        If it cannot be read: names the text and the position, counted from 1. Also if it is longer
        than 4,096 characters, nested deeper than 60 levels, has an integer above 2**62, or has
        too many terms when expanded.
    """
    if not isinstance(text, str):
        raise InputError(f"a dimension must be text, not {quote(text)}")
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str):
        self.text = text
        self.place = f"dimension {printable(text)!r}"
        self.depth = self.next = 0
        if len(text) > LONGEST:
            raise InputError(f"{self.place}: {len(text)} characters: expected at most {LONGEST}")
        self.tokens = list(self._tokens())

    def parse(self) -> int | Dim:
        found = self._binary(_SUMS)
        if self._token.kind != "end":
            raise self._expected("an operator")
        return self._whole(found, self.tokens[0])

    def _tokens(self) -> Iterator[_Token]:
        at = 0
        while at < len(self.text):
            if self.text[at].isspace():
                at += 1
                continue
            match = _TOKEN.match(self.text, at)
            if match is None:
                found = quote(self.text[at])
                raise InputError(f"{self.place}: {found} is not understood at position {at + 1}")
            assert match.lastgroup is not None
            yield _Token(match.lastgroup, match.group(), at + 1)
            at = match.end()
        yield _Token("end", "", at + 1)

    @property
    def _token(self) -> _Token:
        return self.tokens[self.next]

    def _take(self, *texts: str) -> _Token | None:
        token = self._token
        if token.kind != "operator" or token.text not in texts:
            return None
        self.next += 1
        return token

    def _expected(self, what: str) -> InputError:
        token = self._token
        found = "the end" if token.kind == "end" else quote(printable(token.text))
        return InputError(f"{self.place}: expected {what}, not {found} at position {token.at}")

    def _binary(self, operators: tuple[str, ...]) -> _Ratio:
        operand = self._factor if operators == _PRODUCTS else self._product
        left = operand()
        while (token := self._take(*operators)) is not None:
            right = operand()
            left = self._guard(token, left, right)
        return left

    def _product(self) -> _Ratio:
        return self._binary(_PRODUCTS)

    def _guard(self, token: _Token, left: _Ratio, right: _Ratio) -> _Ratio:
        try:
            return self._combine(token, left, right)
        except InputError as error:
            if str(error).startswith(self.place):
                raise
            raise InputError(f"{self.place}: {error}, at position {token.at}") from error

    def _combine(self, token: _Token, left: _Ratio, right: _Ratio) -> _Ratio:
        (a, b), (c, d) = left, right
        if token.text in _SUMS:
            c = c if token.text == "+" else -c
            return _Ratio(a + c, b) if b == d else _Ratio(a * d + c * b, b * d)
        if token.text == "*":
            return _Ratio(a * c, b * d)
        if token.text == "/":
            if not isinstance(c, int) or d != 1 or c <= 0:
                raise InputError(
                    f"{self.place}: expected a positive integer after '/' at position {token.at}"
                )
            return _Ratio(a, b * c)
        return _Ratio(_OPERATIONS[token.text](self._whole(left, token), self._whole(right, token)))

    def _factor(self) -> _Ratio:
        negative = False
        while (sign := self._take(*_SUMS)) is not None:
            negative ^= sign.text == "-"
        found = self._value()
        if (token := self._take("**")) is not None:
            power = self._token
            if power.kind != "number" or len(power.text) > 2 or int(power.text) > HIGHEST_POWER:
                raise self._expected(f"an integer of at most {HIGHEST_POWER}")
            self.next += 1
            base, found = found, _Ratio(1)
            for _ in range(int(power.text)):
                found = self._guard(token._replace(text="*"), found, base)
        return _Ratio(-found.top, found.bottom) if negative else found

    def _value(self) -> _Ratio:
        token = self._token
        if token.kind in ("number", "name", "quoted"):
            self.next += 1
        if token.kind == "number":
            digits = token.text.lstrip("0")
            if len(digits) > len(str(LITERAL)) or int(digits or "0") > LITERAL:
                raise InputError(
                    f"{self.place}: expected integers of at most 2**62 at position {token.at}"
                )
            return _Ratio(int(digits or "0"))
        if token.kind == "quoted":
            return _Ratio(variable(token.text[1:-1].replace("``", "`")))
        if token.kind == "name":
            return self._call(token) if self._token.text == "(" else self._name(token)
        if self._take("(") is None:
            raise self._expected("a value")
        return self._nested(token)[0]

    def _name(self, token: _Token) -> _Ratio:
        dunder = token.text.startswith("__") and token.text.endswith("__")
        if token.text in CALLS or dunder:
            raise InputError(
                f"{self.place}: {token.text!r} is no variable at position {token.at}: "
                "expected backquotes around it"
            )
        return _Ratio(variable(token.text))

    def _nested(self, begin: _Token) -> list[_Ratio]:
        """Values up to a closing parenthesis; only one, unless a call begins."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise InputError(
                f"{self.place}: expected at most {DEEPEST} levels of parentheses "
                f"at position {begin.at}"
            )
        found = [self._binary(_SUMS)]
        while begin.kind == "name" and self._take(",") is not None:
            found.append(self._binary(_SUMS))
        if self._take(")") is None:
            raise self._expected("')'")
        self.depth -= 1
        return found

    def _call(self, token: _Token) -> _Ratio:
        kind = CALLS.get(token.text)
        if kind is None:
            raise InputError(
                f"{self.place}: there is no function {printable(token.text)!r} at position "
                f"{token.at}: expected max, min, floordiv, ceildiv, mod, floor or ceil"
            )
        self._take("(")
        found = self._nested(token)
        if kind in ("floor", "ceil"):
            if len(found) != 1:
                raise InputError(f"{self.place}: expected one value at position {token.at}")
            ((top, bottom),) = found
            return _Ratio(top // bottom if kind == "floor" else ceildiv(top, bottom))
        if len(found) < 2 or (len(found) > 2 and kind not in ("max", "min")):
            raise InputError(
                f"{self.place}: expected two values, not {len(found)}, at position {token.at}"
            )
        left = found[0]
        for right in found[1:]:
            left = self._guard(token._replace(text=kind), left, right)
        return left

    def _whole(self, value: _Ratio, token: _Token) -> int | Dim:
        if value.bottom != 1:
            raise InputError(
                f"{self.place}: a fraction at position {token.at}: expected floor or ceil around it"
            )
        return value.top


def _floordiv(a: int | Dim, b: int | Dim) -> int | Dim:
    return -ceildiv(-a, b)


def _mod(a: int | Dim, b: int | Dim) -> int | Dim:
    return a - b * _floordiv(a, b)


_OPERATIONS = {"//": _floordiv, "%": _mod, "max": dim_max, "min": dim_min, "ceildiv": ceildiv}
