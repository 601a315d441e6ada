"""Functions that make expressions from variables and from each other."""

from __future__ import annotations

from cpplan.model.errors import InputError
from cpplan.model.printable import quote
from cpplan.model.shapes import terms
from cpplan.model.shapes import terms as atoms
from cpplan.model.shapes.dim import Dim, of_terms, terms_of
from cpplan.model.shapes.terms import Atom
from cpplan.model.shapes.writing import write_name


def variable(name: str) -> Dim:
    """The variable with this name, which may be any text except an empty one.

    Raises
    ------
    InputError
        If the name is not text, or is empty.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"a dimension's name must be a non-empty string, not {quote(name)}")
    return Dim((((Atom(write_name(name), "variable", name),), 1),))


def dim_max(a: int | Dim, b: int | Dim) -> int | Dim:
    """The larger of two dimensions."""
    return of_terms(atoms.maximum([terms_of(a), terms_of(b)]))


def dim_min(a: int | Dim, b: int | Dim) -> int | Dim:
    """The smaller of two dimensions."""
    return -dim_max(-a, -b)


def ceildiv(a: int | Dim, b: int | Dim) -> int | Dim:
    """``a / b`` rounded up.

    Raises
    ------
    InputError
        If ``b`` is the integer 0.
    """
    return of_terms(terms.scale(atoms.floordiv(terms.scale(terms_of(a), -1), terms_of(b)), -1))


def divide_exactly(a: int | Dim, b: int | Dim) -> int | Dim | None:
    """The polynomial whose product with ``b`` is ``a``, or ``None`` if there is none.

    ``a // b`` keeps the division, as ``b`` may be zero; call this only if ``b`` never is.

    Raises
    ------
    InputError
        If ``b`` is the integer 0.
    """
    divisor = terms_of(b)
    if not divisor:
        raise InputError(f"division by zero: {a} by 0")
    quotient = terms.exact_quotient(terms_of(a), divisor)
    return None if quotient is None else of_terms(quotient)
