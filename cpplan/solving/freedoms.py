"""The best plan of a search and of all smaller searches, whose plans are its candidates.

A search for pieces, for schedules that run ops again, or for moves chooses programs by estimates.
Free to decide more, it may choose another program and end with more bytes. So unless its plan is
proved best, the same search is made again without one freedom, and the best of all plans counts.
(Searches for orders and aliases alone pack every order and choice of the smaller searches anyway.)
Searches without aliases, or without several freedoms, would take the time of these and help no more
often, so that they come last, if time is left.

Results that lie within other tensors cannot be combined with moves, and pieces that fit need none.
So where a model has such results, or may run in pieces, the fast pool alone comes first: if
everything fits there, nothing moves.

Every plan is checked before it counts. If a search ends with a plan that is refused, or with an
error, the run goes on with the plans that passed, and a
:class:`~cpplan.model.errors.DefectWarning` reports it.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from cpplan.model.errors import CpplanError, VerificationError, warn_of_defect
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Progress
from cpplan.model.problem import Problem
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from cpplan.solving.carried_claims import (
    for_all_that_may_fit,
    in_two_pools,
    may_move,
    with_claims_of,
)
from cpplan.solving.request import Freedom, Request
from cpplan.solving.run import declared_kinds
from cpplan.solving.tuning import SolvingTuning
from cpplan.splitting.piece_graph import as_pieces
from cpplan.verification.verifier import verify, verify_counting

# Share of the time kept for searches with fewer freedoms; where repetitions or pieces are chosen
# together with each other or with pools, estimates mislead more often.
_SMALLER_SHARE, _SMALLER_ESTIMATED_SHARE = 0.1, 0.6
# Each of these searches gets the time left divided by their number, but by this at most.
_SMALLER_AT_ONCE = 4
# Share of the time for the fast pool alone, and with pieces.
_ALONE_SHARE, _ALONE_SPLIT_SHARE = 0.2, 0.4
# Share of the time left for the fast pool alone again, if there is no plan with moves.
_ALONE_AGAIN_SHARE = 0.7
# Seconds that each of them may take, even if the first search took less.
_SMALLER_LEAST = 1.0

# Freedoms without which a search may choose better programs: its estimates mislead.
_LEFT_OUT: frozenset[Freedom] = frozenset({"order", "remat", "split"})

Search = Callable[[Program | Problem, Request, Budget], Plan]


def best_plan(search: Search, source: Program | Problem, request: Request, budget: Budget) -> Plan:
    """The best plan of a search with the freedoms of a request, or with fewer.

    Parameters
    ----------
    search
        Function that returns a verified plan of a source with exactly the freedoms of a request.
    source, request
        The model, and what was asked.
    budget
        Budget of all searches together.

    Raises
    ------
    InputError
        If the request does not fit the source.
    VerificationError
        If no search ends with a plan that passes its check.
    """
    runs = _Runs(search, source, request, budget)
    tuning, deadline = budget.tuned(SolvingTuning), budget.deadline
    if (alone := _fast_alone(request, source, tuning)) is not None:
        share = _brief(_ALONE_SPLIT_SHARE, deadline) if alone.split else _ALONE_SHARE
        slot = deadline.share(share)
        runs.take_alone(alone, slot)
        if runs.settled:
            return runs.ended()
    smaller = list(_smaller(request, source)) if _is_in_reach(source, tuning) else []
    first = deadline.share(1 - _smaller_share(request, source, deadline)) if smaller else deadline
    before = deadline.remaining()
    runs.take(request, first)
    longest = max(before - deadline.remaining(), _SMALLER_LEAST)
    if alone is not None:
        runs.offer_alone()
        if not runs.settled and runs.missing:
            runs.take_alone(alone, deadline.share(_ALONE_AGAIN_SHARE))
    if runs.best is None:
        runs.take_all(list(_all_smaller(request, source)), longest)
    elif smaller:
        runs.take_all(smaller, longest)
        runs.go_on(deadline)
        tried = [asked.freedoms for asked in smaller]
        last = (asked for asked in _all_smaller(request, source) if _chooses_programs(asked))
        runs.take_all([asked for asked in last if asked.freedoms not in tried], longest)
    return runs.ended()


class _Runs:
    """Searches of a run: the plan of the first one, and the best plan of all that passed."""

    def __init__(self, search: Search, source: Program | Problem, request: Request, budget: Budget):
        self._search, self._source = search, source
        self._request, self._budget = request, budget
        self._own: Plan | None = None
        self._alone: Plan | None = None
        self._missing: Plan | None = None
        self._events: list[Progress] = []
        self._refused: list[Exception] = []
        # The last search with fewer freedoms that found as good a plan as the best, and its time.
        self._best_smaller: tuple[Request, float] | None = None
        # True if the fast pool alone may hold everything, though no plan was found.
        self._may_fit = request.spill and _is_placed(request, source)
        self.best: Plan | None = None

    @property
    def settled(self) -> bool:
        """True if no smaller search can end with a better plan, or none can fit."""
        return self.best is not None and self.best.status in ("optimal", "infeasible")

    @property
    def missing(self) -> bool:
        """True if no search has found a plan."""
        return self.best is None or self.best.offset is None

    def take_alone(self, asked: Request, deadline: Deadline) -> None:
        """Make the search in the fast pool alone; nothing moves, but pieces may take more time."""
        assert isinstance(self._source, Program)
        with self._noting_defects(asked):
            plan = self._search(self._source, asked, self._budget.until(deadline))
            self._may_fit = plan.status == "unknown" and not asked.split
            if plan.offset is not None and may_move(self._source.graph, plan):
                plan = in_two_pools(plan, self._request)
                self._alone = self.best = verify_counting(self._source, plan)
            else:
                # Inputs that nothing reads take room there, but lie in the slow pool beside moves.
                self._may_fit |= _has_unread_inputs(self._source.graph)

    def offer_alone(self) -> None:
        """Keep the plan in the fast pool alone, with its own bounds, unless the last is as good."""
        alone, best = self._alone, self.best
        if alone is not None and (best is None or self._value(alone) < self._value(best)):
            self.best = alone
            self._record(f"in the fast pool alone: {alone.found_by}", alone.peak)

    def take(self, asked: Request, deadline: Deadline) -> None:
        """Make one search, and keep its plan if that is the best and passes its check.

        The plan of the first search has the claims that the best plan will have.
        """
        budget, given = self._budget.until(deadline), deadline.remaining()
        with self._noting_defects(asked):
            if asked is self._request:
                self._own = self.best = self._search(self._source, asked, budget)
            elif self._offer(self._search(self._source, replace(asked, progress=None), budget)):
                self._best_smaller = asked, given

    def take_all(self, smaller: Sequence[Request], longest: float) -> None:
        """Make smaller searches in the time left, each for ``longest`` seconds at most.

        Without a plan, each is made even if no time is left.
        """
        deadline = self._budget.deadline
        grace = self._budget.tuned(SolvingTuning).grace
        for number, asked in enumerate(smaller):
            if self.settled or (self.best is not None and deadline.expired()):
                break
            slot = deadline.share(1 / min(len(smaller) - number, _SMALLER_AT_ONCE))
            if slot.seconds > longest:
                slot = deadline.share(longest / deadline.remaining())
            if slot.expired():
                slot = deadline.anew(grace, deterministic=deadline.deterministic)
            self.take(asked, slot)

    def go_on(self, deadline: Deadline) -> None:
        """Make the best search with fewer freedoms again in the time left, if it had less.

        A search divides its time among its stages, and may end before it is up.
        """
        while not self.settled and self._best_smaller is not None:
            asked, given = self._best_smaller
            if deadline.remaining() <= given:
                return
            self._best_smaller = None
            self.take(asked, deadline.share(1.0))

    @contextmanager
    def _noting_defects(self, asked: Request) -> Iterator[None]:
        """Report an error in a search and go on; the first search raises those of the input."""
        own = asked is self._request
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            if own and not self._is_defect(error):
                raise
            self._refused.append(error)
            text = _described(asked, error)
            self._record(text)
            warn_of_defect(text)

    def _is_defect(self, error: Exception) -> bool:
        """True if an error is neither the input's nor that of a heuristic that was asked for."""
        foreseen = isinstance(error, CpplanError) and not isinstance(error, VerificationError)
        return not foreseen and self._request.algorithm is None

    def _offer(self, plan: Plan) -> bool:
        """Keep the plan of a smaller search if it is better; false if it is worse."""
        request, best = self._request, self.best
        if plan.offset is None:
            self._missing = self._missing or plan
            return False
        if best is not None and self._value(plan) >= self._value(best):
            return self._value(plan) == self._value(best)
        found_by = plan.found_by
        plan = with_claims_of(self._own, plan, request)
        verify(self._source, plan)
        self.best = plan
        self._record(f"with fewer freedoms: {found_by}", plan.peak)
        return True

    def _value(self, plan: Plan) -> tuple[float, ...]:
        return _value(plan, self._source, self._request)

    def _record(self, text: str, peak: int | None = None) -> None:
        event = Progress(self._budget.deadline.elapsed(), peak, None, text)
        self._events.append(event)
        self._request.tell(event, self._budget.deadline)

    def ended(self) -> Plan:
        """The best plan, with the history of all searches."""
        best = self.best
        if best is None and self._missing is not None:
            best = replace(self._missing, status="unknown")
        if best is None:
            first = self._refused[0]
            raise VerificationError(f"internal error: no plan passed its check: {first}") from first
        before = () if self._own is None else self._own.history
        if self._may_fit:
            best = for_all_that_may_fit(best, self._request)
        return replace(
            best,
            runtime=self._budget.deadline.elapsed(),
            history=(*before, *self._events),
        )


def _fast_alone(
    request: Request, source: Program | Problem, tuning: SolvingTuning
) -> Request | None:
    """The request in the fast pool alone, if pieces or placements may make everything fit there."""
    if not (request.spill and isinstance(source, Program)):
        return None
    if request.constants == "keep" and any(t.kind == "constant" for t in source.graph.tensors):
        return None
    placed = _is_placed(request, source)
    cut = request.split and _is_in_reach(source, tuning) and "split" in useful_freedoms(source)
    if not placed and not cut:
        return None
    assert request.pools is not None
    return replace(
        request.without("remat") if cut else request.without("remat", "split"),
        spill=False,
        pools=request.pools[:1],
        objective="preference",
        progress=None,
    )


def _is_placed(request: Request, source: Program | Problem) -> bool:
    """True if results may lie within other tensors."""
    if "placement" not in request.sharing or not isinstance(source, Program):
        return False
    return "placement" in declared_kinds(source.graph)


def _has_unread_inputs(graph: Graph) -> bool:
    """True if no op reads some input."""
    read = {graph.root[name][0] for op in graph.ops for name in op.inputs}
    return any(t.kind == "input" and graph.root[t.name][0] not in read for t in graph.tensors)


def _smaller_share(request: Request, source: Program | Problem, deadline: Deadline) -> float:
    """Share of the time kept for searches with fewer freedoms."""
    split = request.split and "split" in useful_freedoms(source)
    several = len(request.pools or ()) > 1 or split
    if split and request.cost_limit == 1.0 and not request.spill:
        return _SMALLER_SHARE  # hardly any op can run again: the own search is that for pieces
    estimated = split if request.spill else request.remat and several
    return _brief(_SMALLER_ESTIMATED_SHARE, deadline) if estimated else _SMALLER_SHARE


def _brief(share: float, deadline: Deadline) -> float:
    """A share of the time, or less if that is more than a second; at least that of all others."""
    return max(_SMALLER_SHARE, min(share, 1 / max(deadline.remaining(), 1.0)))


def _is_in_reach(source: Program | Problem, tuning: SolvingTuning) -> bool:
    """True for programs for which smaller searches are made; symbolic ones are planned in parts."""
    if not isinstance(source, Program) or source.graph.symbols is not None:
        return False
    return len(source.order) <= tuning.smaller_ops


def _smaller(request: Request, source: Program | Problem) -> Iterator[Request]:
    """Yield the request without a search order, repetitions or pieces, one left out at a time.

    Without pieces, runs again and moves, there is none: all smaller searches are candidates of its
    own. So are, for the fewest bytes, pieces alone and runs again alone of the search for both.
    """
    if not _chooses_programs(request):
        return
    freedoms = request.freedoms & useful_freedoms(source)
    both = {"remat", "split"} <= freedoms and request.cost_limit is not None
    for name in sorted(freedoms & ({"order"} if both else _LEFT_OUT)):
        yield request.without(name)


def _all_smaller(request: Request, source: Program | Problem) -> Iterator[Request]:
    """Yield the request with any fewer freedoms, the most freedoms first."""
    freedoms = sorted(request.freedoms & useful_freedoms(source))
    for count in range(1, len(freedoms) + 1):
        for left_out in combinations(freedoms, count):
            yield request.without(*left_out)


def _chooses_programs(request: Request) -> bool:
    """True for a search that chooses programs by estimates."""
    return request.spill or bool(request.freedoms & {"remat", "split"})


def useful_freedoms(source: Program | Problem) -> frozenset[Freedom]:
    """Freedoms that may make a difference to the plans of a source."""
    if isinstance(source, Problem):
        return frozenset()
    used: set[Freedom] = {"remat", *declared_kinds(source.graph)}
    if source.may_reorder:
        used.add("order")
    if any(op.axes for op in source.graph.ops):
        used.add("split")
    return frozenset(used)


def _value(plan: Plan, source: Program | Problem, request: Request) -> tuple[float, ...]:
    """Value that the request minimises."""
    if plan.offset is None:
        return (math.inf,)
    if request.spill:
        value = plan.time if request.objective == "time" else plan.moved_bytes
        return (math.inf if value is None else value,)
    if _is_for_cost(request):
        return (plan.cost or 0,)
    if plan.objective_value:
        return plan.objective_value
    assert plan.peak is not None
    return (plan.peak + _kept_for_runs(plan, source, request),)


def _kept_for_runs(plan: Plan, source: Program | Problem, request: Request) -> int:
    """Bytes that the runtime keeps for runs beyond one per op, if the request weighs them."""
    if not isinstance(source, Program) or not request.piece_bytes:
        return 0
    kept, source_of = request.bytes_of_runs(source.graph), {op.name: op.name for op in source.ops}
    if plan.pieces:
        source_of = dict(as_pieces(plan, source)[1].source)
    runs = sum(kept.get(source_of[name], 0) for name in plan.order)
    return runs - sum(kept.values())


def _is_for_cost(request: Request) -> bool:
    """True if the least cost within a limit on bytes was asked for."""
    pools = request.pools or ()
    limited = request.memory_limit is not None or any(pool.capacity is not None for pool in pools)
    return (request.remat or request.split) and request.cost_limit is None and limited


def _described(request: Request, error: Exception) -> str:
    """One line for a search that ended without a plan that passes its check."""
    freedoms = ", ".join(sorted(request.freedoms)) or "none"
    if request.spill:
        freedoms = f"spill, {freedoms}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return (
        f"a defect of cpplan: the search with freedoms {freedoms} ended with "
        f"{type(error).__name__} in {place}: {error}; the best plan that passed its check counts"
    )
