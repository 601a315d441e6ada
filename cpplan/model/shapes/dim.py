"""Dimensions whose size is only known at run time: expressions of named variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import add, floordiv, index, mod, mul

from cpplan.model.errors import InputError
from cpplan.model.shapes import terms, writing
from cpplan.model.shapes import terms as atoms
from cpplan.model.shapes.terms import Atom, Terms
from cpplan.model.shapes.values import Range, read_value


class Dim:
    """An immutable integer expression with at least one variable.

    Made by :func:`variable` and :func:`~cpplan.model.shapes.parse_dim`, and with ``+``, ``-``,
    ``*``,
    ``//`` and ``%`` (rounding down, as Python's); a result without variables is an ``int``.
    Expressions are equal if they have the same canonical form: polynomials with integer
    coefficients over variables, floor divisions and maxima. Terms that cancel are not computed:
    ``0*(1//n)`` is 0, also for n = 0.

    Attributes
    ----------
    terms
        The canonical form.
    variables
        Names, sorted.
    """

    __slots__ = ("_postfix", "_text", "terms", "variables")
    terms: Terms
    variables: tuple[str, ...]
    _postfix: tuple[int | str, ...] | None
    _text: str | None

    def __init__(self, terms: Terms):
        parts = (part for monomial, _ in terms for atom in monomial for part in _atoms(atom))
        names = sorted({part.name for part in parts if part.kind == "variable"})
        if not names:
            raise InputError("an expression without a variable is an integer")
        for field, value in (
            ("terms", terms), ("variables", tuple(names)), ("_text", None), ("_postfix", None),
        ):  # fmt: skip
            object.__setattr__(self, field, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Dim cannot be changed: {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Dim cannot be changed: {name}")

    def __reduce__(self) -> tuple[type[Dim], tuple[Terms]]:
        return Dim, (self.terms,)

    @property
    def postfix(self) -> tuple[int | str, ...]:
        """Postfix form: integers, variables (in backquotes unless identifiers) and operators.

        Operators are ``+ * // % max`` and take two operands.
        """
        if self._postfix is None:
            object.__setattr__(self, "_postfix", writing.postfix(self.terms))
        assert self._postfix is not None
        return self._postfix

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Value of the expression, an integer of any size; values of other variables are ignored.

        Raises
        ------
        InputError
            If a variable has no value, or a value that is not an integer, or if a divisor is zero.
        """
        known = {writing.write_name(name): read_value(name, values) for name in self.variables}
        stack: list[int] = []
        for word in self.postfix:
            if isinstance(word, int):
                stack.append(word)
            elif word in known:
                stack.append(known[word])
            else:
                right = stack.pop()
                if right == 0 and word in ("//", "%"):
                    raise self._no_divisor(values)
                stack[-1] = _OPERATORS[word](stack[-1], right)
        return stack[0]

    def bounds(self, ranges: Mapping[str, Range]) -> Range:
        """Interval that contains every value; interval arithmetic after Moore (1966).

        It is exact if each variable occurs once, or if the polynomial is monotone in every
        variable.

        Parameters
        ----------
        ranges
            Ranges of the variables.

        Raises
        ------
        InputError
            If a variable has no range, or an empty range, or if a divisor may be zero.
        """
        from cpplan.model.shapes.bounding import bound

        return Range(*bound(self.terms, ranges))

    def _no_divisor(self, values: Mapping[str, int]) -> InputError:
        """Error that names the divisor that is zero: the first whose own divisors are not."""
        found = [
            atom
            for monomial, _ in self.terms
            for outer in monomial
            for atom in _atoms(outer)
            if atom.kind == "floordiv"
        ]
        for atom in sorted(found, key=lambda atom: (atom.depth, atom)):
            divisor = of_terms(atom.args[1])
            if not isinstance(divisor, int) and divisor.evaluate(values) == 0:
                at = ", ".join(f"{name} = {values[name]}" for name in divisor.variables)
                return InputError(f"{self}: division by zero: the divisor {divisor} is 0 at {at}")
        raise AssertionError("no divisor is zero")

    def __add__(self, other: int | Dim) -> int | Dim:
        return _binary(terms.add, self, other)

    def __radd__(self, other: int) -> int | Dim:
        return _binary(terms.add, other, self)

    def __sub__(self, other: int | Dim) -> int | Dim:
        return _binary(_subtract, self, other)

    def __rsub__(self, other: int) -> int | Dim:
        return _binary(_subtract, other, self)

    def __mul__(self, other: int | Dim) -> int | Dim:
        return _binary(terms.multiply, self, other)

    def __rmul__(self, other: int) -> int | Dim:
        return _binary(terms.multiply, other, self)

    def __floordiv__(self, other: int | Dim) -> int | Dim:
        return _binary(atoms.floordiv, self, other)

    def __rfloordiv__(self, other: int) -> int | Dim:
        return _binary(atoms.floordiv, other, self)

    def __mod__(self, other: int | Dim) -> int | Dim:
        return _binary(atoms.remainder, self, other)

    def __rmod__(self, other: int) -> int | Dim:
        return _binary(atoms.remainder, other, self)

    def __neg__(self) -> Dim:
        return Dim(terms.scale(self.terms, -1))

    def __pos__(self) -> Dim:
        return self

    def __eq__(self, other: object) -> bool:
        return self.terms == other.terms if isinstance(other, Dim) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.terms)

    def __str__(self) -> str:
        if self._text is None:
            object.__setattr__(self, "_text", writing.write(self.terms))
        assert self._text is not None
        return self._text

    def __repr__(self) -> str:
        return f"parse_dim({str(self)!r})"


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": add, "*": mul, "//": floordiv, "%": mod, "max": max,
}  # fmt: skip


def of_terms(found: Terms) -> int | Dim:
    """The expression of a canonical polynomial."""
    value = terms.as_constant(found)
    return Dim(found) if value is None else value


def terms_of(value: int | Dim) -> Terms:
    """The canonical polynomial of an expression."""
    return value.terms if isinstance(value, Dim) else terms.constant(index(value))


def _binary(
    operation: Callable[[Terms, Terms], Terms], left: int | Dim, right: int | Dim
) -> int | Dim:
    try:
        sides = terms_of(left), terms_of(right)
    except TypeError:
        return NotImplemented  # type: ignore[no-any-return]
    return of_terms(operation(*sides))


def _subtract(left: Terms, right: Terms) -> Terms:
    return terms.add(left, right, -1)


def _atoms(atom: Atom) -> Iterator[Atom]:
    """An atom and all atoms within it."""
    yield atom
    for arg in atom.args:
        for monomial, _ in arg:
            for inner in monomial:
                yield from _atoms(inner)
