"""Random cases: a few by default, more where asked for."""

from __future__ import annotations

import os
from typing import Any

import pytest

#: Times as many random cases in tests against brute force and in property tests.
FACTOR = int(os.environ.get("CPPLAN_TEST_CASES", "1"))


def seeds(count: int, first: int = 0) -> range:
    """Seeds of random cases, ``count`` by default, ``CPPLAN_TEST_CASES`` times as many if set."""
    return range(first, first + count * FACTOR)


def seeds_and_slow(count: int, slow: int) -> list[Any]:
    """Seeds as parameters of a test: ``count`` by default, and ``slow`` more in the slow run."""
    first = seeds(count)
    return [*first, *(pytest.param(k, marks=pytest.mark.slow) for k in seeds(slow, len(first)))]


def examples(count: int) -> int:
    """Examples of a property test, ``CPPLAN_TEST_CASES`` times as many if set."""
    return count * FACTOR
