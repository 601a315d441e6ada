"""The integer bound that a bound reported by CP-SAT as a float proves."""

from __future__ import annotations

import math

# From this value on, not every integer is a float.
_EXACT_BELOW = 2**53


def proved_value(bound: float) -> int:
    """The integer bound that a float proves on an integral objective to be minimised.

    From 2**53 on, the float may have been rounded up from the proved value: the next lower float is
    used.

    Examples
    --------
    >>> proved_value(12.0), proved_value(-3.0), proved_value(2.0**53 + 4)
    (12, -3, 9007199254740994)
    """
    if abs(bound) >= _EXACT_BELOW:
        bound = math.nextafter(bound, -math.inf)
    return round(bound)
