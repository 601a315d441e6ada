"""Which ops run again: a sequence within a memory limit, packed into that limit.

First what needs no repetition: the given order, then searched ones. Then sequences by eviction,
local search and CP-SAT, the cheapest first. What they limit is live bytes; where packing needs more
than the limit, they are asked for that much less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cpplan.anf import Program
from cpplan.deadline import Deadline, TimeUpError
from cpplan.errors import InputError
from cpplan.remat.chain import as_chain, solve_chain
from cpplan.remat.eviction import RULES, Evictions
from cpplan.remat.footprint import Footprint, least_footprint
from cpplan.remat.local_search import search_sequences
from cpplan.remat.outcome import RematOutcome
from cpplan.remat.problem import RematProblem, remat_problem
from cpplan.residency import Residency
from cpplan.stages.ordering import search_order
from cpplan.stages.packed import Packed

GIVEN, ONCE = "given order", "every op once"
# Of what is left: for orders without repetition, for a sequence, for packing it.
ORDER_SHARE, SEQUENCE_SHARE, PACKING_SHARE = 0.3, 0.4, 0.4
# A sequence that needs so much more than the limit may be brought below it.
NEAR = 1.15
# Peaks tried on the way to the least one under a cost limit.
BISECTIONS = 8
# After Ctrl-C a sequence is known but not yet packed: so many seconds for heuristics.
GRACE = 1.0
# CP-SAT on larger problems only costs time.
MOST_UNITS = 80


class Packer(Protocol):
    """Packs a program within a deadline."""

    def __call__(self, program: Program, deadline: Deadline, /) -> Packed: ...


@dataclass(frozen=True, slots=True)
class Rematerialized:
    """The best sequence, packed.

    Attributes
    ----------
    packed
        The program and its packing, which may exceed the limit if nothing better was found.
    outcome
        What was found and proved of its cost.
    footprint
        Bytes below which there is no sequence, and the unit that needs them.
    problem
        What the units are.
    """

    packed: Packed
    outcome: RematOutcome
    footprint: Footprint
    problem: RematProblem

    @property
    def footprint_op(self) -> str | None:
        """The op that needs most by itself."""
        unit = self.footprint.unit
        return None if unit is None else self.problem.ordering.names[unit]


class RematSearch:
    """A search for sequences of one program.

    Parameters
    ----------
    program
        Runs every op once.
    residency
        What the arena holds of the boundary.
    joint
        Whether the order may change; else first runs keep the program's order.
    pack
        Packs a program.
    workers, seed
        For the searches.
    report
        Called with a line about every better sequence.
    """

    def __init__(
        self,
        program: Program,
        residency: Residency,
        *,
        joint: bool,
        pack: Packer,
        workers: int,
        seed: int,
        report: Callable[[str], None] = lambda text: None,
    ):
        if len(program.order) > len(program.graph.ops):
            raise InputError("remat=True needs a program that runs every op once")
        self.program, self.joint, self.pack = program, joint, pack
        self.workers, self.seed, self._report = workers, seed, report
        self.problem = remat_problem(program, residency)
        self.footprint = least_footprint(self.problem)
        self.given = self._units(program)
        self.base = self.problem.total_cost(range(len(self.problem)))
        self._evictions: Evictions | None = None
        self._orders = [(GIVEN, self.given)]
        self._known = [self._start]
        self._chain = as_chain(self.problem)
        self._hopeless = False

    def within(self, limit: int, deadline: Deadline) -> Rematerialized:
        """The cheapest sequence found whose packing has at most ``limit`` bytes."""
        if self.footprint.bytes > limit:
            return self._packed(self._start, deadline)
        best: Rematerialized | None = None
        target = limit
        try:
            while True:
                outcome = self._sequence(target, deadline.share(SEQUENCE_SHARE))
                found = self._packed(outcome, deadline.share(PACKING_SHARE))
                if best is None or _rank(found, limit) < _rank(best, limit):
                    best = found
                over = found.packed.peak - limit
                if over <= 0 or self._hopeless or deadline.expired():
                    break
                if outcome.peak <= target:
                    # Packing has lost some bytes: ask for so many less.
                    target = max(self.footprint.bytes, target - over)
        except KeyboardInterrupt:
            deadline.cancel()
        return best or self._packed(min(self._known, key=_better(limit)), Deadline(GRACE))

    def cheap(self, most: float, deadline: Deadline) -> Rematerialized:
        """The smallest packing found of a sequence that costs at most ``most``."""
        best = self._packed(self._start, deadline.share(1 / BISECTIONS))
        low, high = self.footprint.bytes, self._start.peak
        try:
            for left in range(BISECTIONS, 0, -1):
                if low >= high or deadline.expired():
                    break
                limit = (low + high) // 2
                slot = deadline.share(1 / left)
                outcome = self._sequence(limit, slot.share(SEQUENCE_SHARE), goal=most)
                if outcome.peak > limit or outcome.cost > most:
                    low = limit + 1
                    continue
                high = outcome.peak
                found = self._packed(outcome, slot)
                if found.packed.peak < best.packed.peak:
                    best = found
        except KeyboardInterrupt:
            deadline.cancel()
        return best

    @property
    def _start(self) -> RematOutcome:
        """The given order, every unit once."""
        peak = self.problem.peak(self.given)
        return RematOutcome(tuple(self.given), peak, self.base, self.base, GIVEN, ONCE)

    def _sequence(self, limit: int, deadline: Deadline, goal: float = 0) -> RematOutcome:
        """The cheapest sequence within a limit on live bytes; of least peak if none fits."""
        problem = self.problem
        best = self._once(limit, deadline)
        if best.peak <= limit:
            return best
        try:
            if self._chain is not None:
                chain = solve_chain(problem, self._chain, limit, deadline)
                self._hopeless = chain is None
                return best if chain is None else chain
            for name, order in self._orders:
                best = min([best, *self._evict(name, order, limit, deadline)], key=_better(limit))
            if self.joint:
                best = self._search(limit, best, goal, deadline)
            if len(problem) <= MOST_UNITS:
                best = self._prove(limit, best, deadline)
        except TimeUpError:
            pass
        return best

    def _search(
        self, limit: int, start: RematOutcome, goal: float, deadline: Deadline
    ) -> RematOutcome:
        """Local search from the start, and first from what was found for another limit."""
        found = [start]
        near = [o for o in self._known if o.cost < start.cost and o.peak <= NEAR * limit]
        slots = [(o, deadline.share(0.5)) for o in sorted(near, key=_better(limit))[:1]]
        for begin, slot in [*slots, (start, deadline)]:
            if any(o.peak <= limit for o in found[1:]):
                begin = min(found[1:], key=_better(limit))
            outcome = search_sequences(
                self.problem,
                limit,
                begin.sequence,
                slot,
                goal_cost=goal,
                seed=self.seed,
                report=self._tell,
            )
            self._tell(outcome)
            found.append(outcome)
        return min(found, key=_better(limit))

    def _once(self, limit: int, deadline: Deadline) -> RematOutcome:
        """The best order without repetition."""
        problem = self.problem

        def outcome(name: str, order: Sequence[int]) -> RematOutcome:
            peak = problem.peak(order)
            return RematOutcome(tuple(order), peak, self.base, self.base, name, ONCE)

        if self.joint and len(self._orders) == 1 and problem.peak(self.given) > limit:
            found = search_order(
                problem.ordering,
                np.array(self.given, np.int64),
                deadline.share(ORDER_SHARE),
                goal=limit,
                seed=self.seed,
            )
            self._orders.append((found.found_by, found.order.tolist()))
        return min((outcome(*order) for order in self._orders), key=lambda o: o.peak)

    def _evict(
        self, name: str, order: Sequence[int], limit: int, deadline: Deadline
    ) -> list[RematOutcome]:
        if self._evictions is None:
            self._evictions = Evictions(self.problem)
        found = []
        for rule in RULES:
            sequence = self._evictions.run(order, limit, rule, deadline)
            if sequence is not None:
                peak, cost = self.problem.peak(sequence), self.problem.total_cost(sequence)
                source = f"{name}, eviction"
                found.append(RematOutcome(sequence, peak, cost, self.base, source, ONCE))
                self._tell(found[-1])
        return found

    def _prove(self, limit: int, best: RematOutcome, deadline: Deadline) -> RematOutcome:
        """CP-SAT with at most two runs of each unit, and then three."""
        from cpplan.search.cp_sat_remat import improve_sequence

        for copies in (2, 3):
            if best.cost <= best.bound and best.peak <= limit:
                break
            found = improve_sequence(
                self.problem,
                limit,
                best.sequence,
                deadline.share(0.5),
                copies=copies,
                free_order=self.joint,
                workers=self.workers,
                seed=self.seed,
                report=self._tell,
            )
            if found is not None:
                bound = max((found.bound, found.bound_by), (best.bound, best.bound_by))
                best = min(best, found, key=_better(limit))
                best = best._replace(bound=bound[0], bound_by=bound[1])
        return best

    def _packed(self, outcome: RematOutcome, deadline: Deadline) -> Rematerialized:
        program = Program(self.program.graph, self.problem.expand(outcome.sequence))
        packed = self.pack(program, deadline)
        return Rematerialized(packed, outcome, self.footprint, self.problem)

    def _tell(self, outcome: RematOutcome) -> None:
        self._known.append(outcome)
        extra = outcome.cost / self.base - 1 if self.base else 0.0
        self._report(f"{outcome.found_by}: {outcome.peak} B live, cost +{extra:.2%}")

    def _units(self, program: Program) -> list[int]:
        """The program's order as units."""
        unit_of = {op: unit for unit, ops in enumerate(self.problem.units) for op in ops}
        return list(dict.fromkeys(unit_of[op] for op in program.order))


def _better(limit: int) -> Callable[[RematOutcome], tuple[int, float]]:
    """What fits is better than what does not; the cheaper, then."""
    return lambda outcome: (max(0, outcome.peak - limit), outcome.cost)


def _rank(found: Rematerialized, limit: int) -> tuple[int, float]:
    return max(0, found.packed.peak - limit), found.outcome.cost
