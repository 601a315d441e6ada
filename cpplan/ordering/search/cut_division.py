"""Orders from minimum cuts: the op with the most live bytes is placed, then each part divided.

A minimum cut gives the set of ops that must run before an op for the fewest bytes to be live with
it. The ops before it and the ops after it are ordering problems again, each divided at its own op
with the most bytes. Parts whose peak is at most a target stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.cuts import CutNetwork
from cpplan.ordering.search.order_window import OrderWindows
from cpplan.runtime.deadline import Deadline

# Approximate seconds of a part for each arc of its network, where time is counted in work.
_SECONDS_PER_ARC = 1e-6


def divide_by_cuts(
    problem: OrderProblem, order: Sequence[int] | Ints, target: int, deadline: Deadline
) -> Ints:
    """An order made from another by dividing it at minimum cuts; its peak may be higher.

    Parameters
    ----------
    problem
        Ops and storages.
    order
        A valid order to start from; parts that are not divided keep it.
    target
        A peak that is good enough, bytes.
    deadline
        When it passes, the order is returned as it stands.
    """
    windows = OrderWindows(problem, order)
    parts = [(0, len(problem))]
    while parts and not deadline.expired():
        begin, end = parts.pop()
        pressure = [windows.pressure(step) for step in range(begin, end)]
        highest = max(pressure, default=0)
        if highest <= target:
            continue
        op = pressure.index(highest)
        network = CutNetwork(windows.window(begin, end))
        deadline.spend(_SECONDS_PER_ARC * network.arcs)
        _, done = network.minimum(op)
        before, after = np.flatnonzero(done), np.flatnonzero(~done)
        windows.put_back(begin, end, [*before, op, *after[after != op]])
        middle = begin + len(before)
        parts += [(begin, middle), (middle + 1, end)]
    return np.array(windows.order, np.int64)
