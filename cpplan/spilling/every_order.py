"""Bound on the cost of moves in every order, proved by ops that leave too little room.

Whatever the order, some bytes are live while an op runs. If they exceed the fast pool, tensors that
make up for the excess are *absent*: they lie in the slow pool then, have been written there, and
will be read from there. Of all tensors that may be absent, the cheapest that are large enough are
chosen; this is a knapsack. Ops at which different tensors must be absent prove more together: a
tensor that may be absent at several of them shares its cost among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cpplan.model.certificates import ForcedMoves
from cpplan.model.graph import Graph
from cpplan.model.spill_problem import SpillProblem
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.bounds import MovedBound
from cpplan.spilling.crowded_ops import AbsenceCosts, CrowdedOp, CrowdedOps
from cpplan.spilling.tuning import active
from cpplan.verification.bound_table import FORCED_MOVES, LEAST_PEAK, NOTHING

# Binary places kept of a part of a cost.
PLACES = 16
# Sums of room that the search for the cheapest tensors keeps.
MOST_SUMS = 256
# Share of the time for minimum cuts.
_CUTS_SHARE = 0.6
# Approximate seconds for an op and a storage that may be absent, where time is counted in work.
_SECONDS_PER_ABSENCE = 5e-6


def bound_of_every_order(
    graph: Graph,
    problem: SpillProblem,
    order: Sequence[int],
    *,
    share: bool,
    deadline: Deadline | None = None,
) -> MovedBound:
    """The bound proved by ops that leave too little room, which holds for every order.

    Ops are taken one after another, by falling excess, if they raise the bound. The constants are
    added, which begin in the slow pool. When the deadline passes, the remaining ops are left out,
    which lowers the bound. The search needs 2 × ops² bits of memory: graphs with more ops than
    ``every_order_ops`` of the tuning get no such bound.
    """
    if not graph.ops or len(graph.ops) > active().every_order_ops:
        return MovedBound(0, NOTHING)
    deadline = deadline or Deadline(math.inf)
    ops = CrowdedOps(graph, problem, order, share=share)
    chosen = _Chosen(ops)
    for op in ops.crowded(deadline.share(_CUTS_SHARE)):
        if deadline.expired():
            break
        chosen.add_if_better(op)
        deadline.spend(_SECONDS_PER_ABSENCE * len(op.absent))
    unit = problem.grain << PLACES
    value = -(-((ops.costs.streamed << PLACES) + chosen.total) // unit) * problem.grain
    if not value:
        return MovedBound(0, NOTHING)
    proof = ForcedMoves(tuple(ops.proof(one) for one in chosen.ops))
    return MovedBound(value, FORCED_MOVES, proof)


def bound_of_peak(problem: SpillProblem, least: int) -> MovedBound:
    """The bound proved by bytes that some op needs in every order, if they were searched for."""
    costs = AbsenceCosts(problem)
    items = [
        (costs.write[row] + (costs.read[row] if costs.is_read[row] else 0), costs.room[row])
        for row in np.flatnonzero(costs.may_be_absent).tolist()
    ]
    paid = cheapest_cover(items, least - problem.capacity)
    value = -(-(costs.streamed + paid) // problem.grain) * problem.grain
    return MovedBound(value, LEAST_PEAK)


class _Chosen:
    """Ops that prove a bound together, and the cost that each adds to it.

    Attributes
    ----------
    ops
        The ops.
    total
        The cost that they prove, in units of ``2**-PLACES``.
    """

    def __init__(self, facts: CrowdedOps):
        self.facts = facts
        self.ops: list[CrowdedOp] = []
        self.total = 0
        self._proved: list[int] = []
        # For each storage, the ops at which it may be absent.
        self._at: dict[int, list[int]] = {}

    def add_if_better(self, op: CrowdedOp) -> None:
        """Take another op if it raises the total."""
        proved = self._proved_with(op)
        total = self.total + sum(proved.values())
        total -= sum(self._proved[k] for k in proved if k < len(self.ops))
        if total <= self.total:
            return
        for storage in op.absent:
            self._at.setdefault(storage, []).append(len(self.ops))
        self.ops.append(op)
        self._proved.append(0)
        for k, cost in proved.items():
            self._proved[k] = cost
        self.total = total

    def _proved_with(self, op: CrowdedOp) -> dict[int, int]:
        """The cost that another op proves, and anew those of all that share storages with it."""
        new = len(self.ops)
        meets = {k for storage in op.absent for k in self._at.get(storage, ())} | {new}
        every = [*self.ops, op]
        also = set(op.absent)
        parts: dict[int, dict[int, int]] = {}
        for k in meets:
            for storage in every[k].absent:
                if storage not in parts:
                    at = [*self._at.get(storage, ()), *([new] if storage in also else [])]
                    shares = self._parts(storage, [every[one] for one in at])
                    parts[storage] = dict(zip(at, shares, strict=True))
        room = self.facts.costs.room
        return {
            k: cheapest_cover(
                [(parts[storage][k], room[storage]) for storage in every[k].absent],
                every[k].excess,
            )
            for k in sorted(meets)
        }

    def _parts(self, storage: int, at: Sequence[CrowdedOp]) -> list[int]:
        """The part of a storage's cost that each op may count, in units of ``2**-PLACES``.

        It is written to the slow pool once. It is read from there once for all ops between which it
        need not be read.
        """
        facts = self.facts
        parts = [(facts.costs.write[storage] << PLACES) // len(at)] * len(at)
        due = [k for k, op in enumerate(at) if facts.is_read_after(storage, op.op)]
        group = {k: {k} for k in due}
        for k in due:
            for other in due[: due.index(k)]:
                if group[k] is not group[other] and not facts.is_read_between(
                    storage, at[k].op, at[other].op
                ):
                    joined = group[k] | group[other]
                    group |= dict.fromkeys(joined, joined)
        for k in due:
            parts[k] += (facts.costs.read[storage] << PLACES) // len(group[k])
        return parts


def cheapest_cover(items: Sequence[tuple[int, int]], needed: int) -> int:
    """Least cost of items whose rooms are together as large as needed, or a bound on it.

    Exact unless more than ``MOST_SUMS`` sums of room are worth keeping: then what is left to decide
    may be taken in part. O(items × sums).

    Parameters
    ----------
    items
        Cost and room of each.
    needed
        Room; if all items together are smaller, no plan fits, and the result is the cost of all.
    """
    if needed <= 0:
        return 0
    ranked = sorted(items, key=lambda item: item[0] / item[1])
    best, have = 0, 0
    for cost, room in ranked:
        if have < needed:
            best, have = best + cost, have + room
    sums = [(0, 0)]  # room and cost, both rising
    for cost, room in ranked:
        # No item left costs less for its room than this one.
        sums = [one for one in sums if one[1] * room + (needed - one[0]) * cost < best * room]
        if len(sums) > MOST_SUMS:
            return min(paid + (needed - have) * cost // room for have, paid in sums)
        more = [(have + room, paid + cost) for have, paid in sums]
        best = min([best, *(paid for have, paid in more if have >= needed)])
        kept: list[tuple[int, int]] = []
        for have, paid in sorted([*sums, *more], key=lambda one: (one[1], -one[0])):
            if have < needed and (not kept or have > kept[-1][0]):
                kept.append((have, paid))
        sums = kept
    return best
