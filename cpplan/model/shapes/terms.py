"""Polynomials over atoms: variables, and quotients and maxima, which cannot be expanded.

Equal polynomials have one form, so equality is a comparison. Monomials are in graded
lexicographic order, which products keep, so that division by the leading monomial ends.

Canonical forms of floor divisions and maxima.

All other operators are expressed by floor divisions and maxima: ``a % b = a - b*(a//b)``,
``ceildiv(a, b) = -((-a)//b)`` and ``min(a, b) = -max(-a, -b)``, so that ``n + (-n) % 8`` and
``8*ceildiv(n, 8)`` are one expression.
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
    """Canonical form: no term is zero, the leading monomial is first and the constant last."""
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
    """``left * right``."""
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


def floordiv(p: Terms, d: Terms) -> Terms:
    """``p // d``, rounded down as Python does.

    Raises
    ------
    InputError
        If ``d`` is zero.
    """
    if not d:
        raise InputError("division by zero: the divisor is 0")
    if d[0][1] < 0:
        p, d = scale(p, -1), scale(d, -1)
    c = as_constant(d)
    if c is None:
        return _by_variable(p, d)
    if c == 1 or not p:
        return p
    p, c = _merge(p, c)
    whole, rest = split(p, d=constant(c))
    moving = [term for term in rest if term[0]]
    left = sum(k for monomial, k in rest if not monomial)
    # floor(x / (g*c)) = floor(floor(x / g) / c)
    common = gcd(c, *(k for _, k in moving))
    c, left = c // common, left // common
    whole = add(whole, constant(left // c))
    left %= c
    if not moving or c == 1:
        return add(whole, canonical({monomial: k // common for monomial, k in moving}))
    inner = canonical({monomial: k // common for monomial, k in moving} | {(): left})
    if inner[0][1] > 0:
        return add(whole, _single(apply("floordiv", (inner, constant(c)))))
    # floor(-x / c) = -floor((x + c - 1) / c)
    upper = add(scale(inner, -1), constant(c - 1))
    return add(whole, _single(apply("floordiv", (upper, constant(c)))), -1)


def maximum(args: list[Terms]) -> Terms:
    """Canonical form of the largest of some polynomials."""
    # If two differ by a constant, one of them is never the largest.
    most: dict[Terms, int] = {}
    for arg in args:
        for terms in _branches(arg):
            moving = tuple(term for term in terms if term[0])
            left = sum(k for monomial, k in terms if not monomial)
            most[moving] = max(most.get(moving, left), left)
    if len(most) == 1:
        return _with(*most.popitem())
    shared = dict(next(iter(most)))
    for moving in most:
        coefficients = dict(moving)
        shared = {m: k for m, k in shared.items() if coefficients.get(m) == k}
    common = canonical(shared)
    rest = sorted((add(moving, common, -1), left) for moving, left in most.items())
    # Keep the constant of the first argument with a variable: max(n, 8) keeps its written form.
    base = next(left for moving, left in rest if moving)
    found = [_with(moving, left - base) for moving, left in rest]
    found = [terms for terms in found if as_constant(terms) is None] + [
        terms for terms in found if as_constant(terms) is not None
    ]
    factor = gcd(*(content(terms) for terms in found))
    inner = tuple(tuple((m, k // factor) for m, k in terms) for terms in found)
    total = scale(_single(apply("max", inner)), factor)
    return add(add(total, common), constant(base))


def _by_variable(p: Terms, d: Terms) -> Terms:
    """``p // d`` for a divisor with variables; it keeps a division, as ``d`` may be 0."""
    common = gcd(content(p), content(d))
    if common > 1:
        p, d = (tuple((m, k // common) for m, k in terms) for terms in (p, d))
    whole, rest = split(p, d) if len(d) == 1 else ((), p)
    if not rest:
        whole, rest = (), p
    return add(whole, _single(apply("floordiv", (rest, d))))


def split(p: Terms, d: Terms) -> tuple[Terms, Terms]:
    """Parts ``whole`` and ``rest`` of ``p = whole * d + rest``, for a divisor of one term."""
    ((lead, c),) = d
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, k in p:
        factor = divide(monomial, lead)
        if factor is None or k % c:
            rest[monomial] = k
        else:
            whole[factor] = k // c
    return canonical(whole), canonical(rest)


def _merge(p: Terms, c: int) -> tuple[Terms, int]:
    """Merge a division within a dividend: ``(q + r//a) // c`` into ``(q*a + r) // (a*c)``."""
    while True:
        inner = [(m[0], k) for m, k in p if len(m) == 1 and m[0].kind == "floordiv" and abs(k) == 1]
        found = [(f, k, a) for f, k in inner if (a := as_constant(f.args[1])) is not None]
        if len(found) != 1:
            return p, c
        ((quotient, sign, a),) = found
        others = add(p, _single(quotient), -sign)
        r = quotient.args[0]
        if sign < 0:
            r = add(scale(r, -1), constant(a - 1))
        p, c = add(scale(others, a), r), a * c


def _branches(terms: Terms) -> list[Terms]:
    """Branches ``k*a + q`` and ``k*b + q`` of ``k*max(a, b) + q``, if ``k > 0``."""
    found = [(m, k) for m, k in terms if any(atom.kind == "max" for atom in m)]
    if len(found) != 1 or len(found[0][0]) != 1 or found[0][1] < 0:
        return [terms]
    (((atom,), k),) = found
    others = tuple(term for term in terms if term != found[0])
    return [part for arg in atom.args for part in _branches(add(others, arg, k))]


def _with(moving: Terms, left: int) -> Terms:
    return (*moving, ((), left)) if left else moving


def _single(atom: Atom) -> Terms:
    return (((atom,), 1),)


def remainder(p: Terms, d: Terms) -> Terms:
    """Remainder ``p % d``, with the divisor's sign as in Python."""
    return add(p, multiply(d, floordiv(p, d)), -1)
