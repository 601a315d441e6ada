"""The search for pieces: regions and styles, then the ordinary planner on the graph of pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, cycle
from types import MappingProxyType
from typing import Protocol

from cpplan.aliasing.packed import Packed
from cpplan.model.costs import sum_costs
from cpplan.model.plan_data import RelationKind
from cpplan.model.residency import Residency
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import Program, to_anf
from cpplan.runtime.budget import tuned
from cpplan.runtime.compiled import load, prepare
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.between_pieces import Between, least_between
from cpplan.splitting.bounds import least_piece
from cpplan.splitting.candidates import COST_LEVELS, Candidates
from cpplan.splitting.elements import element_cuts, line_cuts
from cpplan.splitting.frontier import Choice, Division, Frontier
from cpplan.splitting.halves import WORK_PER_PIECE, halved, order_of_parts
from cpplan.splitting.loops import SPLITTING
from cpplan.splitting.outcome import Split
from cpplan.splitting.piece_graph import PieceGraph, split_graph
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.schedule import after_what_they_wait_for, schedule, whole_ops_in_order
from cpplan.splitting.tuning import SplittingTuning
from cpplan.splitting.written_in_turn import with_writers_together

# Least seconds expected to derive a piece; of many ops, also this multiple of the time to build the
# problem.
_LEAST_PACE, _FIRST_DERIVED = 3e-5, 4.0
# Share of the time left for regions and their styles.
_REGIONS_SHARE = 0.4
# Share of the time left for plans by heuristics alone.
_TRIALS_SHARE = 0.5
# Share of the time left that the first plan may take; else one of fewer pieces comes before it.
_QUICK_SHARE = 0.5
# Share of the time left for each plan that is packed again.
_AGAIN_SHARE = 0.25
# Share of the time left for the best order of a plan's pieces, and of single lines.
_ORDER_SHARE = 0.5
# Share of the time left for the best order of the halves of pieces, the last thing searched.
_LAST_ORDER_SHARE = 0.8
# Share of the time left for each cost at which a plan may fit into a limit.
_LIMIT_SHARE = 0.35
# Time reserved to check the plan, as a multiple of the time to derive its pieces.
_CHECKED = 4.5
# Time needed to pack a graph of pieces by heuristics, as a multiple of the time to derive it.
_SLOWER = 3.0
# Share of the time for the bound at no more work.
_BOUND_SHARE = 0.1
# Relative tolerance for sums of floating-point costs.
_ROUNDING = 1e-9
_NO_BYTES: Mapping[str, int] = MappingProxyType({})
Orderer = Callable[[Program], Callable[[Deadline], tuple[Packed, str]]]


class Packer(Protocol):
    """Function that packs a program by a deadline; if ``quick``, by heuristics alone."""

    def __call__(self, source: Program, deadline: Deadline, *, quick: bool = False) -> Packed:
        """The packing."""
        ...


class SplitSearch:
    """A search for the pieces of one program.

    Parameters
    ----------
    unsplit
        The plan without pieces; regions follow one another in its order.
    residency, sharing
        Which tensors of the boundary the arena holds, and which may share bytes.
    deadline
        Deadline of the whole run, whose clock tells what the plans of many pieces will take.
    pack, pack_more
        Packs a program by a deadline; improves such a packing by search.
    order
        Function of a program that searches for its best order by a deadline.
    free
        True if ops may run in any order; else those that run whole keep their order.
    piece_bytes
        Op -> bytes outside the arena that the runtime keeps for each run beyond its first, if there
        are any. Plans are ranked by the sum of these bytes and the peak.
    report
        Function that is called with a line of text for each step of the search.

    Attributes
    ----------
    unsplit
        The plan without pieces, as a :class:`Split`.
    hurried
        True if some pieces were not tried, since too little time was left.
    """

    def __init__(
        self,
        unsplit: Packed,
        residency: Residency,
        sharing: frozenset[RelationKind],
        deadline: Deadline,
        *,
        pack: Packer,
        pack_more: Callable[[Packed, Deadline], None],
        order: Orderer,
        free: bool = False,
        piece_bytes: Mapping[str, int] = _NO_BYTES,
        report: Callable[[str], None] = lambda text: None,
    ):
        assert isinstance(unsplit.source, Program)
        begin = deadline.elapsed()
        self._deadline = deadline
        self.problem = SplitProblem(unsplit.source, residency, sharing, piece_bytes)
        program = with_writers_together(self.problem)
        if program.order != unsplit.source.order:
            self.problem = replace(self.problem, program=program)
        self.base = sum_costs(op.cost for op in self.problem.ops)
        self.least = least_piece(self.problem)
        self._pack, self._pack_more, self._order, self._free = pack, pack_more, order, free
        # Bytes of one run of every op.
        self._weighed, self._report = bool(piece_bytes), report
        self._once = int(self.problem.weights.sum())
        self.unsplit = Split(unsplit, (), None, unsplit.source.cost, self.base, self.least)
        self._frontier: Frontier | None = None
        self._divisions: list[Division] = []
        # Divisions tried so far, and the most seconds that it took to derive a piece.
        self._seen: set[tuple[Choice, ...]] = set()
        self._pace, many = _LEAST_PACE, len(self.problem.ops)
        if many >= tuned(PackingTuning).many_buffers:
            self._pace = max(self._pace, _FIRST_DERIVED * (deadline.elapsed() - begin) / many)
        # Seconds reserved to check the plans that are kept.
        self._checks = 0.0
        self.hurried = False
        self._between: Between | None = None

    def divisions(self, deadline: Deadline) -> list[Division]:
        """Divisions of ever smaller estimated peak at ever larger cost, the cheapest first."""
        if self._frontier is None:
            # Compile and load the loops before the time for regions is measured.
            if prepare(SPLITTING, deadline):
                load(SPLITTING)
            share = deadline.share(_REGIONS_SHARE)
            self._frontier = Frontier(self.problem, share, self.least.bytes)
            self._divisions = known = self._frontier.divisions()
            self._report(
                f"regions in pieces: from {known[0].peak} B at cost {known[0].cost:.6g} to "
                f"{known[-1].peak} B at cost {known[-1].cost:.6g}"
            )
        return self._divisions

    def cost_limits(self, count: int, deadline: Deadline) -> list[float]:
        """Multiples of the base cost at which the estimated peak falls, ascending from 1."""
        if self.unsplit.packed.peak <= self.least.bytes:
            return []
        divisions = self.divisions(deadline)
        costs = sorted({max(1.0, found.cost / max(self.base, 1)) for found in divisions})
        if len(costs) <= count:
            return costs
        if count == 1:
            return costs[:1]
        return [costs[k * (len(costs) - 1) // (count - 1)] for k in range(count)]

    def keep(self, split: Split, deadline: Deadline) -> None:
        """Reserve the time to check a plan that is kept, in addition to earlier reserves."""
        self._checks += _CHECKED * split.derived
        deadline.reserve(self._checks)

    def smallest(
        self,
        cost_limit: float,
        deadline: Deadline,
        known: Split | None = None,
        *,
        again: bool = True,
    ) -> Split:
        """The plan of fewest bytes within a multiple of the cost of running every op once.

        The bytes are those of the arena and of the pieces. ``known`` is the plan found at a smaller
        limit, if there is one: divisions tried for it are not tried again. Any division tried at a
        smaller limit that may be better is also tried at a larger one. If ``again``, promising
        plans are packed once more, not by heuristics alone.
        """
        if known is None:
            self._seen.clear()
        most, best = cost_limit * self.base * (1 + _ROUNDING), known or self.unsplit
        if cost_limit > 1.0:
            return replace(self._least(most, deadline, best, again=again), between=None)
        if self._between is None and self._value(best) > self.least.bytes:
            self._between = least_between(self.problem, deadline.share(_BOUND_SHARE))
        enough = 0 if self._between is None else self._between.bytes
        found = self._least(most, deadline, best, enough=enough, again=again)
        return replace(found, between=self._between if found.cost <= self.base else None)

    def _least(
        self, most: float, deadline: Deadline, best: Split, *, enough: int = 0, again: bool = True
    ) -> Split:
        """The plan of fewest bytes within a cost; one of ``enough`` bytes ends the search."""
        enough = max(enough, self.least.bytes)
        if self._value(best) <= enough:
            return best
        within = [found for found in self.divisions(deadline) if found.cost <= most]
        until = deadline.share(_TRIALS_SHARE if again else 1.0)
        tried: list[Split] = []
        for split in chain(
            self._trials(within, most, deadline, self._value(best), until=until),
            self._elements(until),
        ):
            if split.cost > most:
                continue
            if self._rank(split) < self._rank(best):
                best = split
            if self._value(best) <= enough:
                return best
            tried.append(split)
            self._keep_promising(tried)
        return self._best_searched(best, tried, deadline) if again else best

    def _keep_promising(self, tried: list[Split]) -> None:
        """Keep the most promising plans of all, and the best one within each cost of the grid."""
        tuning = tuned(SplittingTuning)
        tried.sort(key=self._promise)
        kept = tried[: tuning.most_packed_again]
        for level in COST_LEVELS:
            limit = level * self.base * (1 + _ROUNDING)
            kept += [split for split in tried if split.cost <= limit][:1]
        tried[:] = [split for split in tried if any(split is other for other in kept)]

    def _promise(self, split: Split) -> int:
        """Sum of a plan's value and the bound on it: the smaller, the more promising."""
        return self._value(split) + self._floor(split)

    def _floor(self, split: Split) -> int:
        """Lower bound on the value of every packing of a plan's program."""
        return self._value(split) - split.packed.peak + split.packed.bound.value

    def _best_searched(self, best: Split, tried: list[Split], deadline: Deadline) -> Split:
        """The best plan after packing promising ones again, and the best in the time left."""
        share = _AGAIN_SHARE
        for split in tried:
            if self._floor(split) < self._value(best):
                self.pack_again(split, deadline.share(share))
                best = min(best, split, key=self._rank)
        best = min(best, self._reordered(best, deadline.share(_ORDER_SHARE)), key=self._rank)
        halved = self._halved(best, deadline)
        if halved is not best:
            self.pack_again(halved, deadline.share(_AGAIN_SHARE))
            ordered = self._reordered(halved, deadline.share(_LAST_ORDER_SHARE))
            best = min(best, halved, ordered, key=self._rank)
        self.pack_again(best, deadline)
        return best

    def _halved(self, split: Split, deadline: Deadline) -> Split:
        """The plan with its pieces cut in two, again and again, while fewer bytes are then live.

        The parts run in the order of the pieces.
        """
        most = tuned(SplittingTuning).most_halves
        if split.graph is None or split.runs_again or len(split.program.order) > most:
            return split
        rank = max((len(tensor.shape or ()) for tensor in self.problem.graph.tensors), default=0)
        places, failed = cycle(range(rank)), 0
        while failed < rank and not deadline.expired():
            assert split.graph is not None
            finer = halved(self.problem, split.graph, next(places), deadline)
            failed += 1
            if finer is None or len(finer.graph.ops) > most:
                continue
            order = order_of_parts(split.graph, split.program.order, finer)
            packed = self._pack(Program(finer.graph, tuple(order)), deadline, quick=True)
            self._report(f"{len(finer.graph.ops)} halves of pieces, {packed.peak} B packed")
            found = replace(self._split(packed, finer), derived=split.derived)
            if self._floor(found) < self._floor(split):
                split, failed = found, 0
        return split

    def _reordered(self, split: Split, deadline: Deadline) -> Split:
        """The plan in the best order of its pieces found, if that was not searched yet.

        Regions run one after another, and the pieces of each in an order that its style fixes. A
        plan in which pieces run again keeps that, and so does one that packing may still improve.
        """
        packed = split.packed
        packable = packed.peak > packed.bound.value
        if packable or split.ordered or split.runs_again:
            return split
        if split.graph is None or deadline.expired():
            return split
        order = split.program.order
        found = self._in_best_order(split.graph, order, deadline)
        self._report(f"{len(order)} pieces in another order, {found.peak} B packed")
        return replace(split, packed=found, ordered=True)

    def _in_best_order(
        self, pieces: PieceGraph, order: Sequence[int], deadline: Deadline
    ) -> Packed:
        """Pieces in the best order found, which begins with a given one."""
        graph = pieces.graph if self._free else whole_ops_in_order(pieces, self.problem.ops)
        if not graph.columns.runs_in(tuple(order)):
            order = after_what_they_wait_for(order, graph.predecessors)
        packed, _ = self._order(Program(graph, tuple(order)))(deadline)
        assert isinstance(packed.source, Program)
        return replace(packed, source=Program(pieces.graph, packed.source.order))

    def cheapest(self, limit: int, deadline: Deadline) -> Split:
        """The plan of least cost whose packing has at most ``limit`` bytes.

        Among plans of equal cost, the one with the fewest bytes if pieces cost bytes; else the
        first one found.
        """
        best = self.unsplit
        self._seen.clear()
        if best.packed.peak > limit and self.least.bytes <= limit:
            fits = [known for known in self.divisions(deadline) if known.peak <= limit]
            once = self.base * (1 + _ROUNDING)
            # Of what costs more the smaller peak is easier to pack. If nothing fits, the smallest
            # plan tells how many bytes are missing.
            searches: list[Callable[[Deadline], Split]] = [
                *(partial(self._best_within, limit, each) for each in fits if each.cost <= once),
                lambda share: self._least(once, share, self.unsplit, enough=limit),
                *(partial(self._best_within, limit, each) for each in fits if each.cost > once),
                lambda share: self._least(math.inf, share, self.unsplit, enough=limit),
            ]
            for number, search in enumerate(searches, start=1):
                found = search(deadline.share(1.0 if number == len(searches) else _LIMIT_SHARE))
                best = min(best, found, key=lambda split: self._fitting(split, limit))
                if best.packed.peak <= limit or deadline.expired():
                    break
        return replace(best, limit=limit)

    def _best_within(self, limit: int, division: Division, deadline: Deadline) -> Split:
        """The best plan within a division's cost, packed once more if it does not fit."""
        best = self.unsplit
        most, below = division.cost * (1 + _ROUNDING), math.inf if self._weighed else limit + 1
        for split in self._trials([division], most, deadline, below, limit):
            if best is self.unsplit or self._fitting(split, limit) < self._fitting(best, limit):
                best = split
            if best.packed.peak <= limit and not self._weighed:
                break
        if best.packed.peak > limit:
            self.pack_again(best, deadline)
        return best

    def _fitting(self, split: Split, limit: int) -> tuple[bool, int]:
        """Rank of a plan in the search for one that fits into a limit."""
        fits = split.packed.peak <= limit
        return (not fits, self._value(split) if fits else split.packed.peak)

    def _rank(self, split: Split) -> tuple[int, float]:
        """Rank of a plan in the search for the fewest bytes."""
        return self._value(split), split.cost

    def _value(self, split: Split) -> int:
        """Bytes by which plans are ranked: those of the arena and those of the pieces."""
        if not self._weighed or split.graph is None:
            return split.packed.peak
        bytes_of, source = self.problem.piece_bytes, split.graph.source
        kept = sum(bytes_of.get(source[op.name], 0) for op in split.program.ops)
        return split.packed.peak + kept - self._once

    def pack_again(self, split: Split, deadline: Deadline) -> None:
        """Improve the packing of a plan by search, in the time left."""
        if split.packed.peak > split.packed.bound.value and not deadline.expired():
            self._pack_more(split.packed, deadline)

    def _trials(
        self,
        known: Sequence[Division],
        most: float,
        deadline: Deadline,
        below: float,
        limit: float = math.inf,
        until: Deadline | None = None,
    ) -> Iterator[Split]:
        """Yield plans of divisions estimated below ``below``; each better plan lowers it.

        Parameters
        ----------
        known
            Divisions of ever smaller peak at ever larger cost.
        most
            Limit on the cost of a division.
        limit
            Limit on the estimated peak of a division.
        until
            Deadline after which no trial begins; ``deadline`` if left out.
        """
        assert self._frontier is not None
        candidates = Candidates(self._frontier, known, most, self.base, self._seen)
        if self._weighed:
            order = candidates.lightest_first(int(min(below - 1, limit)), self._weight)
        else:
            order = candidates.nearest_first(lambda: int(below) - 1, self._quick(deadline))
        for division in order:
            if (until or deadline).expired():
                return
            if self._weighed and self._weight(division) >= below:
                return
            split = self._trial(division, deadline)
            if split is None:
                continue
            if split.packed.peak <= limit and self._value(split) < below:
                below = self._value(split)
                # The time to check a plan is proportional to the time to derive it.
                deadline.reserve(self._checks + _CHECKED * split.derived)
            yield split

    def _quick(self, deadline: Deadline) -> float:
        """Pieces of a plan that leaves time for others: derived, packed and checked.

        By the clock, a plan that takes too long is dropped; by counted work, none is.
        """
        if deadline.endless:
            return math.inf
        pace = max(WORK_PER_PIECE, self._pace)
        return _QUICK_SHARE * deadline.remaining() / (pace * (1 + _SLOWER + _CHECKED))

    def _weight(self, division: Division) -> int:
        return division.peak + division.weight - self._once

    def _trial(self, division: Division, deadline: Deadline) -> Split | None:
        """Plan of a division by heuristics alone, or ``None`` if it has too many pieces or none.

        What only takes too long now may be tried again, with more time.
        """
        found = self._in_time(division, deadline)
        if found is None:
            self._seen.discard(division.choices)
            return None
        graph, program, derived = found
        assert self._frontier is not None
        # Without cuts it is the program without pieces, at best in another order.
        if not graph.cuts or len(program.order) > self._frontier.most_pieces:
            return None
        # What begins within a share of the time may last beyond it; by counted work, which is spent
        # to the end, packing may then take as much as deriving did.
        until, work = self._deadline, WORK_PER_PIECE * len(program.order)
        if until.deterministic and until.remaining() < work:
            until = until.anew(work, deterministic=True)
        packed = self._pack(program, until, quick=True)
        self._report(
            f"{len(graph.graph.ops)} pieces, {division.peak} B live as estimated, "
            f"{packed.peak} B packed, cost {program.cost:.6g}"
        )
        return replace(self._split(packed, graph), derived=derived)

    def _in_time(
        self, division: Division, deadline: Deadline
    ) -> tuple[PieceGraph, Program, float] | None:
        """The pieces of a division and their time; ``None`` if packing them would take too long."""
        if self._takes_too_long(self._pace * division.pieces, derive=True):
            return None
        begin = deadline.elapsed()
        graph, program = schedule(self.problem, division.choices)
        deadline.spend(WORK_PER_PIECE * len(program.order))
        derived = deadline.elapsed() - begin
        self._pace = max(self._pace, derived / max(division.pieces, 1))
        if graph.cuts and self._takes_too_long(derived):
            return None
        return graph, program, derived

    def _takes_too_long(self, derived: float, *, derive: bool = False) -> bool:
        """True if the run has no time left to pack and check pieces that take so long to derive."""
        left = self._deadline.remaining(self._checks + _CHECKED * derived)
        late = not self._deadline.endless and (derive + _SLOWER) * derived > left
        self.hurried |= late
        return late

    def _elements(self, deadline: Deadline) -> Iterator[Split]:
        """Yield plans of a small program in single steps, and lines, at the best orders found."""
        tuning, problem = tuned(SplittingTuning), self.problem
        if any(op.bodies for op in problem.ops):
            return  # a body that shares a tensor needs it whole
        for cuts in (
            element_cuts(problem, tuning.most_elements),
            *line_cuts(problem, tuning.most_lines),
        ):
            if cuts and not deadline.expired():
                begin = deadline.elapsed()
                graph = split_graph(problem.graph, cuts, problem.lines)
                derived, given = deadline.elapsed() - begin, to_anf(graph.graph).order
                deadline.spend(WORK_PER_PIECE * len(given))
                packed = self._in_best_order(graph, given, deadline.share(_ORDER_SHARE))
                self._report(f"{len(graph.graph.ops)} single steps, {packed.peak} B packed")
                yield replace(self._split(packed, graph), derived=derived, ordered=True)

    def _split(self, packed: Packed, graph: PieceGraph) -> Split:
        assert isinstance(packed.source, Program)
        cost = packed.source.cost
        return Split(packed, graph.cuts, graph, cost, self.base, self.least, weighed=self._weighed)
