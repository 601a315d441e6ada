"""Local search over orders of first fit, for several sizes at once.

A layout is described by the order in which first fit places its buffers; the order by increasing
offset describes any layout pushed down. A move takes a buffer that ends at the arena of a size that
counts, and places it earlier; or it takes a buffer live together with that one, and places it
later. The new order is kept unless its layout is worse. The topmost buffer at the largest size
decides how much the other sizes need, so that large buffers are best placed late.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cpplan.model.problem import Ints
from cpplan.packing import loops
from cpplan.packing.heuristics.by_climbing import OrderMoves
from cpplan.packing.heuristics.by_lowest_offset import PREORDERS, preorder
from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.packing.sizes.arenas import BestLayout
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

NAME = "order search"

# Counted seconds of a move besides the placement of its buffers.
_MOVE = 2e-5


class OrderClimb:
    """A local search that continues from the best layout known."""

    def __init__(self, best: BestLayout, seed: int):
        self.best, self.arenas, self.problem = best, best.arenas, best.arenas.reduction.problem
        # A buffer that ends too high moves earlier; a buffer live with it mostly moves later.
        self._moves = OrderMoves(self.problem, seed, together=0.5, earlier=(1.0, 0.3))
        self._placements = 0

    def start(self, deadline: Deadline) -> None:
        """Try orders by size, lifespan and growth, and the best layout upside down."""
        problem, best = self.problem, self.best
        growth = np.ptp(self.arenas.bytes, axis=0)
        orders = [preorder(problem, word) for word in PREORDERS]
        orders.append(np.lexsort((problem.lower, problem.size)))
        orders.append(np.lexsort((problem.lower, growth)))
        orders.append(self._upwards(best.best))
        for order in orders:
            self._try(order, 0, deadline)
        # Push each layout down too, which never makes it worse at any size.
        self._try(np.argsort(-(best.best + problem.size), kind="stable"), 0, deadline)
        self._try(self._upwards(best.best), 0, deadline)
        for order in orders[: len(PREORDERS)]:
            self._try(self._hung(order, deadline), 0, deadline)

    def _hung(self, order: Ints, deadline: Deadline) -> Ints:
        """The order by offset of first fit from the top down, as if all levels met their bounds.

        A buffer starts lower if it would otherwise end too high at some size.
        """
        arenas, problem, least = self.arenas, self.problem, self.best.least
        limits = arenas.limits(len(least) - 1, least)
        top = int(arenas.of(self.best.best).max())
        highest = arenas.highest(np.minimum(limits, top))
        free = replace(problem, fixed={})
        depth = np.maximum(0, top - problem.size - highest)
        floors = dict(enumerate(depth.tolist()))
        hung = first_fit_in_order(free, order.tolist(), deadline, at_least=floors)
        return np.argsort(-(hung + problem.size), kind="stable").astype(np.int64)

    def run(self, number: int, moves: int, deadline: Deadline) -> None:
        """Make ``moves`` moves for one level, without making earlier levels worse.

        O(n²) a move. Raises ``TimeUpError`` during a move.
        """
        best, values, offsets = self.best, None, self.best.best
        order = self._upwards(offsets)
        for _ in range(moves):
            if best.values is not values:
                if best.settled(number):
                    return
                values = best.values
                allowed = self.arenas.highest(self.arenas.limits(number, values))
                lower = (*values[:number], values[number] - 1)
                better = self.arenas.highest(self.arenas.limits(number, lower))
            moved = self._move(order, offsets, better)
            if moved is None:
                return
            deadline.check(_MOVE)
            # A layout within these limits is as good on this level and the earlier ones.
            placed = self._place(moved, allowed, deadline)
            if placed is not None:
                order, offsets = self._upwards(placed), placed
                best.offer(placed, NAME)

    def _try(self, order: Ints, number: int, deadline: Deadline) -> None:
        limits = self.arenas.limits(number, self.best.values)
        offsets = self._place(order, self.arenas.highest(limits), deadline)
        if offsets is not None:
            self.best.offer(offsets, NAME)

    def _upwards(self, offsets: Ints) -> Ints:
        return np.argsort(offsets, kind="stable").astype(np.int64)

    def _place(self, order: Ints, highest: Ints, deadline: Deadline) -> Ints | None:
        """First fit in this order, or ``None`` if a buffer exceeds its highest offset."""
        problem = self.problem
        self._placements += 1
        if (
            problem.gaps
            or problem.fixed
            or self._placements * len(problem) < active().sizes_compiled
        ):
            deadline.check()
            offsets = first_fit_in_order(problem, order.tolist(), deadline)
            return offsets if (offsets <= highest).all() else None
        if not prepare(loops.SIZES, deadline):
            raise TimeUpError
        from cpplan.packing.sizes import fit_kernel as kernel

        deadline.check(1e-9 * len(problem) ** 2)
        placed, offset = (np.empty(len(problem), np.int64) for _ in range(2))
        columns = (problem.lower, problem.upper, problem.size, problem.alignment)
        fits = kernel.first_fit(order, *columns, highest, placed, offset)
        return offset if fits else None

    def _move(self, order: Ints, offsets: Ints, better: Ints) -> Ints | None:
        """Another order; ``None`` if no buffer lies above its offset in a better layout."""
        high = np.flatnonzero(offsets > better)
        if not len(high):
            return None
        row, at_hand = self._moves.pick(high.tolist())
        return self._moves.shift(order, row, at_hand=at_hand)
