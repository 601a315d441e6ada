"""What the tests of the checkers ask of ``verify``."""

from __future__ import annotations

import itertools

import pytest

from cpplan import Graph, Plan, Problem, Program, verify
from cpplan.model.errors import VerificationError
from cpplan.model.residency import Residency

RESIDENCIES = [
    Residency(*choice)
    for choice in itertools.product(
        ("reuse", "keep", "outside"), ("keep", "outside"), ("outside", "keep")
    )
]


def rejected(source: Graph | Program | Problem, plan: Plan, match: str) -> None:
    """Fail unless ``verify`` rejects the plan with one line that matches."""
    with pytest.raises(VerificationError, match=match) as caught:
        verify(source, plan)
    assert "\n" not in str(caught.value)
