"""One run of ``solve``: its options, and its stages in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from cpplan.aliasing.packed import Packed
from cpplan.aliasing.solve import SharingSearch
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Progress, RelationKind
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.ordering.bounds import FORCED
from cpplan.ordering.problem import OrderProblem, order_problem
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.pools.objective import is_peak
from cpplan.packing.problem import as_problem, as_program
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.packing.solve import pack, pack_by
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import Program
from cpplan.program.constraints import with_first_last
from cpplan.runtime.budget import Budget, tuned
from cpplan.runtime.collection import without_collection
from cpplan.runtime.deadline import Deadline
from cpplan.solving.joint import improve_jointly, joint_problem
from cpplan.solving.relaxed_bound import RelaxedBound
from cpplan.solving.request import Request
from cpplan.solving.tuning import SolvingTuning
from cpplan.splitting.tuning import SplittingTuning

if TYPE_CHECKING:
    from cpplan.ordering.solve import OrderSearch
    from cpplan.remat.solve import Rematerialized
    from cpplan.splitting.solve import Split, SplitSearch

# Why a run with a searched order may end early.
ALL_ORDERS = "the searches for orders and for orders with offsets have ended"
ORDERS_ALONE = (
    "the searches for orders and for offsets have ended, and for both together the graph is too "
    "large, has bodies or has ends that are given"
)
NO_TIME_TO_SHARE = "too little time is left to learn which tensors may share bytes"
NO_TIME_TO_ORDER = "too little time is left to search for orders"


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its options, the one deadline, and the history that all stages write.

    Attributes
    ----------
    request
        Of whoever called ``solve``.
    budget
        For all stages together.
    residency
        What the arena holds of the boundary.
    sharing
        The kinds of relations that may be chosen.
    target, limit
        A peak that ends the run; one that must not be exceeded.
    history
        Every improvement.
    reasons
        Reasons why stages ended without a proof although there was time left.
    """

    request: Request
    budget: Budget
    residency: Residency
    sharing: frozenset[RelationKind]
    target: int | None
    limit: int | None
    history: list[Progress] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def deadline(self) -> Deadline:
        """For all stages together."""
        return self.budget.deadline

    @property
    def _tuning(self) -> SolvingTuning:
        return self.budget.tuned(SolvingTuning)

    def pack(
        self,
        source: Program | Problem,
        deadline: Deadline,
        best: Packed | None = None,
        *,
        quick: bool = False,
    ) -> Packed:
        """Packing of one order; ``best`` is the packing of another order so far.

        If it is to be quick, by heuristics alone.
        """
        start, built = deadline.elapsed(), 0.0
        with without_collection():
            problem = as_problem(source, self.residency, self.request.pools)
        if len(problem) >= tuned(PackingTuning).many_buffers:
            # To read, sort and reduce so much takes about as long as to verify it in the end.
            built = deadline.elapsed() - start
            tuning = self._tuning
            deadline.reserve((tuning.sharing_checked if self.sharing else tuning.checked) * built)
        if not is_peak(problem, self.request.objective):
            return self._pack_pools(source, problem, deadline)

        def record(peak: int, bound: int, name: str) -> None:
            known = peak if best is None else min(peak, best.peak)
            self.record(known, bound if best is None else None, name)

        if self.sharing and isinstance(source, Program):
            return self._pack_sharing(source, problem, deadline, record, built, quick=quick)
        incumbent = Incumbent(problem, target=self.target, limit=self.limit, report=record)
        try:
            if self.request.algorithm is not None:
                pack_by(self.request.algorithm, incumbent, deadline)
            else:
                pack(incumbent, self.budget.until(deadline), most_effort=0 if quick else None)
        except KeyboardInterrupt:
            self.deadline.cancel()
        return Packed(source, problem, incumbent=incumbent)

    def place(self, program: Program, offsets: Ints, name: str) -> Packed:
        """Packing from offsets found together with the program, one a buffer of its problem."""
        problem = as_problem(program, self.residency)
        incumbent = Incumbent(problem, target=self.target, limit=self.limit)
        incumbent.replace(offsets[incumbent.reduction.rows], name)
        return Packed(program, problem, incumbent=incumbent)

    def _pack_sharing(
        self,
        program: Program,
        problem: Problem,
        deadline: Deadline,
        record: Callable[[int, int, str], None],
        built: float,
        *,
        quick: bool,
    ) -> Packed:
        reading = None
        if built and self.request.algorithm is None:
            reading = deadline.share(self._tuning.sharing_reading_share)
            if _is_short(reading, self._tuning.sharing_reading * built):
                reading.cancel()
        search = SharingSearch(
            program,
            problem,
            self.residency,
            kinds=self.sharing,
            target=self.target,
            limit=self.limit,
            seed=self.budget.seed,
            report=record,
            reading=reading,
        )
        if search.late:
            self.stop_early(NO_TIME_TO_SHARE)
        try:
            if self.request.algorithm is not None:
                search.pack_by(self.request.algorithm, deadline)
            elif quick:
                search.pack_quickly(deadline)
            else:
                search.run(self.budget.until(deadline))
        except KeyboardInterrupt:
            self.deadline.cancel()
        return Packed(program, problem, sharing=search)

    def _pack_pools(
        self, source: Program | Problem, problem: Problem, deadline: Deadline
    ) -> Packed:
        from cpplan.aliasing.pools import pack_in_pools

        def record(value: object, bound: object, name: str) -> None:
            if value is not None:
                self.record(
                    None, None, f"{self.request.objective} {value}, at least {bound}: {name}"
                )

        return pack_in_pools(
            source,
            problem,
            self.residency,
            self.request.objective,
            self.budget.until(deadline),
            sharing=self.sharing,
            algorithm=self.request.algorithm,
            report=record,
        )

    def rematerialize(self, source: Program | Problem) -> Rematerialized:
        """The cheapest program within the limit, or the smallest within a limit on the cost."""
        from cpplan.aliasing.alias_candidates import find_candidates
        from cpplan.remat.solve import RematSearch

        if not isinstance(source, Program):
            raise InputError("remat=True needs a graph: a bare problem has no ops to run again")
        joint, cost_limit = self.request.order == "search", self.request.cost_limit
        candidates = find_candidates(source.graph, self.residency, self.sharing)
        # Where nothing can be shared, what is proved of live bytes holds.
        run = self if candidates else replace(self, sharing=frozenset())
        search = RematSearch(
            source,
            self.residency,
            joint=joint,
            order=run.search_within(source) if joint else None,
            pack=run.pack,
            place=run.place if self.request.pools is None and not run.sharing else None,
            candidates=candidates,
            report=lambda text: self.record(None, None, text),
            stop_early=self.stop_early,
        )
        if cost_limit is not None:
            found = search.smallest(cost_limit * search.base, self.budget)
            pooled, limit = found.packed.pooled, self.limit
            if pooled is None and limit is not None and found.packed.peak > limit:
                return replace(found, limit=limit)  # the one pool does not hold it
            return found
        limit = self.limit
        if limit is None:
            limit = sum(pool.capacity or 0 for pool in self.request.pools or ())
        return search.cheapest(limit, self.budget)

    def split(self, source: Program | Problem) -> Split:
        """The fewest bytes within a limit on the cost, or the least cost within the limit."""
        search, limit = self.split_search(source), self.limit
        again = self.request.remat and search.unsplit.packed.peak > search.least.bytes
        share = self.budget.tuned(SplittingTuning).once_share
        once: Split | None = None
        if again:
            once = replace(search.smallest(1.0, self.deadline.share(share)), limit=limit)
        deadline = self.deadline.share(share) if again else self.deadline
        if limit is not None and self.request.cost_limit is None:
            found = search.cheapest(limit, deadline)
        else:
            found = search.smallest(self.request.cost_limit or 1.0, deadline, once)
        found = replace(found, limit=limit)
        if once is None:
            return found
        # Neither pieces alone nor whole ops that run again may be better than both together.
        if search.unsplit.packed.source is not once.packed.source:
            share = self.budget.tuned(SplittingTuning).whole_again_share
            whole = self._run_again(search.unsplit, self.deadline.share(share))
            found = self._better(found, whole)
        return self._better(found, self._run_again(once, self.deadline))

    def _run_again(self, once: Split, deadline: Deadline) -> Split:
        """The schedule that runs ops or pieces again, of those that a split runs once."""
        program = once.packed.source
        assert isinstance(program, Program)
        order = tuple(dict.fromkeys(program.order))
        run = replace(self, budget=self.budget.until(deadline))
        packed = run.rematerialize(Program(program.graph, order)).packed
        assert isinstance(packed.source, Program)
        return replace(once, packed=packed, cost=packed.source.cost, limit=self.limit)

    def _better(self, one: Split, other: Split) -> Split:
        """The split of fewer bytes, or of less cost if both are within the limit."""
        limit = self.limit if self.request.cost_limit is None else None

        def value(split: Split) -> tuple[float, float]:
            bytes_over = max(split.packed.peak, limit or 0)
            return bytes_over, split.cost if limit is not None else split.packed.peak

        return min(one, other, key=value)

    def split_search(self, source: Program | Problem) -> SplitSearch:
        """The search for pieces, which has planned the program without any."""
        from cpplan.splitting.solve import SplitSearch

        if not isinstance(source, Program):
            raise InputError("split=True needs a graph: a bare problem has no ops to split")
        if len(source.order) > len(source.graph.ops):
            raise InputError("split=True needs a program that runs every op once")
        if source.graph.symbols is not None:
            raise InputError("split=True needs fixed sizes: bind the graph's variables first")
        free = replace(self, target=None, limit=None)
        first = self.deadline.share(self.budget.tuned(SplittingTuning).unsplit_share)
        if self.request.order == "search":
            unsplit, _ = free.search_within(source)(first)
        else:
            unsplit = free.pack(source, first)
        return SplitSearch(
            unsplit,
            self.residency,
            self.sharing,
            pack=free.pack,
            order=free.search_within,
            piece_bytes=self.request.piece_bytes,
            report=lambda text: self.record(None, None, text),
        )

    def search_within(self, source: Program) -> Callable[[Deadline], tuple[Packed, str]]:
        """Function that searches for orders by its own deadline, and names the best's source."""

        def search(deadline: Deadline) -> tuple[Packed, str]:
            packed, outcome = replace(self, budget=self.budget.until(deadline)).search(source)
            return packed, outcome.found_by

        return search

    def search(self, source: Program | Problem) -> tuple[Packed, OrderOutcome]:
        """The best order and its offsets; the given order where that packs better."""
        if not isinstance(source, Program):
            raise InputError("order='search' needs a graph: a bare problem has no ops to order")
        tuning = self._tuning
        free = not (self.request.first or self.request.last)
        turns = self._search_order(source)
        outcome = next(turns)
        programs = [Program(source.graph, tuple(outcome.order.tolist()))]
        if source.order != programs[0].order and free:
            programs.append(source)
        # Without a rival, nothing depends on it.
        rivals = len(programs) > 1
        floors = [self._floor(program) if rivals else 0 for program in programs]
        best: Packed | None = None
        for program, floor in zip(programs, floors, strict=True):
            if best is not None and (best.cannot_be_beaten_by(floor) or best.good_enough):
                break
            rival = best is None and floors[-1] < tuning.rival * floor and len(floors) > 1
            deadline = self._packing_deadline(many=_has_many_ops(source))
            if rival and not self.deadline.expired():
                deadline = self.deadline.share(tuning.first_packing_share)
            packed = self.pack(program, deadline, best)
            if best is None or packed.value < best.value:
                if best is not None:
                    outcome = outcome._replace(found_by="given order")
                best = packed
        assert best is not None
        if self.request.algorithm is not None or best.pooled is not None:
            return best, outcome
        if free:
            best, outcome = self._search_jointly(best, outcome, tuning.joint_ops)
        best, outcome = self._go_on(best, outcome, turns)
        if free:
            best, outcome = self._search_jointly(best, outcome, tuning.joint_ops_in_the_end)
        if not (self._settled(best, outcome) or self.reasons):
            most_ops = tuning.joint_ops_in_the_end
            joint = free and joint_problem(source, self.residency, most_ops) is not None
            self.stop_early(ALL_ORDERS if joint else ORDERS_ALONE)
        return best, outcome

    def _settled(self, best: Packed, outcome: OrderOutcome) -> bool:
        """True if nothing is left to search for: proved, good enough, or proved not to fit."""
        hopeless = self.limit is not None and outcome.bound > self.limit
        return hopeless or best.good_enough or best.peak <= outcome.bound

    def _search_jointly(
        self, best: Packed, outcome: OrderOutcome, most_ops: int
    ) -> tuple[Packed, OrderOutcome]:
        """Improve order, aliases and offsets together, if that is still of use."""
        if self._settled(best, outcome) or self.deadline.expired():
            return best, outcome
        return improve_jointly(
            best, outcome, self.residency, self.budget, most_ops=most_ops, report=self.record
        )  # fmt: skip

    def _go_on(
        self, best: Packed, outcome: OrderOutcome, turns: Iterator[OrderOutcome]
    ) -> tuple[Packed, OrderOutcome]:
        """Search for orders while a gap and time are left, and pack those that may be better."""
        if self._settled(best, outcome) or self.deadline.expired():
            return best, outcome
        source, tried = best.source, {tuple(outcome.order.tolist())}
        assert isinstance(source, Program)
        for found in turns:
            if found.bound > outcome.bound:
                outcome = outcome._replace(
                    bound=found.bound, bound_by=found.bound_by, certificate=found.certificate
                )
            order = tuple(found.order.tolist())
            if order not in tried:
                tried.add(order)
                program = Program(source.graph, order)
                if not best.cannot_be_beaten_by(self._floor(program)):
                    packed = self.pack(
                        program, self._packing_deadline(many=_has_many_ops(source)), best
                    )
                    if packed.value < best.value:
                        best, outcome = (
                            packed,
                            outcome._replace(
                                order=found.order, peak=found.peak, found_by=found.found_by
                            ),
                        )
            if self._settled(best, outcome) or self.deadline.expired():
                break
        return best, outcome

    def _turn(self) -> Deadline:
        """For a turn of the search for orders; the last one takes what little is left."""
        left, tuning = self.deadline.remaining(), self._tuning
        last = left <= tuning.last_turn * self.deadline.seconds
        return self.deadline.share(1 if last else tuning.order_share)

    def _packing_deadline(self, *, many: bool) -> Deadline:
        """The run's deadline, or a grace if none is left: an order is of no use until packed.

        Many buffers have a first plan without it.
        """
        by_clock = not (self.deadline.deterministic or self.deadline.cancelled)
        if self.deadline.remaining() > self._tuning.moment or (many and by_clock):
            return self.deadline
        by_work = self.deadline.deterministic and not self.deadline.cancelled
        return Deadline(self._tuning.grace, deterministic=by_work)

    def _search_order(self, source: Program) -> Iterator[OrderOutcome]:
        """The best order after each share of the time left, until there is nothing more to try."""
        from cpplan.ordering.solve import OrderSearch

        first, last = self.request.first, self.request.last
        graph = with_first_last(source.graph, first, last)
        if len(source.order) != len(graph.ops):
            raise InputError("order='search' needs a program that runs every op once")
        position = {op.name: k for k, op in enumerate(source.graph.ops)}
        given = source if not (first or last) else as_program(graph)
        assert isinstance(given, Program)
        begin, built = self.deadline.elapsed(), 0.0
        ordering = order_problem(graph, self.residency)
        if _has_many_ops(source):
            built = self.deadline.elapsed() - begin
            self.deadline.reserve(self._tuning.order_checked * built)
        start = np.array(given.order, np.int64)
        # With first and last, the graph lists its ops anew: back to the source's numbers.
        number = np.array([position[op.name] for op in graph.ops], np.int64)
        tuning = self._tuning
        needed = built * (tuning.order_reading_shared if self.sharing else tuning.order_reading)
        if _is_short(self.deadline, needed):
            self.stop_early(NO_TIME_TO_ORDER)
            yield OrderOutcome(number[start], ordering.peak(start), 0, "given order", FORCED)
            return
        proof, complete = None, True
        if self.sharing:
            ordering, relaxed, complete = self._shared_ordering(graph, ordering)
            proof = RelaxedBound(*relaxed, start, self.budget)
        # Until the search has said something, the given order is all there is.
        outcomes = [OrderOutcome(start, ordering.peak(start), 0, "given order", FORCED)]

        def report(outcome: OrderOutcome) -> None:
            if not complete:
                # Other candidates may save more in other orders: what was proved says nothing.
                outcome = outcome._replace(bound=0, bound_by=FORCED, certificate=None)
            elif proof is not None:
                outcome = proof.unproved(outcome)
            known = outcomes[-1]
            outcomes.append(outcome)
            if len(outcomes) == 2 or (outcome.peak, outcome.bound) != (known.peak, known.bound):
                self.record(None, outcome.bound, f"{outcome.found_by}: {outcome.peak} B live")

        search: OrderSearch | None = None
        ended = False
        while not ended:
            try:
                turn = self._turn()
                if search is None:
                    target = self.target or 0
                    search = OrderSearch(
                        ordering, start, self.budget.until(turn), target=target, report=report
                    )
                search.run(turn)
                ended = search.done or search.exhausted
                known = outcomes[-1]
                if proof is not None and complete:
                    share = self.deadline.share(self._tuning.bound_share)
                    outcomes.append(proof.proved(known, share))
                elif proof is not None:
                    bound, name, flow = proof.run(self.deadline.share(self._tuning.bound_share))
                    if bound > known.bound:
                        self.record(None, bound, f"{name}, whatever is shared")
                    outcomes.append(known._replace(bound=bound, bound_by=name, certificate=flow))
                    ended &= proof.ended
            except KeyboardInterrupt:
                self.deadline.cancel()
            yield outcomes[-1]._replace(order=number[outcomes[-1].order])

    def _shared_ordering(
        self, graph: Graph, ordering: OrderProblem
    ) -> tuple[OrderProblem, tuple[OrderProblem, int], bool]:
        """The problem under the candidates that hold in any order, and a relaxed one.

        The third value is True if no other candidates could save more: what is proved of the first
        problem then holds for every order and all candidates.
        """
        from cpplan.aliasing.alias_candidates import find_candidates
        from cpplan.aliasing.segments import relax_sharing, share_in_any_order

        candidates = find_candidates(graph, self.residency, self.sharing)
        shared, complete = share_in_any_order(graph, ordering, self.residency, candidates)
        return shared, relax_sharing(ordering, candidates), complete

    def _floor(self, program: Program) -> int:
        """Lower bound on the bytes live at once in this order, whichever aliases are used."""
        problem = as_problem(program, self.residency)
        if not self.sharing:
            return int(problem.live_bytes().max(initial=0))
        from cpplan.aliasing.alias_candidates import find_candidates
        from cpplan.aliasing.bounds import shared_bound
        from cpplan.aliasing.lives import ProgramLives

        candidates = find_candidates(program.graph, self.residency, self.sharing)
        return shared_bound(
            problem, candidates, ProgramLives(program, problem, self.residency)
        ).value

    def stop_early(self, reason: str) -> None:
        """Record why a stage ends without a proof, if it has time left."""
        if not self.deadline.expired() and reason not in self.reasons:
            self.reasons.append(reason)

    def record(self, peak: int | None, bound: int | None, source: str) -> None:
        """Record an improvement, and report it to the caller's listener."""
        event = Progress(self.deadline.elapsed(), peak, bound, source)
        self.history.append(event)
        if self.request.progress is not None:
            self.request.progress(event)


def _has_many_ops(program: Program) -> bool:
    """True if linear work on the program takes a share of the time worth counting."""
    return len(program.order) >= tuned(PackingTuning).many_buffers


def _is_short(deadline: Deadline, seconds: float) -> bool:
    """True if less than this time is left by the clock, seconds."""
    return not deadline.deterministic and deadline.remaining() < seconds
