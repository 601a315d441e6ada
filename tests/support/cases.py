"""Random cases: a few by default, more where asked for."""

from __future__ import annotations

import os

#: Times as many random cases in tests against brute force and in property tests.
FACTOR = int(os.environ.get("CPPLAN_TEST_CASES", "1"))


def seeds(count: int, first: int = 0) -> range:
    """Seeds of random cases, ``count`` by default, ``CPPLAN_TEST_CASES`` times as many if set."""
    return range(first, first + count * FACTOR)


def examples(count: int) -> int:
    """Examples of a property test, ``CPPLAN_TEST_CASES`` times as many if set."""
    return count * FACTOR
