"""All searches for a packing of one independent part, in turns.

If there are few buffers, CP-SAT comes first and settles them at once. Otherwise the exact search
comes first, then local search, then CP-SAT: the searches that most often end a run come first.
With more than one worker, the exact search runs in its own thread beside the others.

With some hundred buffers, insertion in stages comes before all of them, and with many it alone is
tried: its moves take time that does not grow with the number of buffers. An exact search in its own
thread exchanges its best packing and bound with the other searches regularly; compiled loops let
other threads run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from threading import Event, Thread
from typing import NamedTuple

from cpplan.model.problem import Problem
from cpplan.packing import loops
from cpplan.packing.heuristics.by_lowest_offset import PREORDERS, place_lowest_first, preorder
from cpplan.packing.search import insertion_search, niche_search
from cpplan.packing.search.insertion_search import InsertionSearch
from cpplan.packing.search.local_search import LocalSearch
from cpplan.packing.search.niche_search import NODES_A_BUFFER, NicheSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.search.staged_insertion import StagedInsertion
from cpplan.packing.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.compiled import COMPILING_SHARE, is_ready, prepare_first
from cpplan.runtime.deadline import Deadline

# Multiple of the exact search's nodes in later turns: it then has about half of the time.
_LATER_NODES = 8
# Nodes a buffer that the exact search visits in the first turn if all steps are full.
_FULL_NODES_A_BUFFER = 10_000
# Nodes a buffer of the brief exact search before all other searches.
_PROBING_NODES_A_BUFFER = 100
# CP-SAT's deterministic time for each run in the first turn.
_CP_SAT_WORK = 0.0025
# Buffers from which insertion in stages is tried, and its insertions a buffer before the slower
# heuristics and in the first turn.
_STAGED_BUFFERS = 500
_PROBING_INSERTIONS_A_BUFFER = 100
_STAGED_INSERTIONS_A_BUFFER = 300
# Insertions a buffer in the first turn.
_INSERTIONS_A_BUFFER = 600
# Times in a turn that local search exchanges results with the exact search in its thread.
_SLICES = 10
# Buffers up to which CP-SAT mostly settles a part before compiled loops are loaded.
_FEW_BUFFERS = 40
# Buffers above which CP-SAT needs more time to start than other searches for their first turn.
_CP_SAT_AT_ONCE = 150
# Effort of the first turn with CP-SAT for more buffers than that.
_CP_SAT_EFFORT = 16

# Nodes between two exchanges with other searches: some hundredths of a second.
_NODES = 2_000


class Aim(NamedTuple):
    """Aim of a turn: its target and limit, its deadline and its listener.

    Attributes
    ----------
    target, limit
        Peak that is good enough, and peak that must not be exceeded, if there is one.
    deadline
        Ends the turn.
    offer
        Called with every improvement; returns true if the part needs no more search.
    """

    target: int
    limit: int | None
    deadline: Deadline
    offer: Callable[[Outcome], bool]


class PartSearch:
    """The searches on one part: each continues where its last turn ended.

    Parameters
    ----------
    problem
        A reduced problem: steps are sections.
    budget
        Threads and seed; every turn has a deadline of its own.
    """

    def __init__(self, problem: Problem, budget: Budget):
        self.problem, self.workers, self.seed = problem, budget.workers, budget.seed
        seed = budget.seed
        self._exact_search: NicheSearch | None = None
        self._probed = False
        staged, count = StagedInsertion.applies_to(problem), len(problem)
        many = count >= (active().many_buffers if staged else active().insertion_buffers)
        self._solves = not many
        self._searches_exactly = not many and niche_search.applies_to(problem)
        self._loops = [loops.NICHE] if self._searches_exactly else []
        # Local searches, each with its moves in the first turn. Of gaps that cover a part of a
        # buffer, only CP-SAT knows.
        self._local: list[tuple[LocalSearch, int]] = []
        if staged and count >= _STAGED_BUFFERS:
            moves = _STAGED_INSERTIONS_A_BUFFER * count
            self._local.append((StagedInsertion(problem, seed), moves))
            self._loops += [loops.STAGED, loops.MANY_BUFFERS]
        if not many and insertion_search.applies_to(problem):
            self._local.append((InsertionSearch(problem, seed), _INSERTIONS_A_BUFFER * count))
            self._loops.append(loops.INSERTION)

    @property
    def idle(self) -> bool:
        """True if no search goes on: gaps cover parts of buffers, too many for CP-SAT."""
        from cpplan.packing.search.cp_sat_packing import applies_to

        return not self._local and not (self._solves and applies_to(self.problem))

    def turn(self, state: Outcome, effort: int, aim: Aim) -> bool:
        """Run one turn of every search; return true if the part needs no more search.

        Parameters
        ----------
        state
            A packing and a proved bound to start from.
        effort
            Length of the turn, as a multiple of the first one's.
        aim
            Target, limit, deadline and listener.
        """
        if not self._local and effort == 1:
            state = self._place_lowest(state, aim)
        elif self._solves and effort == 1:
            if len(self.problem) > _FEW_BUFFERS:
                state = self.probe(state, aim)
                if aim.offer(state):
                    return True
            state = self._place_lowest(state, aim)
            if len(self.problem) <= _FEW_BUFFERS and not aim.offer(state):
                state = self._solve(state, effort, aim)
            if aim.offer(state):
                return True
        # Until the loops are compiled, only CP-SAT runs.
        waiting = aim.deadline.share(COMPILING_SHARE)
        if self._solves and self._loops and not prepare_first(self._loops, waiting):
            return aim.offer(self._solve(state, effort, aim))
        # If the loops have just been compiled.
        state = self.probe(state, aim)
        if aim.offer(state):
            return True
        exact = self._searches_exactly
        if exact and (self.workers == 1 or effort == 1):
            full = niche_search.is_full(self.problem)
            nodes = _FULL_NODES_A_BUFFER if full else NODES_A_BUFFER
            nodes *= _LATER_NODES if effort > 1 else 1
            state = self._search(state, nodes * effort, aim)
            if aim.offer(state):
                return True
        if exact and self.workers > 1:
            return self._improve_beside(state, effort, aim)
        return self._improve(state, effort, aim)

    def probe(self, state: Outcome, aim: Aim) -> Outcome:
        """Run insertion in stages and the exact search briefly, once, if their loops are ready.

        This often settles the part, and is quicker than any other search.
        """
        if self._probed or not self._solves:
            return state
        if not (aim.deadline.endless or all(map(is_ready, self._loops))):
            return state
        self._probed = True
        # The last one is insertion of all buffers, which is slower than the exact search.
        for search, _ in self._local[:-1]:
            moves = _PROBING_INSERTIONS_A_BUFFER * len(self.problem)
            state = self._move(search, moves, state, aim)
            if aim.offer(state):
                return state
        if self._searches_exactly:
            state = self._search(state, _PROBING_NODES_A_BUFFER, aim)
        return state

    def _place_lowest(self, state: Outcome, aim: Aim) -> Outcome:
        """Place lowest offsets first, by each preorder: almost no time, and often enough."""
        problem = self.problem
        for word in PREORDERS:
            if state.peak <= max(aim.target, state.bound):
                break
            ranked, most = preorder(problem, word), state.peak - 1
            offsets = place_lowest_first(problem, ranked, aim.deadline, limit=most)
            if offsets is not None:
                peak = int((offsets + problem.size).max(initial=0))
                state = state._replace(offsets=offsets, peak=peak, found_by="lowest_offset_first")
                aim.offer(state)
        return state

    def _search(self, state: Outcome, nodes_a_buffer: int, aim: Aim) -> Outcome:
        """Run the exact search in this thread."""
        return self._exact().run(
            state,
            nodes=nodes_a_buffer * len(self.problem),
            target=aim.target,
            limit=aim.limit,
            deadline=aim.deadline,
            report=aim.offer,
        )

    def _improve_beside(self, state: Outcome, effort: int, aim: Aim) -> bool:
        """Run the other searches, with the exact search in a thread beside them."""
        thread = ExactThread(
            self._exact(), state, target=aim.target, limit=aim.limit, deadline=aim.deadline
        )
        try:
            self._improve(state, effort, aim, thread.exchange)
        finally:
            thread.stop()
            settled = aim.offer(thread.exchange(state))
        return settled

    def _improve(
        self,
        state: Outcome,
        effort: int,
        aim: Aim,
        exchange: Callable[[Outcome], Outcome] | None = None,
    ) -> bool:
        """Run local search, then CP-SAT."""
        slices = 1 if exchange is None else _SLICES
        for search, moves in slices * self._local:
            state = self._move(search, moves * effort // slices, state, aim)
            if exchange is not None:
                state = exchange(state)
            if aim.offer(state):
                return True
        if effort >= _CP_SAT_EFFORT or len(self.problem) <= _CP_SAT_AT_ONCE:
            state = self._solve(state, effort, aim, exchange)
        return aim.offer(state)

    def _move(self, search: LocalSearch, moves: int, state: Outcome, aim: Aim) -> Outcome:
        target = max(aim.target, state.bound)
        try:
            return search.run(state, moves=moves, target=target, deadline=aim.deadline)
        finally:
            aim.offer(search.best(state))

    def _solve(
        self,
        state: Outcome,
        effort: int,
        aim: Aim,
        exchange: Callable[[Outcome], Outcome] | None = None,
    ) -> Outcome:
        """Run CP-SAT, unless there are too many buffers for it."""
        if not self._solves:
            return state
        from cpplan.packing.search.cp_sat_packing import run_round

        workers = self.workers if exchange is None else self.workers - 1
        return run_round(
            self.problem,
            state,
            Budget(aim.deadline, workers, self.seed),
            work=_CP_SAT_WORK * effort,
            target=aim.target,
            limit=aim.limit,
            report=aim.offer,
            exchange=exchange,
        )

    def _exact(self) -> NicheSearch:
        if self._exact_search is None:
            self._exact_search = NicheSearch(self.problem, self.seed)
        return self._exact_search


class ExactThread:
    """A thread that searches from its creation until it is stopped, done or out of time."""

    def __init__(
        self,
        search: NicheSearch,
        state: Outcome,
        *,
        target: int,
        limit: int | None,
        deadline: Deadline,
    ):
        self._search = search
        self._target, self._limit, self._deadline = target, limit, deadline
        self._found = self._others = state
        self._error: BaseException | None = None
        self._stopped = Event()
        # Not a daemon: Python cannot end while compiled code still runs, but aborts.
        self._thread = Thread(target=copy_context().run, args=(self._run,))
        self._thread.start()

    def exchange(self, state: Outcome) -> Outcome:
        """Pass on the outcome of other searches, and return the best of both.

        Raises the error that ended the search, if there is one.
        """
        self._others = state
        if self._error is not None:
            raise self._error
        return state.merged(self._found)

    def wait(self) -> None:
        """Wait until the search ends by itself."""
        self._thread.join()

    def stop(self) -> None:
        """End the search; returns once it has ended."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not (self._stopped.is_set() or self._deadline.expired()):
                state = self._found.merged(self._others)
                if state.peak <= max(self._target, state.bound):
                    return
                self._found = self._search.run(
                    state,
                    nodes=_NODES,
                    target=self._target,
                    limit=self._limit,
                    deadline=self._deadline,
                )
        except BaseException as error:  # handed to the calling thread, which raises it
            self._error = error
