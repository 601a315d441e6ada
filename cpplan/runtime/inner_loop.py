"""Decorator for loops that only loops compiled by numba call; imports numba.

Entry points for Python and C are compiled with each loop, linked into every loop that uses it, and
dropped again: without these, loops take two thirds of the time to compile. But calling an inner
loop from Python ends the process.

Loops that make no arrays have a quicker compiler: :mod:`cpplan.runtime.loop_compiler`.

A constant argument makes numba compile the called loop anew for that constant; so does an
``int32`` beside an ``int64``. Passing ``np.int64(0)`` instead of ``0`` shares the version for
``int64``. Assigning to a slice takes seconds to compile, an explicit loop none.
"""

from __future__ import annotations

from typing import Any

from numba import njit

# The type hints of numba do not list what is told here.
_INNER: dict[str, Any] = {"cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner_loop = njit(**_INNER)
