"""Plans as the tests of the checkers accept, refuse and change them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from cpplan import Graph, Plan, Problem, Program, simulate, solve, verify
from cpplan.model.errors import VerificationError
from cpplan.model.residency import Residency

RESIDENCIES = [
    Residency(*choice)
    for choice in itertools.product(
        ("reuse", "keep", "outside"), ("keep", "outside"), ("outside", "keep")
    )
]


def proved(source: Graph | Program, **options: str) -> Plan:
    """The plan of a source, proved optimal and checked by both checkers."""
    plan = solve(source, workers=1, **options)
    assert plan.status == "optimal"
    verify(source, plan)
    simulate(source, plan)
    return plan


def accepts(check: Callable[..., object], source: Graph | Program | Problem, plan: Plan) -> bool:
    """True if a checker, ``verify`` or ``simulate``, lets the plan pass."""
    try:
        check(source, plan)
    except VerificationError:
        return False
    return True


def moved(plan: Plan, offsets: Mapping[str, int]) -> Plan:
    """The same plan with some buffers elsewhere, and an arena that still holds them all."""
    assert plan.offset is not None
    offset = plan.offset.copy()
    for name, address in offsets.items():
        offset[plan.buffers.index(name)] = address
    return replace(plan, offset=offset, peak=int(np.max(offset + plan.size)))


def rejected(source: Graph | Program | Problem, plan: Plan, match: str) -> None:
    """Fail unless ``verify`` rejects the plan with one line that matches."""
    with pytest.raises(VerificationError, match=match) as caught:
        verify(source, plan)
    assert "\n" not in str(caught.value)
