"""Decorator for loops that only other compiled loops call; imports numba.

Loops that Python calls are ``@njit(cache=True)``. Their entry points for Python and C are compiled
with each, linked into every loop that uses it, and dropped again: without these, the loops for
packing take two thirds of the time to compile. But calling an inner loop from Python ends the
process.

A constant argument makes numba compile the called loop anew for that constant; so does an
``int32`` beside an ``int64``. Passing ``np.int64(0)`` instead of ``0`` shares the version for
``int64``.
"""

from __future__ import annotations

from typing import Any

from numba import njit

# The type hints of numba do not list the last two.
_OPTIONS: dict[str, Any] = {"cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner_loop = njit(**_OPTIONS)
