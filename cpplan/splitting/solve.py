"""The search for pieces: regions and styles, then the ordinary planner on the graph of pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cpplan.aliasing.packed import Packed
from cpplan.model.costs import sum_costs
from cpplan.model.pieces import Pieces
from cpplan.model.plan import RelationKind
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.runtime.budget import tuned
from cpplan.runtime.compiled import load, prepare
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.bounds import LeastPiece, least_piece
from cpplan.splitting.frontier import Choice, Division, Frontier
from cpplan.splitting.loops import SPLITTING
from cpplan.splitting.piece_graph import PieceGraph
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.schedule import schedule
from cpplan.splitting.tuning import SplittingTuning

# Relative room for sums of floating-point costs.
_ROUNDING = 1e-9
Packer = Callable[[Program, Deadline], Packed]


@dataclass(frozen=True, slots=True)
class Split:
    """The best plan found, with or without pieces.

    Attributes
    ----------
    packed
        The program of pieces and its packing, which may exceed the limit if nothing better was
        found.
    pieces, graph
        Cuts of the ops, and the graph of pieces; none if no op runs in pieces.
    cost, base
        Sum of the costs of all runs, and of every op once.
    least
        Bytes that every splitting needs.
    limit
        Limit on the bytes, if there is one.
    weighed
        True if plans were ranked by more than their peaks.
    """

    packed: Packed
    pieces: tuple[Pieces, ...]
    graph: PieceGraph | None
    cost: int | float
    base: int | float
    least: LeastPiece
    limit: int | None = None
    weighed: bool = False


class SplitSearch:
    """A search for the pieces of one program.

    Parameters
    ----------
    unsplit
        The plan without pieces, which gives the order in which regions follow one another.
    residency, sharing
        What the arena holds of the boundary, and what may share bytes.
    pack
        Packs a program by a deadline.
    piece_bytes
        Bytes that each run beyond one per op costs the runtime, besides the arena: plans are
        ranked by the sum.
    report
        Called with a line about everything found.

    Attributes
    ----------
    unsplit
        The plan without pieces, in this form.
    """

    def __init__(
        self,
        unsplit: Packed,
        residency: Residency,
        sharing: frozenset[RelationKind],
        *,
        pack: Packer,
        piece_bytes: int = 0,
        report: Callable[[str], None] = lambda text: None,
    ):
        assert isinstance(unsplit.source, Program)
        self.problem = SplitProblem(unsplit.source, residency, sharing)
        self.base = sum_costs(op.cost for op in self.problem.ops)
        self.least = least_piece(self.problem)
        self._pack, self._piece_bytes, self._report = pack, piece_bytes, report
        self.unsplit = Split(unsplit, (), None, unsplit.source.cost, self.base, self.least)
        self._frontier: Frontier | None = None
        self._divisions: list[Division] = []

    def divisions(self, deadline: Deadline) -> list[Division]:
        """Divisions of less peak at more cost, as estimated; the cheapest first."""
        if self._frontier is None:
            # Neither compiling nor loading the loops takes from the time for regions.
            if prepare(SPLITTING, deadline):
                load(SPLITTING)
            share = deadline.share(tuned(SplittingTuning).regions_share)
            self._frontier = Frontier(self.problem, share)
            self._divisions = known = self._frontier.divisions()
            self._report(
                f"regions in pieces: from {known[0].peak} B at cost {known[0].cost:.6g} to "
                f"{known[-1].peak} B at cost {known[-1].cost:.6g}"
            )
        return self._divisions

    def cost_limits(self, count: int, deadline: Deadline) -> list[float]:
        """Multiples of the base cost at which estimates of the peak fall, ascending from 1."""
        if self.unsplit.packed.peak <= self.least.bytes:
            return []
        divisions = self.divisions(deadline)
        costs = sorted({max(1.0, found.cost / max(self.base, 1)) for found in divisions})
        if len(costs) <= count:
            return costs
        if count == 1:
            return costs[:1]
        return [costs[k * (len(costs) - 1) // (count - 1)] for k in range(count)]

    def smallest(self, cost_limit: float, deadline: Deadline, known: Split | None = None) -> Split:
        """The plan of fewest bytes at this multiple of the cost of running every op once.

        The bytes are those of the arena and of the pieces. ``known`` is a plan within the limit,
        if there is one besides the plan without pieces.
        """
        best = known or self.unsplit
        most = cost_limit * self.base * (1 + _ROUNDING)
        if self._value(best) <= self.least.bytes:
            return best
        divisions = self.divisions(deadline)
        within = [found for found in divisions if found.cost <= most]
        # The smallest at all the cost that is allowed come first, as they have the fewest pieces.
        least = [within[-1]._replace(cost=most)] if within else []
        if self._piece_bytes:
            below = self._value(best)
            found = self._weighed_packings(least, below - 1, deadline, below)
        else:
            known_ones = _spread(within, tuned(SplittingTuning).levels)[::-1]
            found = self._packings([least, known_ones], deadline, best.packed.peak)
        for split in found:
            if split.cost <= most and self._value(split) < self._value(best):
                best = split
            if self._value(best) <= self.least.bytes:
                break
        return self._packed_again(best, deadline)

    def cheapest(self, limit: int, deadline: Deadline) -> Split:
        """The plan of least cost whose packing has at most ``limit`` bytes.

        Of those of one cost, the one of fewest bytes, if pieces cost any; else the first.
        """

        def rank(split: Split) -> tuple[bool, int]:
            fits = split.packed.peak <= limit
            return (not fits, self._value(split) if fits else split.packed.peak)

        tuning, best = tuned(SplittingTuning), self.unsplit
        if best.packed.peak > limit and self.least.bytes <= limit:
            divisions = self.divisions(deadline)
            fits = [known for known in divisions if known.peak <= limit]
            for number, division in enumerate(fits):
                # Of two that cost as good as nothing more, the smaller is easier to pack.
                share = deadline.share(1.0 if number + 1 == len(fits) else tuning.limit_share)
                if self._piece_bytes:
                    found = self._weighed_packings([division], limit, share, math.inf)
                else:
                    found = self._packings([[division]], share, limit + 1)
                for split in found:
                    if rank(split) < rank(best):
                        best = split
                    if best.packed.peak <= limit and not self._piece_bytes:
                        break
                if best.packed.peak <= limit or deadline.expired():
                    break
            else:
                # Nothing fits: the smallest says by how much.
                for split in self._packings([divisions[-1:]], deadline, best.packed.peak):
                    if split.packed.peak < best.packed.peak:
                        best = split
                    if best.packed.peak <= limit:
                        break
        return replace(best, limit=limit)

    def _value(self, split: Split) -> int:
        """Bytes by which plans are ranked: of the arena, and of runs beyond one per op."""
        assert isinstance(split.packed.source, Program)
        return self._weigh(split.packed.peak, len(split.packed.source.order))

    def _weigh(self, peak: int, runs: int) -> int:
        return peak + self._piece_bytes * (runs - len(self.problem.ops))

    def _packed_again(self, best: Split, deadline: Deadline) -> Split:
        """The best plan, packed once more in the time left."""
        program = best.packed.source
        if best.graph is None or best.packed.peak <= best.packed.bound.value or deadline.expired():
            return best
        assert isinstance(program, Program)
        packed = self._pack(program, deadline)
        return replace(best, packed=packed) if packed.peak < best.packed.peak else best

    def _packings(
        self, turns: Iterable[Sequence[Division]], deadline: Deadline, below: int
    ) -> Iterator[Split]:
        """Packings of fewer than ``below`` bytes: divisions of fewest pieces near known ones.

        Those of one turn are tried at all multiples of their peaks before those of the next.
        """
        assert self._frontier is not None
        tuning = tuned(SplittingTuning)
        tried: set[tuple[Choice, ...]] = set()
        for factor, least in (
            (f, each) for known in turns for f in tuning.looser for each in known
        ):
            room = int(least.peak * factor)
            if deadline.expired():
                return
            if room >= below:
                continue
            division = self._frontier.fewest_pieces(room, least.cost * (1 + _ROUNDING))
            few = division is not None and division.pieces <= tuning.most_pieces
            if division is not None and few and division.choices not in tried:
                tried.add(division.choices)
                for split in self._pack_division(division, deadline):
                    below = min(below, split.packed.peak)
                    yield split

    def _weighed_packings(
        self, known: Sequence[Division], most: int, deadline: Deadline, below: float
    ) -> Iterator[Split]:
        """Packings of divisions that weigh less than ``below``, as estimated the lightest first.

        The divisions are those of fewest pieces, at the cost of known ones, within peaks from
        theirs up to ``most``. Packings within that lower ``below``.
        """
        assert self._frontier is not None
        tuning = tuned(SplittingTuning)
        found: dict[tuple[Choice, ...], Division] = {}
        for least in known:
            for room in _rooms(least.peak, most, tuning.rooms):
                if deadline.expired():
                    break
                division = self._frontier.fewest_pieces(room, least.cost * (1 + _ROUNDING))
                if division is not None and division.pieces <= tuning.most_pieces:
                    found.setdefault(division.choices, division)
        for division in sorted(
            found.values(), key=lambda each: self._weigh(each.peak, each.pieces)
        ):
            if deadline.expired() or self._weigh(division.peak, division.pieces) >= below:
                return
            for split in self._pack_division(division, deadline):
                if split.packed.peak <= most:
                    below = min(below, self._value(split))
                yield split

    def _pack_division(self, division: Division, deadline: Deadline) -> Iterator[Split]:
        """The packing of a division, unless it has too many pieces."""
        tuning = tuned(SplittingTuning)
        begin = deadline.elapsed()
        graph, program = schedule(self.problem, division.choices)
        needed = tuning.slower * (deadline.elapsed() - begin)
        if len(program.order) > tuning.most_pieces or needed > deadline.remaining():
            return
        share = max(tuning.packing_share, needed / max(deadline.remaining(), needed))
        packed = self._pack(program, deadline.share(share))
        self._report(
            f"{len(graph.graph.ops)} pieces, {division.peak} B live as estimated, "
            f"{packed.peak} B packed, cost {program.cost:.6g}"
        )
        weighed = self._piece_bytes > 0
        yield Split(packed, graph.cuts, graph, program.cost, self.base, self.least, weighed=weighed)


def _rooms(low: int, high: int, count: int) -> list[int]:
    """Byte counts from ``low`` to ``high`` by one ratio, no more than ``count``."""
    if low > high:
        return []
    ratio = high / max(low, 1)
    return sorted({high, *(int(low * ratio ** (k / count)) for k in range(count - 1))})


def _spread(divisions: list[Division], count: int) -> list[Division]:
    """Divisions spread over the list, no more than ``count``; the first and the last stay."""
    if len(divisions) <= count:
        return divisions
    return [divisions[k * (len(divisions) - 1) // (count - 1)] for k in range(count)]
