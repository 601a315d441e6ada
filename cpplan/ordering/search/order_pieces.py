"""An ordering problem in pieces, cut at the ops that every other op must precede or follow.

Such an op runs at the same step in every order, so that the ops before it and the ops after it can
be ordered on their own. The peak of the whole is the largest peak of a piece.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.bounds import FORCED, OrderBounds
from cpplan.ordering.search.order_window import OrderWindows
from cpplan.ordering.search.window_search import WindowSearch


class OrderPiece:
    """One piece: its problem, its best order so far, and a bound on all its orders.

    Attributes
    ----------
    ops
        Numbers of its ops in the whole problem, shape ``(ops,)``.
    order
        The best order of its ops, by their positions in ``ops``.
    peak, bound
        Peak of that order, and lower bound on the peak of every order, bytes.
    found_by, bound_by
        Names of the search that found the order, and of the method that proved the bound.
    """

    def __init__(
        self,
        whole: OrderWindows,
        begin: int,
        ops: Ints,
        peak: int,
        bound: int,
        name: str,
        seed: int,
    ):
        self._whole, self._begin, self._seed = whole, begin, seed
        self.ops, self.peak, self.found_by = ops, peak, name
        self.order: Ints = np.arange(len(ops))
        self.bound, self.bound_by = bound, FORCED

    @cached_property
    def problem(self) -> OrderProblem:
        """Ordering problem of the piece's ops, renumbered; made only when it is needed."""
        return self._whole.window(self._begin, self._begin + len(self.ops))

    @cached_property
    def windows(self) -> WindowSearch:
        """The local search that continues on this piece."""
        return WindowSearch(self.problem, self.order, self._seed)

    def offer(self, order: Ints, name: str) -> None:
        """Replace the best order if this one has a lower peak."""
        peak = self.problem.peak(order)
        if peak < self.peak:
            self.order, self.peak, self.found_by = order, peak, name

    def offer_bound(self, bound: int, name: str) -> None:
        """Replace the bound if this one is higher."""
        if bound > self.bound:
            self.bound, self.bound_by = bound, name


def cut_into_pieces(
    problem: OrderProblem, order: Ints, bounds: OrderBounds, found_by: str, seed: int
) -> list[OrderPiece]:
    """The pieces of a problem, each with its part of this order; a cut starts a piece."""
    windows = OrderWindows(problem, order)
    edges = sorted({0, *bounds.cut_positions, len(problem)})
    pressure, order = problem.pressure(order), np.asarray(order, np.int64)
    forced = np.maximum(bounds.forced, problem.base)[order]
    peaks = np.maximum.reduceat(pressure, edges[:-1]).tolist() if len(order) else []
    least = np.maximum.reduceat(forced, edges[:-1]).tolist() if len(order) else []
    return [
        OrderPiece(windows, begin, order[begin:end], peak, bound, found_by, seed)
        for (begin, end), peak, bound in zip(pairwise(edges), peaks, least, strict=True)
    ]


def join_pieces(pieces: list[OrderPiece]) -> Ints:
    """The order of the whole, shape ``(ops,)``."""
    if not pieces:
        return np.empty(0, np.int64)
    return np.concatenate([piece.ops[piece.order] for piece in pieces])
