"""What a bound that CP-SAT reports, as a float, surely proves."""

from __future__ import annotations

import math

# From here on, floats lie further apart than integers.
_EXACT_BELOW = 2**53


def proved_value(bound: float) -> int:
    """The integer that a bound on an integral objective to be minimised stands for.

    A float from 2**53 on may have been rounded up from what was proved: the next one below is
    taken there.

    Examples
    --------
    >>> proved_value(12.0), proved_value(-3.0), proved_value(2.0**53 + 4)
    (12, -3, 9007199254740994)
    """
    if abs(bound) >= _EXACT_BELOW:
        bound = math.nextafter(bound, -math.inf)
    return round(bound)
