"""Divisions worth packing, in the order in which they are tried.

A *room* is a limit on the estimated peak. For each room and each limit on the cost, the division
with the fewest pieces is tried: a few large buffers leave fewer holes than many small ones. Rooms
and costs come from fixed grids, which do not depend on the user's limits: so whatever is tried at
one cost limit is tried at every larger limit, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from cpplan.splitting.frontier import Choice, Division, Frontier

# Multiples of the smallest estimated peak. The divisions with the fewest pieces within these
# peaks are packed first, in this order: a few large buffers leave fewer holes.
_LOOSER = (1.2, 1.06, 1.0, 1.12, 1.5, 2.0)
# Multiples of the smallest estimated peak for a first plan of few pieces.
_QUICK = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0)
# Ratio between neighbours in the grid of all other peaks tried.
_ROOM_RATIO = 1.04
# Grid of costs, as multiples of the cost of running every op once.
COST_LEVELS = (
    1.0,
    1.005,
    1.01,
    1.02,
    1.03,
    1.05,
    1.07,
    1.1,
    1.15,
    1.2,
    1.3,
    1.4,
    1.5,
    1.75,
    2.0,
    3.0,
)


class Candidates:
    """Divisions with the fewest pieces for each room and cost of the grids, each of them once.

    Parameters
    ----------
    frontier
        Computes the divisions of each room.
    known
        Divisions of ever smaller peak at ever larger cost, the cheapest first.
    most
        Limit on the cost of a division.
    base
        Cost of running every op once.
    seen
        Divisions tried before; those yielded here are added.
    """

    def __init__(
        self,
        frontier: Frontier,
        known: Sequence[Division],
        most: float,
        base: float,
        seen: set[tuple[Choice, ...]],
    ):
        self._frontier, self._known, self._most = frontier, known, most
        self._base, self._seen = base, seen
        self._within: dict[int, list[Division]] = {}

    def nearest_first(self, high: Callable[[], int], quick: float = math.inf) -> Iterator[Division]:
        """Candidates of rooms up to ``high``, beginning with the rooms that most often win.

        First comes the division with the fewest pieces of each room, then all others. If the very
        first has more than ``quick`` pieces, one of fewer comes before it.
        """
        if not self._known:
            return
        rooms = self._rooms(high())

        def nearest(factors: Sequence[float]) -> list[int]:
            least = self._known[-1].peak if rooms else 0
            return [
                min(rooms, key=lambda room: abs(math.log(room / (least * factor))))
                for factor in factors
                if least > 0
            ]

        rooms = list(dict.fromkeys([*nearest(_LOOSER), *rooms]))
        for found in chain(
            self._quick(rooms[:1], nearest(_QUICK), quick),
            (division for room in rooms for division in self._fewest(room)[-1:]),
            (division for room in rooms for division in self._fewest(room)),
        ):
            if found.peak <= high() and self._is_new(found):
                yield found

    def _quick(self, first: Sequence[int], rooms: Sequence[int], most: float) -> Iterator[Division]:
        """The division in the least room with at most ``most`` pieces, if the first has more.

        If all have more, the one with the fewest.
        """
        if all(division.pieces <= most for room in first for division in self._fewest(room)[-1:]):
            return
        found: list[Division] = []
        for room in rooms:
            found += self._fewest(room)[-1:]
            if found and found[-1].pieces <= most:
                break
        if found:
            yield min(found, key=lambda division: division.pieces)

    def lightest_first(self, high: int, weigh: Callable[[Division], int]) -> Iterator[Division]:
        """Candidates of rooms up to ``high``, the least weight first."""
        found = [division for room in self._rooms(high) for division in self._fewest(room)]
        yield from filter(self._is_new, sorted(found, key=weigh))

    def _is_new(self, division: Division) -> bool:
        known = division.choices in self._seen
        self._seen.add(division.choices)
        return not known and division.pieces <= self._frontier.most_pieces

    def _rooms(self, high: int) -> list[int]:
        """Rooms from the least peak known up to ``high``, ascending."""
        if not self._known:
            return []
        ratio, low = _ROOM_RATIO, self._known[-1].peak
        steps = range(
            math.ceil(math.log(max(low, 1)) / math.log(ratio)),
            math.ceil(math.log(max(high, 1)) / math.log(ratio)),
        )
        grid = {math.floor(ratio**k) for k in steps}
        peaks = {division.peak for division in self._known}
        return sorted(room for room in grid | peaks if low <= room <= high)

    def _fewest(self, room: int) -> list[Division]:
        """For each cost of the grid, the division with the fewest pieces; the cheapest first."""
        if room not in self._within:
            found = [d for d in self._frontier.lightest(room) if d.cost <= self._most]
            limits = [self._base * level for level in COST_LEVELS]
            chosen = {0} if found else set()
            for limit in limits:
                if limit <= self._most:
                    within = [k for k, division in enumerate(found) if division.cost <= limit]
                    chosen.update(within[-1:])
            self._within[room] = [found[k] for k in sorted(chosen)]
        return self._within[room]
