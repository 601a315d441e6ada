"""Random expressions as text, for Python and for cpplan."""

from __future__ import annotations

import random
from collections.abc import Mapping

from hypothesis import strategies as st

NAMES = ("a", "b", "n")


def ceildiv(a: int, b: int) -> int:
    """The quotient rounded up."""
    return -(-a // b)


CALLS = {"max": max, "min": min, "ceildiv": ceildiv}


def by_python(text: str, values: Mapping[str, int]) -> int | None:
    """The value that Python computes; ``None`` if the expression divides by zero."""
    try:
        return eval(text, {"__builtins__": {}, **CALLS}, dict(values))
    except ZeroDivisionError:
        return None


DIVISORS = tuple(f"({d})" for d in (-7, -3, -2, -1, 1, 2, 3, 4, 6, 8))


def texts(divisors: tuple[str, ...] = DIVISORS) -> st.SearchStrategy[str]:
    """Infix texts."""
    leaves = st.sampled_from(NAMES) | st.integers(0, 12).map(str)

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair, below = st.tuples(inner, inner), st.tuples(inner, st.sampled_from(divisors))
        return st.one_of(
            pair.map(lambda p: f"({p[0]} + {p[1]})"),
            pair.map(lambda p: f"({p[0]} - {p[1]})"),
            pair.map(lambda p: f"({p[0]}*{p[1]})"),
            pair.map(lambda p: f"max({p[0]}, {p[1]})"),
            pair.map(lambda p: f"min({p[0]}, {p[1]})"),
            inner.map(lambda text: f"(-{text})"),
            below.map(lambda p: f"({p[0]}//{p[1]})"),
            below.map(lambda p: f"({p[0]} % {p[1]})"),
            below.map(lambda p: f"ceildiv({p[0]}, {p[1]})"),
        )

    return st.recursive(leaves, extend, max_leaves=9)


def draw_values(
    ranges: Mapping[str, tuple[int, int]], count: int, seed: int
) -> list[dict[str, int]]:
    """Values within ranges; the ends are as likely as all between."""
    rng = random.Random(seed)
    return [
        {n: rng.choice((lo, hi, rng.randint(lo, hi))) for n, (lo, hi) in ranges.items()}
        for _ in range(count)
    ]
