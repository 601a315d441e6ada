"""Polynomials over atoms: variables, and quotients and maxima, which cannot be expanded.

Equal polynomials have one form, so equality is a comparison. Monomials are in graded
lexicographic order, which products keep, so that division by the leading monomial ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
from typing import TypeAlias

from cpplan.model.errors import InputError

# Largest expression: words of its text, and depth that recursion can handle.
MOST_WORDS, DEEPEST = 20_000, 60


@dataclass(frozen=True, slots=True, order=True)
class Atom:
    """Factor that a polynomial does not expand: a variable, a quotient, a remainder or a maximum.

    Attributes
    ----------
    key
        Text that only equal atoms share.
    kind
        ``variable``, ``floordiv``, ``mod`` or ``max``.
    name
        Name of a variable.
    args
        Arguments of the other kinds, polynomials.
    words, depth
        Words of the atom's text, and depth of the atoms within it.
    """

    key: str
    kind: str = field(compare=False)
    name: str = field(compare=False, default="")
    args: tuple[Terms, ...] = field(compare=False, default=())
    words: int = field(compare=False, default=1)
    depth: int = field(compare=False, default=0)


Monomial: TypeAlias = tuple[Atom, ...]
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]
Sum: TypeAlias = Mapping[Monomial, int | Fraction]


def apply(kind: str, args: tuple[Terms, ...]) -> Atom:
    """The atom of an operator and its arguments."""
    # No variable's key begins with "~".
    key = f"~{kind}({','.join(_key(arg) for arg in args)})"
    inner = [atom for arg in args for monomial, _ in arg for atom in monomial]
    words = sum(atom.words for atom in inner) + sum(map(len, args)) + 1
    depth = max((atom.depth for atom in inner), default=0) + 1
    if depth > DEEPEST:
        raise InputError(f"an expression is nested too deeply: expected at most {DEEPEST} levels")
    return Atom(key, kind, args=args, words=words, depth=depth)


def canonical(terms: Mapping[Monomial, int]) -> Terms:
    """Canonical form: no term is zero, the leading monomial is first and the constant last.

    Raises
    ------
    InputError
        If the expression is too large.
    """
    found = [(monomial, c) for monomial, c in terms.items() if c]
    words = len(found) + sum(atom.words for monomial, _ in found for atom in monomial)
    if words > MOST_WORDS:
        raise InputError(f"an expression has {words} words: expected at most {MOST_WORDS}")
    return tuple(sorted(found, key=_order))


def constant(value: int) -> Terms:
    """The polynomial of one number."""
    return (((), value),) if value else ()


def as_constant(terms: Terms) -> int | None:
    """Value of a polynomial without variables, or ``None`` if it has variables."""
    if not terms:
        return 0
    return terms[0][1] if not terms[0][0] else None


def add(left: Terms, right: Terms, factor: int = 1) -> Terms:
    """``left + factor * right``."""
    total = dict(left)
    for monomial, c in right:
        total[monomial] = total.get(monomial, 0) + factor * c
    return canonical(total)


def scale(terms: Terms, factor: int) -> Terms:
    """``factor * terms``."""
    return tuple((monomial, c * factor) for monomial, c in terms) if factor else ()


def multiply(left: Terms, right: Terms) -> Terms:
    """``left * right``.

    Raises
    ------
    InputError
        If the product has too many terms.
    """
    if len(left) * len(right) > MOST_WORDS:
        raise InputError(f"a product has {len(left)} times {len(right)} terms: too many")
    total: dict[Monomial, int] = {}
    for a, x in left:
        for b, y in right:
            monomial = tuple(sorted(a + b))
            total[monomial] = total.get(monomial, 0) + x * y
    return canonical(total)


def content(terms: Iterable[tuple[Monomial, int]]) -> int:
    """The greatest common divisor of the coefficients."""
    return gcd(*(c for _, c in terms))


def divide(monomial: Monomial, by: Monomial) -> Monomial | None:
    """Quotient ``monomial / by``, or ``None`` if ``by`` does not divide it."""
    rest = list(monomial)
    for atom in by:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def exact_quotient(terms: Terms, by: Terms) -> Terms | None:
    """Quotient ``terms / by``, or ``None`` if it is not a polynomial with integer coefficients."""
    quotient: dict[Monomial, int] = {}
    while terms:
        (monomial, c), (lead, d) = terms[0], by[0]
        factor = divide(monomial, lead)
        if factor is None or c % d:
            return None
        quotient[factor] = c // d
        terms = add(terms, multiply(((factor, c // d),), by), -1)
    return canonical(quotient)


def _order(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    return -len(term[0]), term[0]


def _key(terms: Terms) -> str:
    return "+".join(f"{c}*{'*'.join(a.key for a in m)}" if m else str(c) for m, c in terms) or "0"
