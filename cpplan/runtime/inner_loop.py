"""Decorators for compiled loops; imports numba.

``uncounted_loop`` is for loops that Python calls, ``uncounted_inner_loop`` for those that only
these call. They work on the arrays that they are given and make none, so that no references are
counted: a call with forty arrays counts eighty references else, which takes most of the time of a
search and a third of its compilation. Scratch is an argument. What makes arrays is
``@njit(cache=True)`` or, called by compiled loops only, ``inner_loop``.

Entry points for Python and C are compiled with each loop, linked into every loop that uses it, and
dropped again: without these, the loops for packing take two thirds of the time to compile. But
calling an inner loop from Python ends the process.

A constant argument makes numba compile the called loop anew for that constant; so does an
``int32`` beside an ``int64``. Passing ``np.int64(0)`` instead of ``0`` shares the version for
``int64``. Assigning to a slice takes seconds to compile, an explicit loop none.
"""

from __future__ import annotations

from typing import Any

from numba import njit

# The type hints of numba do not list what is told here.
_INNER: dict[str, Any] = {"cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Divisors are never zero: looking out for that adds an error path to every call.
_UNCOUNTED: dict[str, Any] = {"_nrt": False, "error_model": "numpy", "no_cfunc_wrapper": True}
inner_loop = njit(**_INNER)
uncounted_inner_loop = njit(**{**_INNER, **_UNCOUNTED})
uncounted_loop = njit(**{**_UNCOUNTED, "cache": True, "nogil": True})
