"""Search for the candidates to use, and for offsets, at a given order.

The search takes as many candidates as go together. While a gap is left, it tries fewer or other
candidates around the step of the peak, and packs each choice by heuristics. It then packs the best
choice by search; for small programs CP-SAT searches candidates and offsets together.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from cpplan.aliasing.alias_candidates import AliasCandidate, find_candidates
from cpplan.aliasing.alias_sets import AliasSets, SharingRules, form_alias_sets, place_alias_sets
from cpplan.aliasing.bounds import NAME as SHARED
from cpplan.aliasing.bounds import shared_bound
from cpplan.aliasing.distances import allowed_shifts
from cpplan.aliasing.lives import ProgramLives
from cpplan.aliasing.merged import Merged, merge_alias_sets, storages_of
from cpplan.aliasing.tuning import active
from cpplan.aliasing.value_numbers import Origins
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan_data import RelationKind
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.packing.bounds import Bound, largest_buffer_bound
from cpplan.packing.incumbent import Incumbent, Report
from cpplan.packing.levels import LevelIncumbent, OneLevel
from cpplan.packing.solve import pack, pack_by, run_heuristics
from cpplan.program.anf import Program
from cpplan.program.unrolled import unroll
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.turns import Turn, Turns
from cpplan.verification.verifier import check_offsets

# Longest turn, as a multiple of the first.
_MOST_EFFORT = 4**6

# Share of the time left for packing many buffers without sharing.
_PLAIN_SHARE = 0.3
# Neighbours of the best choice tried in the first turn.
_FIRST_MOVES = 20
# Share of the time left for packing one choice.
_PACKING_SHARE = 0.3
# CP-SAT's deterministic time in the first turn.
_FIRST_WORK = 0.1
# Largest number of buffer pairs for which CP-SAT runs: pairs live together in which at least one
# buffer may share bytes. Each pair makes three literals or more.
_CP_SAT_PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of candidates, and the best packing with them.

    Attributes
    ----------
    order
        All candidates, in the order in which they were tried.
    skip
        The candidates left out.
    alias_sets
        The alias sets that the other candidates form.
    merged
        The problem packed, one buffer per alias set.
    incumbent
        The best packing of that problem.
    """

    order: Sequence[AliasCandidate]
    skip: frozenset[AliasCandidate]
    alias_sets: AliasSets
    merged: Merged
    incumbent: Incumbent

    @property
    def peak(self) -> int:
        """The peak of the packing, bytes."""
        return self.incumbent.peak

    @property
    def offsets(self) -> Ints:
        """Offsets of the program's own buffers, bytes."""
        reduction, problem = self.incumbent.reduction, self.merged.problem
        return self.merged.spread(reduction.restore(self.incumbent.offsets, problem))


class _Facts(NamedTuple):
    """The candidates, the rules by which they go together, and a bound for every choice of them."""

    candidates: tuple[AliasCandidate, ...]
    rules: SharingRules
    bound: Bound


def _read(
    graph: Graph,
    problem: Problem,
    residency: Residency,
    kinds: Collection[RelationKind],
    lives: ProgramLives,
    deadline: Deadline,
) -> _Facts:
    """Candidates, rules and bound of a graph; raises ``TimeUpError`` once time is up."""
    poll = deadline.check
    poll()
    candidates = find_candidates(graph, residency, kinds, poll)
    origins = Origins(graph, candidates, poll)
    rules = SharingRules(storages_of(problem, origins.of), lives, origins, candidates)
    poll()
    return _Facts(candidates, rules, shared_bound(problem, candidates, lives, poll))


def _no_facts(graph: Graph, problem: Problem, lives: ProgramLives) -> _Facts:
    """No candidates, and a bound that holds even if storages share bytes."""
    rules = SharingRules({}, lives, Origins(graph, ()), ())
    return _Facts((), rules, largest_buffer_bound(problem))


class SharingSearch(LevelIncumbent[Choice]):
    """An anytime search for the best candidates at one order, and the best choice so far.

    Parameters
    ----------
    program
        Ops in order. It may run ops again: the copies share bytes like other tensors.
    problem
        The program's buffers.
    residency
        The boundary tensors that the arena holds.
    kinds
        Kinds of the candidates that may be used.
    target, limit
        As in :class:`~cpplan.packing.incumbent.Incumbent`.
    seed
        Seed of the random choices.
    report
        Called with peak, bound and source at every improvement.
    reading
        Deadline for finding the candidates; if it passes first, no bytes are shared.

    Attributes
    ----------
    lives
        Lifespans of the program's storages.
    late
        True if that deadline passed before all candidates were found.
    packed_quickly
        True if heuristics alone have packed it; ``run`` then begins with search.

    Raises
    ------
    InputError
        If a copy of a recomputed tensor would have the name of another tensor.
    """

    def __init__(
        self,
        program: Program,
        problem: Problem,
        residency: Residency,
        *,
        kinds: Collection[RelationKind],
        target: int | None = None,
        limit: int | None = None,
        seed: int = 0,
        report: Report = lambda peak, bound, source: None,
        reading: Deadline | None = None,
    ):
        self.problem, self.kinds = problem, frozenset(kinds)
        unrolled = unroll(program, residency)
        self.lives = ProgramLives(unrolled, problem, residency)
        deadline = reading or Deadline(math.inf)
        try:
            facts = _read(unrolled.graph, problem, residency, self.kinds, self.lives, deadline)
        except TimeUpError:
            facts = _no_facts(unrolled.graph, problem, self.lives)
        self.candidates, self.rules, bound = facts
        self.late, self.packed_quickly = bound.name != SHARED, False
        self._left_out: set[frozenset[AliasCandidate]] = set()
        self._random = random.Random(seed)
        # Every choice is packed towards this target and limit.
        self.target, self.limit = target, limit
        self.bounds = [bound]
        # Sharing must never give a larger peak: with many buffers, plan without sharing first.
        self._plain = self._pack(self.candidates, frozenset(self.candidates), AliasSets())
        self._many = len(problem) > active().many_buffers
        few = self.candidates and not self._many
        first = self._choose(self.candidates, frozenset()) if few else self._plain
        super().__init__(
            OneLevel(lambda choice: choice.peak), first, "bump", self.bounds,
            target=target, limit=limit,
            report=lambda search, source: report(search.values[0], search.bound.value, source),
        )  # fmt: skip

    def run(self, budget: Budget) -> None:
        """Improve the best choice until done or time is up."""
        deadline = budget.deadline

        def pack_alone(incumbent: Incumbent, slot: Deadline) -> None:
            pack(incumbent, budget.until(slot))

        def turn(effort: int) -> Turn:
            self._move(_FIRST_MOVES * effort, deadline)
            self._pack_again(None, budget, deadline)
            if not self.done:
                self._prove(_FIRST_WORK * effort, budget, deadline)
            return Turn.LONGER

        self.announce()
        try:
            if self.late:
                self._watch(self.best, pack_alone, deadline)
                return
            if self.packed_quickly:
                # Heuristics have found little else on other choices: search the best one first.
                self._watch(self.best, partial(_pack_until, budget, 1), deadline)
            else:
                self._pack_first(deadline)
            # With many buffers, packing the other choices takes as long as a proof: prove first.
            prove = partial(self._prove, _FIRST_WORK, budget)
            fewer = (self._try_fewer, partial(self._pack_again, 1, budget))
            for stage in (prove, *fewer) if self._many else (*fewer, prove):
                if not self.done:
                    stage(deadline)
            Turns(_MOST_EFFORT).run(turn, lambda: self.done, deadline)
        except TimeUpError:
            return

    def _pack_again(self, most_effort: int | None, budget: Budget, deadline: Deadline) -> None:
        """Pack the best choice by search, and the one that shares nothing.

        Both in turns up to an effort, if given: a short search often finds at once what no
        heuristic does on any other choice.
        """
        stage = partial(_pack_until, budget, most_effort)
        others = [] if self._plain is self.best else [self._plain]
        for choice in (self.best, *others):
            # The live bytes of a choice bound its peak.
            if not self.done and choice.incumbent.bound.value <= self.best.peak:
                self._watch(choice, stage, deadline.share(_PACKING_SHARE))

    def _pack_first(self, deadline: Deadline) -> None:
        """Run heuristics on the choice of all candidates; many buffers first without sharing."""
        if not self._many:
            self._run_heuristics(self.best, deadline)
            return
        try:
            self._run_heuristics(self.best, deadline.share(_PLAIN_SHARE))
        except TimeUpError:
            deadline.check()
        if not self.done and self.candidates:
            self._offer(self._choose(self.candidates, frozenset(), deadline), deadline)

    def pack_by(self, name: str, deadline: Deadline) -> None:
        """Let one heuristic alone pack the choice of all candidates that go together."""
        choice = self.choose_all()
        try:
            pack_by(name, choice.incumbent, deadline)
        finally:
            self.replace(choice, choice.incumbent.found_by)

    def pack_quickly(self, deadline: Deadline) -> None:
        """Pack by heuristics all candidates that go together; if a gap is left, without placements.

        Tensors that lie within others are so far from one another, and may leave holes.
        """
        placements = frozenset(one for one in self.candidates if not one.in_place)
        self.packed_quickly = True
        try:
            if self._many and self.candidates:
                self._offer(self._choose(self.candidates, frozenset(), deadline), deadline)
            else:
                self._run_heuristics(self.best, deadline)
            if placements != frozenset(self.candidates):
                self._leave_out(placements, deadline)
        except TimeUpError:
            return

    def choose_all(self) -> Choice:
        """The choice of all candidates that go together, not packed yet."""
        return self._choose(self.candidates, frozenset())

    def _choose(
        self,
        order: Sequence[AliasCandidate],
        skip: frozenset[AliasCandidate],
        deadline: Deadline | None = None,
    ) -> Choice:
        """The choice of all candidates except ``skip``; raises ``TimeUpError`` once time is up."""
        poll = deadline.check if deadline is not None else lambda: None
        return self._pack(order, skip, form_alias_sets(order, self.rules, skip, poll=poll))

    def _pack(
        self,
        order: Sequence[AliasCandidate],
        skip: frozenset[AliasCandidate],
        alias_sets: AliasSets,
    ) -> Choice:
        merged = merge_alias_sets(self.problem, alias_sets)
        target = max(self.target or 0, self.bound.value)
        incumbent = Incumbent(merged.problem, target=target, limit=self.limit)
        return Choice(order, skip, alias_sets, merged, incumbent)

    def _move(self, count: int, deadline: Deadline) -> None:
        """Try neighbours of the best choice: one candidate out, in, or moved to the front."""
        for _ in range(count):
            if self.done or not self.candidates:
                return
            deadline.check(1e-4 * len(self.problem))
            order, skip = self._neighbour(self.best)
            choice = self._choose(order, skip, deadline)
            # The live bytes of a choice bound its peak.
            if choice.incumbent.bound.value <= self.best.peak:
                self._offer(choice, deadline)

    def _neighbour(
        self, choice: Choice
    ) -> tuple[Sequence[AliasCandidate], frozenset[AliasCandidate]]:
        near = self._candidates_at_the_peak(choice)
        candidate = self._random.choice(near or self.candidates)
        if candidate in choice.skip:
            return choice.order, choice.skip - {candidate}
        if candidate in choice.alias_sets.candidates and self._random.random() < 0.7:
            return choice.order, choice.skip | {candidate}
        return (candidate, *(other for other in choice.order if other != candidate)), choice.skip

    def _candidates_at_the_peak(self, choice: Choice) -> list[AliasCandidate]:
        """Candidates of storages that are live at the highest buffer's steps."""
        ends = choice.offsets + self.problem.size
        top = int(np.argmax(ends))
        lower, upper = self.problem.lower[top], self.problem.upper[top]
        near = (self.problem.lower < upper) & (self.problem.upper > lower)
        names = {self.problem.names[row] for row in np.flatnonzero(near).tolist()}
        return [
            candidate
            for candidate in self.candidates
            if candidate.inner in names or candidate.outer in names
        ]

    def _try_fewer(self, deadline: Deadline) -> None:
        """Try only in-place candidates, only placements, and no candidates."""
        everything = frozenset(self.candidates)
        in_place = frozenset(candidate for candidate in self.candidates if candidate.in_place)
        for skip in (everything - in_place, in_place):
            if skip != everything:
                self._leave_out(skip, deadline)
        if self.packed_quickly or not self._many:
            self._leave_out(everything, deadline)

    def _leave_out(self, skip: frozenset[AliasCandidate], deadline: Deadline) -> None:
        """Pack the choice of all candidates but some by heuristics, once."""
        if self.done or not skip or skip in self._left_out:
            return
        self._left_out.add(skip)
        plain = len(skip) == len(self.candidates)
        choice = self._plain if plain else self._choose(self.candidates, skip, deadline)
        self._offer(choice, deadline)

    def _prove(self, work: float, budget: Budget, deadline: Deadline) -> None:
        """Search candidates and offsets together by CP-SAT, unless there are too many pairs."""
        from cpplan.aliasing.cp_sat import SHARING, sharing_model
        from cpplan.runtime.cp_sat_proof import Proof, prove_peak

        if self._pairs() > _CP_SAT_PAIRS:
            return
        shifts = allowed_shifts(self.problem, self.candidates, self.rules)

        def keep(proof: Proof[Ints]) -> None:
            self.offer_bound(0, proof.bound, SHARING)
            if proof.peak < self.best.peak:
                self.adopt(proof.best, SHARING)

        prove_peak(
            sharing_model(self.problem, shifts),
            self.best.offsets,
            budget.until(deadline),
            bound=self.bound.value,
            work=work,
            report=keep,
        )

    def _pairs(self) -> int:
        """Number of pairs live together with at least one buffer that may share bytes."""
        problem = self.problem
        sharing = {
            name for candidate in self.candidates for name in (candidate.inner, candidate.outer)
        }
        rows = [row for row, name in enumerate(problem.names) if name in sharing]
        ended = np.searchsorted(np.sort(problem.upper), problem.lower[rows], side="right")
        begun = np.searchsorted(np.sort(problem.lower), problem.upper[rows], side="left")
        return int((begun - ended).sum())

    def adopt(self, offsets: Ints, name: str) -> None:
        """Make a layout of the program's buffers the best choice, if candidates explain it.

        The model lets two buffers share bytes whenever they hold the same value. A plan must name
        the op that allows it, and there may be none.
        """
        address = dict(zip(self.problem.names, offsets.tolist(), strict=True))
        alias_sets = place_alias_sets(self.candidates, self.rules, address)
        choice = self._pack(self.candidates, frozenset(), alias_sets)
        merged = choice.merged
        where = np.zeros(len(merged.problem), np.int64)
        where[merged.row] = offsets - merged.within
        try:
            check_offsets(merged.problem, where, name)
        except VerificationError:
            return
        choice.incumbent.offer(where[choice.incumbent.reduction.rows], name)
        self.offer(choice, name)

    def _offer(self, choice: Choice, deadline: Deadline) -> None:
        """Pack a choice by heuristics, and keep it unless the best one has a smaller peak."""
        try:
            run_heuristics(choice.incumbent, deadline)
        finally:
            self.offer(choice, choice.incumbent.found_by, or_equal=True)

    def _run_heuristics(self, choice: Choice, deadline: Deadline) -> None:
        self._watch(choice, run_heuristics, deadline)

    def _watch(
        self,
        choice: Choice,
        stage: Callable[[Incumbent, Deadline], None],
        deadline: Deadline,
    ) -> None:
        """Run a stage on a choice, take the choice if it is better, and report improvements."""
        choice.incumbent.watch(lambda incumbent, source: self.offer(choice, source))
        stage(choice.incumbent, deadline)


def _pack_until(
    budget: Budget, most_effort: int | None, incumbent: Incumbent, deadline: Deadline
) -> None:
    """Pack by search alone, with a deadline of its own."""
    pack(incumbent, budget.until(deadline), most_effort=most_effort, by_heuristics=False)
