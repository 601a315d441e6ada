"""All searches for a packing of one independent part, in turns.

Few buffers are CP-SAT's, which settles them at once. Else our own exact search comes first, then
local search over orders, then CP-SAT: that is the order in which they most often end a run. With
more than one worker, the exact search has a thread of its own beside CP-SAT.

With many buffers, only what takes about linear time a move is tried: priority rules, and ejection.
"""

from __future__ import annotations

from collections.abc import Callable

from cpplan.compiled import prepare
from cpplan.deadline import Deadline
from cpplan.heuristics import MANY_BUFFERS
from cpplan.problem import Problem
from cpplan.search.canonical_search import CanonicalSearch, applies_to
from cpplan.search.canonical_thread import CanonicalThread
from cpplan.search.ejection_search import EjectionSearch
from cpplan.search.outcome import Outcome
from cpplan.search.priority_search import PrioritySearch
from cpplan.search.ranking_search import RankingSearch

# Of the first turn: moves of local search, nodes of the exact search, CP-SAT's deterministic time
# for each run.
MOVES_A_BUFFER, NODES, WORK = 10, 50_000, 0.01
# So many buffers CP-SAT mostly settles before the compiled search is loaded.
FEW_BUFFERS = 40
# Of the first turn with many buffers: priority rules, and ejections.
RULES, EJECTIONS = 50, 2000
# With more buffers than that, ejection takes seconds to start.
MOST_TO_EJECT = 30_000


class PartSearch:
    """The searches on one part: each continues where its last turn ended.

    Parameters
    ----------
    problem
        A reduced problem: steps are sections.
    workers
        Threads.
    seed
        For random choices.
    """

    def __init__(self, problem: Problem, workers: int, seed: int):
        self.problem, self.workers, self.seed = problem, workers, seed
        self._many: tuple[tuple[PrioritySearch | EjectionSearch, int], ...] = ()
        if len(problem) >= MANY_BUFFERS and PrioritySearch.applies_to(problem):
            self._many = ((PrioritySearch(problem, seed), RULES),)
            if len(problem) <= MOST_TO_EJECT:
                self._many = (*self._many, (EjectionSearch(problem, seed), EJECTIONS))
            return
        self._ranking = RankingSearch(problem, seed)
        self._exact = applies_to(problem)
        self._canonical: CanonicalSearch | None = None

    def turn(
        self,
        state: Outcome,
        effort: int,
        *,
        goal: int,
        ceiling: int | None,
        deadline: Deadline,
        offer: Callable[[Outcome], bool],
    ) -> bool:
        """One turn of every search; whether ``offer`` said that the part needs no more.

        Parameters
        ----------
        state
            A packing and a proved bound to start from.
        effort
            How long the turn is; 1 is the first.
        goal, ceiling
            A peak that is good enough, and one above which none is of use.
        deadline
            Ends the turn.
        offer
            Told of every improvement.
        """
        if self._many:
            return self._improve(state, effort, goal, deadline, offer)
        # The first orders cost nothing, and are often enough.
        state = self._rank(state, 0, goal, deadline, offer)
        if offer(state):
            return True
        few = effort == 1 and len(self.problem) <= FEW_BUFFERS
        exact = self._exact and not few and prepare("packing", deadline)
        if exact and (self.workers == 1 or effort == 1):
            state = self._search(state, effort, goal, ceiling, deadline, offer)
        if not offer(state):
            moves = MOVES_A_BUFFER * len(self.problem) * effort
            state = self._rank(state, moves, goal, deadline, offer)
        if not offer(state):
            beside = exact and self.workers > 1
            solve = self._solve_beside if beside else self._solve
            state = solve(state, effort, goal, ceiling, deadline, offer)
        return offer(state)

    def _improve(
        self,
        state: Outcome,
        effort: int,
        goal: int,
        deadline: Deadline,
        offer: Callable[[Outcome], bool],
    ) -> bool:
        """A turn of the searches for many buffers."""
        for search, moves in self._many:
            try:
                state = search.run(state, moves=moves * effort, goal=goal, deadline=deadline)
            finally:
                state = search.best(state)
                settled = offer(state)
            if settled:
                return True
        return False

    def _rank(
        self,
        state: Outcome,
        moves: int,
        goal: int,
        deadline: Deadline,
        offer: Callable[[Outcome], bool],
    ) -> Outcome:
        try:
            return self._ranking.run(
                state, moves=moves, goal=max(goal, state.bound), deadline=deadline
            )
        finally:
            offer(self._ranking.best(state))

    def _search(
        self,
        state: Outcome,
        effort: int,
        goal: int,
        ceiling: int | None,
        deadline: Deadline,
        offer: Callable[[Outcome], bool],
    ) -> Outcome:
        if self._canonical is None:
            self._canonical = CanonicalSearch(self.problem, self.seed)
        return self._canonical.run(
            state, nodes=NODES * effort, goal=goal, ceiling=ceiling, deadline=deadline, report=offer
        )

    def _solve(
        self,
        state: Outcome,
        effort: int,
        goal: int,
        ceiling: int | None,
        deadline: Deadline,
        offer: Callable[[Outcome], bool],
        exchange: Callable[[Outcome], Outcome] | None = None,
    ) -> Outcome:
        from cpplan.search.cp_sat_packing import run_round

        return run_round(
            self.problem,
            state,
            deadline,
            work=WORK * effort,
            goal=goal,
            ceiling=ceiling,
            workers=self.workers if exchange is None else self.workers - 1,
            seed=self.seed,
            report=offer,
            exchange=exchange,
        )

    def _solve_beside(
        self,
        state: Outcome,
        effort: int,
        goal: int,
        ceiling: int | None,
        deadline: Deadline,
        offer: Callable[[Outcome], bool],
    ) -> Outcome:
        thread = CanonicalThread(
            self.problem, state, self.seed + effort, goal=goal, ceiling=ceiling, deadline=deadline
        )
        try:
            state = self._solve(state, effort, goal, ceiling, deadline, offer, thread.exchange)
        finally:
            thread.stop()
        return thread.exchange(state)
