"""Intervals that contain all values of an expression.

A polynomial is monotone in an atom if its derivative has one sign; then only the ends of its
interval matter. If atoms depend on each other (``n - n//2``), the same polynomial is rewritten in
several ways, and the interval of each is valid: ``n//2`` is ``(n - n % 2)/2``, and ``q + max(a,
b)`` is the larger of ``q + a`` and ``q + b``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import reduce
from itertools import groupby
from math import ceil, floor, inf

from cpplan.model.errors import InputError
from cpplan.model.shapes import intervals
from cpplan.model.shapes.folding import absorb, quotients, substitute
from cpplan.model.shapes.folding import times as multiply
from cpplan.model.shapes.intervals import End, Interval
from cpplan.model.shapes.terms import Atom, Monomial, Sum, Terms, exact_quotient
from cpplan.model.shapes.values import Range, read_range
from cpplan.model.shapes.writing import write

# Most choices of branches of maxima in one sum, and most corners of a box, that are tried.
MOST_BRANCHES, MOST_CORNERS = 16, 32
# Product of terms and atoms above which fewer rewritings and corners of a sum are tried.
MOST_EFFORT = 1024


def bound(terms: Terms, ranges: Mapping[str, Range]) -> tuple[int | None, int | None]:
    """Lower and upper bound on the values of an expression; ``None`` for no bound."""
    lower, upper = _Box(ranges).terms(terms)
    return (
        None if isinstance(lower, float) else int(lower),
        None if isinstance(upper, float) else int(upper),
    )


class _Box:
    """Intervals of all atoms found so far, each computed once."""

    def __init__(self, ranges: Mapping[str, Range]):
        self.ranges = ranges
        self.known: dict[Atom, Interval] = {}
        self.sums: dict[Terms, Interval] = {}

    def terms(self, terms: Terms) -> Interval:
        if terms not in self.sums:
            lower, upper = self._sum(dict(terms), MOST_BRANCHES)
            self.sums[terms] = Interval(
                lower if isinstance(lower, float) else ceil(lower),
                upper if isinstance(upper, float) else floor(upper),
            )
        return self.sums[terms]

    def atom(self, atom: Atom) -> Interval:
        if atom not in self.known:
            self.known[atom] = self._atom(atom)
        return self.known[atom]

    def _atom(self, atom: Atom) -> Interval:
        if atom.kind == "variable":
            lower, upper = read_range(atom.name, self.ranges)
            return Interval(-inf if lower is None else lower, inf if upper is None else upper)
        args = [self.terms(arg) for arg in atom.args]
        if atom.kind == "max":
            return reduce(intervals.largest, args)
        p, d = atom.args
        if 0 in args[1]:
            raise InputError(
                f"division by zero: the divisor {write(d)} of {write(p)} may be 0 within the bounds"
            )
        quotient = exact_quotient(p, d)
        if atom.kind == "mod":
            return Interval(0, 0) if quotient is not None else intervals.mod(*args)
        direct = intervals.floordiv(*args)
        return direct if quotient is None else intervals.common(direct, self.terms(quotient))

    def _sum(self, terms: Sum, branches: int) -> Interval:
        best = self._polynomial(terms)
        if len(terms) == 1:
            return best
        effort = _effort(terms)
        for quotient in quotients(terms)[:effort]:
            for other in (absorb(terms, quotient), substitute(terms, quotient)):
                if other is None:
                    continue
                found = self._polynomial(other)
                best, before = intervals.common(best, found), best
                if found == best != before:
                    terms = other
                    break
        branches = min(branches, effort)
        for atom in sorted({a for m in terms for a in m if a.kind == "max"})[:branches]:
            if len(atom.args) <= branches:
                found = self._branches(terms, atom, branches // len(atom.args))
                best = intervals.common(best, found)
        return best

    def _branches(self, terms: Sum, atom: Atom, branches: int) -> Interval:
        """Interval of ``q + k*max(a, b)``: of the larger branch if ``k >= 0``, else the smaller."""
        factor: dict[Monomial, int | Fraction] = {}
        others: dict[Monomial, int | Fraction] = {}
        for monomial, k in terms.items():
            rest = tuple(a for a in monomial if a != atom)
            if len(monomial) - len(rest) > 1:
                return intervals.WHOLE
            (factor if len(rest) < len(monomial) else others)[rest] = k
        sign = self._polynomial(factor)
        if sign.lower < 0 < sign.upper:
            return intervals.WHOLE
        found = []
        for arg in atom.args:
            total = dict(others)
            for monomial, k in multiply(factor, dict(arg)).items():
                total[monomial] = total.get(monomial, 0) + k
            found.append(self._sum({m: k for m, k in total.items() if k}, branches))
        return reduce(intervals.largest if sign.lower >= 0 else intervals.smallest, found)

    def _polynomial(self, terms: Sum) -> Interval:
        """Interval of a polynomial whose atoms are taken as independent."""
        box = {atom: self.atom(atom) for atom in sorted({a for m in terms for a in m})}
        if len(terms) <= 1:
            return _natural(terms, box)
        corners = min(MOST_CORNERS, _effort(terms))
        slopes = {atom: _derivative(terms, atom) for atom in box}
        return Interval(
            _extreme(terms, slopes, box, lowest=True, corners=corners),
            _extreme(terms, slopes, box, lowest=False, corners=corners),
        )


def _effort(terms: Sum) -> int:
    """Number of rewritings and corners to try for a sum of this size."""
    return MOST_EFFORT // (1 + len(terms) * len({a for m in terms for a in m}))


def _extreme(
    terms: Sum,
    slopes: Mapping[Atom, Sum],
    box: Mapping[Atom, Interval],
    *,
    lowest: bool,
    corners: int,
) -> End:
    """The lowest (or highest) value; each atom of degree one then is at an end of its interval."""
    narrow = _narrow(slopes, dict(box), lowest=lowest, once=not corners)
    for atom, ends in narrow.items() if corners > 1 else ():
        open_ended = any(isinstance(end, float) for end in ends)
        linear = not any(atom in monomial for monomial in slopes[atom])
        if open_ended or ends.lower == ends.upper or len(slopes[atom]) < 2 or not linear:
            continue
        found = [
            _extreme(
                terms,
                slopes,
                narrow | {atom: Interval(end, end)},
                lowest=lowest,
                corners=corners // 2,
            )
            for end in ends
        ]
        return min(found) if lowest else max(found)
    natural = _natural(terms, narrow)
    return natural.lower if lowest else natural.upper


def _narrow(
    slopes: Mapping[Atom, Sum], box: dict[Atom, Interval], *, lowest: bool, once: bool
) -> dict[Atom, Interval]:
    """The box, narrowed to an end in each atom in which the polynomial is monotone."""
    narrower = True
    while narrower:
        narrower = False
        for atom, (lower, upper) in box.items():
            if lower == upper:
                continue
            slope = _natural(slopes[atom], box)
            if slope.lower < 0 < slope.upper:
                continue
            end = lower if (slope.lower >= 0) == lowest else upper
            if not isinstance(end, float):
                box[atom] = Interval(end, end)
                narrower = not once
    return box


def _derivative(terms: Sum, atom: Atom) -> Sum:
    found: dict[Monomial, int | Fraction] = {}
    for monomial, k in terms.items():
        power = monomial.count(atom)
        if power:
            at = monomial.index(atom)
            found[monomial[:at] + monomial[at + 1 :]] = k * power
    return found


def _natural(terms: Sum, box: Mapping[Atom, Interval]) -> Interval:
    total = Interval(0, 0)
    for monomial, k in terms.items():
        product = Interval(k, k)
        for atom, same in groupby(monomial):
            power = intervals.power(box[atom], len(list(same)))
            product = intervals.times(product, power)
        total = intervals.plus(total, product)
    return total
