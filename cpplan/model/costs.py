"""The sum of the costs of ops, the same for every order."""

from __future__ import annotations

import math
from collections.abc import Iterable


def sum_costs(costs: Iterable[int | float]) -> int | float:
    """Sum of costs, exact for integers, else the float nearest to the exact sum.

    So two orders of the same ops have the same cost, to the last bit.
    """
    terms = list(costs)
    # Check the few distinct types, since there may be a hundred thousand terms.
    inexact = any(issubclass(one, float) for one in set(map(type, terms)))
    return math.fsum(terms) if inexact else sum(terms)
