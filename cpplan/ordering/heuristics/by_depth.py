"""Orders that follow the edges and ignore sizes: given, depth first, (reverse) post-order.

They are what compilers do without a memory planner: TVM's ``PostOrderVisit``, PyTorch's and LLVM's
reverse post-order. Each is O(ops + edges).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.heuristics.registered import register
from cpplan.runtime.deadline import Deadline


@register("given")
def given(problem: OrderProblem, deadline: Deadline) -> Ints:
    """The order in which the ops are listed, if it is valid, else :func:`post_order`."""
    listed = range(len(problem))
    if all(before < op for op in listed for before in problem.predecessors[op]):
        return np.arange(len(problem))
    return post_order(problem, deadline)


@register("depth_first")
def depth_first(problem: OrderProblem, deadline: Deadline) -> Ints:
    """Order that runs next the op that became ready last: one branch is finished after another.

    Ops that become ready together run as listed.
    """
    waiting = [len(before) for before in problem.predecessors]
    stack = [op for op in reversed(range(len(problem))) if not waiting[op]]
    order = []
    while stack:
        op = stack.pop()
        order.append(op)
        for other in reversed(problem.successors[op]):
            waiting[other] -= 1
            if not waiting[other]:
                stack.append(other)
    return np.array(order, np.int64)


@register("post_order")
def post_order(problem: OrderProblem, deadline: Deadline) -> Ints:
    """Post-order from the ops without successors, each after its predecessors, left to right.

    An op runs only when the first op that waits for it is about to run.
    """
    sinks = [op for op, after in enumerate(problem.successors) if not after]
    return np.array(finished(sinks, problem.predecessors), np.int64)


@register("reverse_post_order")
def reverse_post_order(problem: OrderProblem, deadline: Deadline) -> Ints:
    """Reverse post-order from the ops without predecessors; the last one finished runs first."""
    sources = [op for op, before in enumerate(problem.predecessors) if not before]
    # The roots and branches visited last come first in the end: those listed first.
    backwards = [tuple(reversed(after)) for after in problem.successors]
    return np.array(finished(sources[::-1], backwards)[::-1], np.int64)


def finished(roots: Sequence[int], neighbours: Sequence[Sequence[int]]) -> list[int]:
    """The ops in the order in which a depth-first walk leaves them."""
    seen = [False] * len(neighbours)
    order: list[int] = []
    for root in roots:
        seen[root] = True
        stack = [(root, iter(neighbours[root]))]
        while stack:
            op, rest = stack[-1]
            other = next((other for other in rest if not seen[other]), None)
            if other is None:
                order.append(op)
                stack.pop()
            else:
                seen[other] = True
                stack.append((other, iter(neighbours[other])))
    return order
