"""An ordering problem cut at the ops that every other op must precede or follow.

Such an op runs at the same step in every order, so that what runs before it and what runs after can
be ordered on their own; the peak is the highest piece's.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cpplan.ordering import OrderProblem
from cpplan.problem import Ints
from cpplan.search.order_bounds import FORCED, OrderBounds, order_bounds
from cpplan.search.order_window import OrderWindows
from cpplan.search.window_search import WindowSearch


class OrderPiece:
    """One piece: its problem, the best order of it so far, and a bound on its every order.

    Attributes
    ----------
    problem
        Its ops, renumbered from 0 in the order in which the piece was cut.
    ops
        Their numbers in the whole problem, shape ``(ops,)``.
    order
        The best order of the renumbered ops.
    peak, bound
        Of that order, and of every order, bytes.
    found_by, bound_by
        What found the order; what proves the bound.
    windows
        The local search that continues on this piece.
    """

    def __init__(self, problem: OrderProblem, ops: Ints, found_by: str, seed: int):
        self.problem, self.ops, self.found_by = problem, ops, found_by
        self.order: Ints = np.arange(len(ops))
        self.peak = problem.peak(self.order)
        self.bound, self.bound_by = order_bounds(problem).bound, FORCED
        self.windows = WindowSearch(problem, self.order, seed)

    def offer(self, order: Ints, name: str) -> None:
        """Take an order if its peak is lower."""
        peak = self.problem.peak(order)
        if peak < self.peak:
            self.order, self.peak, self.found_by = order, peak, name

    def offer_bound(self, bound: int, name: str) -> None:
        """Take a bound if it is higher."""
        if bound > self.bound:
            self.bound, self.bound_by = bound, name


def cut_into_pieces(
    problem: OrderProblem, order: Ints, bounds: OrderBounds, found_by: str, seed: int
) -> list[OrderPiece]:
    """The pieces of a problem, each with its part of this order; a cut starts a piece."""
    windows = OrderWindows(problem, order)
    edges = sorted({0, *bounds.cut_positions, len(problem)})
    return [
        OrderPiece(windows.window(begin, end), np.asarray(order[begin:end]), found_by, seed)
        for begin, end in pairwise(edges)
    ]


def join_pieces(pieces: list[OrderPiece]) -> Ints:
    """The order of the whole, shape ``(ops,)``."""
    if not pieces:
        return np.empty(0, np.int64)
    return np.concatenate([piece.ops[piece.order] for piece in pieces])
