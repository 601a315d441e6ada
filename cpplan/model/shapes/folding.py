"""Folding of quotients into remainders: ``n - 4*(n//4)`` becomes ``n % 4``, with better bounds."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from cpplan.model.shapes.terms import (
    Atom,
    Monomial,
    Sum,
    Terms,
    add,
    apply,
    as_constant,
    canonical,
    exact_quotient,
    floordiv,
    multiply,
    split,
)


def fold(terms: Terms) -> Terms:
    """The same polynomial, with remainders for quotients if that leaves fewer terms."""
    for atom in quotients(terms):
        folded = substitute(terms, atom)
        if folded is not None and all(k.denominator == 1 for k in folded.values()):
            found = canonical({m: int(k) for m, k in folded.items()})
            if len(found) < len(terms):
                terms = found
    return terms


def quotients(terms: Sum | Terms) -> list[Atom]:
    """The floor divisions among the atoms, each once."""
    monomials = terms if isinstance(terms, Mapping) else (m for m, _ in terms)
    return sorted({atom for m in monomials for atom in m if atom.kind == "floordiv"})


def substitute(terms: Sum | Terms, atom: Atom) -> Sum | None:
    """The polynomial with ``(p - p % d) / d`` for ``p // d``; ``None`` if that is no polynomial."""
    p, d = atom.args
    value = as_constant(d)
    numerator: dict[Monomial, int | Fraction] = dict(p)
    numerator[(apply("mod", (p, d)),)] = -1
    total: dict[Monomial, int | Fraction] = {}
    groups: dict[int, dict[Monomial, int | Fraction]] = {}
    for monomial, k in terms.items() if isinstance(terms, Mapping) else terms:
        rest = tuple(a for a in monomial if a != atom)
        groups.setdefault(len(monomial) - len(rest), {})[rest] = k
    for power, group in groups.items():
        for _ in range(power):
            if value is not None:
                group = {m: Fraction(k) / value for m, k in group.items()}
            else:
                if any(k.denominator != 1 for k in group.values()):
                    return None
                quotient = exact_quotient(canonical({m: int(k) for m, k in group.items()}), d)
                if quotient is None:
                    return None
                group = dict(quotient)
        for _ in range(power):
            group = times(group, numerator)
        for monomial, k in group.items():
            total[monomial] = total.get(monomial, 0) + k
    return {m: k for m, k in total.items() if k}


def absorb(terms: Sum | Terms, atom: Atom) -> Sum | None:
    """``k*q + k*(p//c)`` as ``k*((c*q + p)//c)``, in which fewer atoms may occur twice."""
    p, d = atom.args
    c = as_constant(d)
    found = dict(terms)
    held = [monomial for monomial in found if atom in monomial]
    if c is None or len(held) != 1 or any(k.denominator != 1 for k in found.values()):
        return None
    (monomial,) = held
    factor = tuple(a for a in monomial if a != atom)
    if len(factor) != len(monomial) - 1:
        return None
    k = int(found.pop(monomial))
    whole, rest = split(canonical({m: int(k) for m, k in found.items()}), ((factor, k),))
    if not whole:
        return None
    moved = multiply(((factor, k),), floordiv(add(p, whole, c), d))
    return dict(add(rest, moved))


def times(left: Sum, right: Sum) -> dict[Monomial, int | Fraction]:
    """The product of two sums with fractions."""
    total: dict[Monomial, int | Fraction] = {}
    for a, x in left.items():
        for b, y in right.items():
            monomial = tuple(sorted(a + b))
            total[monomial] = total.get(monomial, 0) + x * y
    return total
