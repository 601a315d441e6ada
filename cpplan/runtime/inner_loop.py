"""How a loop is compiled that only other compiled loops call; imports numba.

Loops that Python calls are ``@njit(cache=True)``. What lets Python or C call them is compiled with
each, linked into every loop that uses it, and dropped again: without, the loops for packing take
two thirds of the time to compile. But calling one from Python ends the process.

A constant that a loop passes on makes a version of what it calls for that constant alone; so does
an ``int32`` beside an ``int64``. ``np.int64(0)`` instead of ``0`` shares one with what else is
passed.
"""

from __future__ import annotations

from typing import Any

from numba import njit

# The type hints of numba do not list the last two.
_OPTIONS: dict[str, Any] = {"cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner_loop = njit(**_OPTIONS)
