"""The smallest uses of the checks that reach every compiled loop, with their real types."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Problem
from cpplan.verification.rectangles import all_apart, cut_gaps
from cpplan.verification.written_runs import first_wrong_compiled


def use_sweep() -> None:
    """Check a packing of two buffers."""
    first = np.zeros(2, np.int64)
    problem = Problem(("a", "b"), lower=first, upper=first + 1, size=first + 4)
    all_apart(cut_gaps(problem), np.array([0, 4]))


def use_checks() -> None:
    """Check two accesses."""
    access = np.array([1, 2])
    first_wrong_compiled(access < 2, access, access + 1, access)
