"""Order and offsets together by CP-SAT, for when packing the best order leaves a gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Problem
from cpplan.packing.reduction import address_unit
from cpplan.runtime.cp_sat_proof import PeakModel

if TYPE_CHECKING:
    from cpplan.model.problem import Ints
    from formulations.joint import JointModel, Layout

NAME = "CP-SAT order and offsets"


def joint_model(
    problem: OrderProblem,
    alignment: Sequence[int] | Ints,
    extra_alignment: Sequence[int] | Ints,
) -> PeakModel[Layout]:
    """The model of all orders with offsets that fit them.

    An op's ``extra`` bytes are one block, and so are ``base`` and ``entry``: if one of these blocks
    stands for several buffers, the bound holds only for layouts that keep them together
    (``formulations.joint``).
    """

    def build(upper: int, lower: int) -> JointModel:
        from formulations.joint import build

        unit = _unit(problem, alignment, extra_alignment)
        return build(problem, alignment, extra_alignment, unit=unit, upper=upper, lower=lower)

    return PeakModel(build, lambda layout: layout.peak(problem))


def _unit(
    problem: OrderProblem, alignment: Sequence[int] | Ints, extra_alignment: Sequence[int] | Ints
) -> int:
    """Unit, bytes, that divides all offsets of some best layout: see ``address_unit``."""
    size = np.array([*problem.size, *problem.extra, problem.base, problem.entry], np.int64)
    align = np.array([*alignment, *extra_alignment, 1, 1], np.int64)
    some = size > 0
    names = tuple(map(str, np.flatnonzero(some)))
    lower = np.zeros(len(names), np.int64)
    return address_unit(Problem(names, lower, lower + 1, size[some], align[some]))
