"""The search for pieces: regions and styles, then the ordinary planner on the graph of pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cpplan.aliasing.packed import Packed
from cpplan.model.costs import sum_costs
from cpplan.model.pieces import Pieces
from cpplan.model.plan import RelationKind
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.runtime.budget import tuned
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.bounds import LeastPiece, least_piece
from cpplan.splitting.frontier import Division, find_divisions
from cpplan.splitting.piece_graph import PieceGraph
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.schedule import coarsen, schedule
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
    """

    packed: Packed
    pieces: tuple[Pieces, ...]
    graph: PieceGraph | None
    cost: int | float
    base: int | float
    least: LeastPiece
    limit: int | None = None


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
    report
        Called with a line about everything found.
    """

    def __init__(
        self,
        unsplit: Packed,
        residency: Residency,
        sharing: frozenset[RelationKind],
        *,
        pack: Packer,
        report: Callable[[str], None] = lambda text: None,
    ):
        assert isinstance(unsplit.source, Program)
        self.problem = SplitProblem(unsplit.source, residency, sharing)
        self.base = sum_costs(op.cost for op in self.problem.ops)
        self.least = least_piece(self.problem)
        self._pack, self._report = pack, report
        self._unsplit = Split(unsplit, (), None, unsplit.source.cost, self.base, self.least)
        self._divisions: list[Division] | None = None

    def divisions(self, deadline: Deadline) -> list[Division]:
        """Divisions of less peak at more cost, as estimated; the cheapest first."""
        if self._divisions is None:
            known = find_divisions(self.problem, deadline)
            self._divisions = known
            if known:
                low, high = known[-1], known[0]
                self._report(
                    f"regions in pieces: from {high.peak} B at cost {high.cost:.6g} to "
                    f"{low.peak} B at cost {low.cost:.6g}"
                )
        return self._divisions

    def smallest(self, cost_limit: float, deadline: Deadline, goal: int | None = None) -> Split:
        """The plan of fewest bytes at this multiple of the cost of running every op once."""
        tuning, best = tuned(SplittingTuning), self._unsplit
        most = cost_limit * self.base * (1 + _ROUNDING)
        if self._settled(best, goal):
            return best
        divisions = self.divisions(deadline.share(tuning.regions_share))
        within = [found for found in divisions if found.cost <= most]
        for number, division in enumerate(within[: -tuning.candidates - 1 : -1]):
            if division.peak >= best.packed.peak:
                break
            share = deadline.share(1 / max(1, tuning.candidates - number))
            for split in self._packings(division, share):
                if split.cost <= most and split.packed.peak < best.packed.peak:
                    best = split
                if self._settled(best, goal) or share.expired():
                    break
            if self._settled(best, goal) or deadline.expired():
                break
        return best

    def cheapest(self, limit: int, deadline: Deadline) -> Split:
        """The plan of least cost whose packing has at most ``limit`` bytes."""
        tuning, best = tuned(SplittingTuning), self._unsplit
        if best.packed.peak > limit and self.least.bytes <= limit:
            divisions = self.divisions(deadline.share(tuning.regions_share))
            for division in (found for found in divisions if found.peak <= limit):
                share = deadline.share(0.5)
                for split in self._packings(division, share, limit):
                    if split.packed.peak < best.packed.peak:
                        best = split
                    if best.packed.peak <= limit or share.expired():
                        break
                if best.packed.peak <= limit or deadline.expired():
                    break
        return Split(best.packed, best.pieces, best.graph, best.cost, best.base, best.least, limit)

    def _settled(self, best: Split, goal: int | None) -> bool:
        return best.packed.peak <= max(self.least.bytes, goal or 0)

    def _packings(
        self, division: Division, deadline: Deadline, room: int | None = None
    ) -> Iterator[Split]:
        """Packings of a division: first in large pieces, then in small ones."""
        tuning = tuned(SplittingTuning)
        rooms = [division.peak] if room is None else [room, division.peak]
        tried: list[Sequence[object]] = []
        for peak in rooms:
            coarse = coarsen(self.problem, division._replace(peak=peak), tuning.coarser)
            for choices in (coarse.choices, division.choices):
                if choices in tried:
                    continue
                tried.append(choices)
                graph, program = schedule(self.problem, choices)
                if len(program.order) > tuning.most_pieces:
                    continue
                packed = self._pack(program, deadline.share(0.6))
                self._report(
                    f"{len(graph.graph.ops)} pieces, {division.peak} B live as estimated, "
                    f"{packed.peak} B packed, cost {program.cost:.6g}"
                )
                yield Split(packed, graph.cuts, graph, program.cost, self.base, self.least)
