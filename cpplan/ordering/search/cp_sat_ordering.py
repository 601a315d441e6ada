"""Orders by CP-SAT: a proof of the best peak, or a better order for a window of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.search.order_window import OrderWindows
from cpplan.ordering.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_proof import PeakModel, prove_peak

if TYPE_CHECKING:
    from cpplan.model.problem import Ints
    from formulations.ordering import OrderingModel

NAME = "CP-SAT order"


def order_model(problem: OrderProblem) -> PeakModel[Ints]:
    """The model of all orders of at least one op."""

    def build(upper: int, lower: int) -> OrderingModel:
        from formulations.ordering import build

        return build(problem, upper=upper, lower=lower)

    return PeakModel(build, problem.peak)


def improve_window(
    windows: OrderWindows,
    begin: int,
    end: int,
    budget: Budget,
    *,
    target: int = 0,
) -> bool:
    """Reorder the ops of the window ``[begin, end)`` if that lowers the peak within it."""
    problem = windows.window(begin, end)
    order = np.arange(end - begin)
    proof = prove_peak(
        order_model(problem), order, budget, bound=target, work=active().cp_sat_window_work
    )
    better = proof.peak < problem.peak(order)
    if better:
        windows.put_back(begin, end, proof.best)
    return better
