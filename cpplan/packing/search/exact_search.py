"""The two exact searches on one problem, in turns, since neither is always quicker."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cpplan.model.problem import Problem
from cpplan.packing import loops
from cpplan.packing.search import canonical_search, niche_search
from cpplan.packing.search.canonical_search import CanonicalSearch
from cpplan.packing.search.niche_search import NicheSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import COMPILING_SHARE, LoopGroup, is_ready, prepare_first
from cpplan.runtime.deadline import Deadline

# Nodes a buffer that the exact search visits in the first turn.
NODES_A_BUFFER = 500
# Nodes a buffer before one exact search first gives way to the other; doubled every time.
_FIRST_NODES_A_BUFFER = 10
# Share of the most live bytes above which a step is full. If all steps are full, hardly a byte
# may be wasted and few buffers fit into any corner: the niche search is then far likelier than
# others to find a packing without waste.
_FULL_SHARE = 0.999
# Share of the nodes for the canonical search then.
_FULL_CANONICAL_SHARE = 0.01


class _Turn(NamedTuple):
    """A search, its loops, and its share of the nodes."""

    search: type[NicheSearch] | type[CanonicalSearch]
    group: LoopGroup
    share: float


def applies_to(problem: Problem) -> bool:
    """True if an exact search applies to the problem."""
    return canonical_search.applies_to(problem)


def is_full(problem: Problem) -> bool:
    """True if about as many bytes are live at every step, as in a perfect packing."""
    live = problem.live_bytes()[int(problem.lower.min(initial=0)) :]
    return len(live) > 0 and bool(live.min() >= _FULL_SHARE * live.max(initial=0) > 0)


class ExactSearch:
    """The exact searches in turns; each can be continued.

    Parameters
    ----------
    problem
        A reduced part to which one of the searches applies.
    seed
        Seed of the perturbed orders.
    """

    def __init__(self, problem: Problem, seed: int):
        self.problem, self._seed = problem, seed
        self._slice = _FIRST_NODES_A_BUFFER * len(problem)
        self._begun: dict[str, NicheSearch | CanonicalSearch] = {}
        self._turns: list[_Turn] = []
        tuning = active()
        canonical = _FULL_CANONICAL_SHARE if is_full(problem) else tuning.canonical_share
        if niche_search.applies_to(problem):
            self._turns.append(_Turn(NicheSearch, loops.NICHE, 1 - canonical))
        share = canonical if self._turns else 1.0
        self._turns.append(_Turn(CanonicalSearch, loops.CANONICAL, share))

    @property
    def groups(self) -> tuple[LoopGroup, ...]:
        """Loops of the searches, in the order in which they are needed."""
        return tuple(turn.group for turn in self._turns)

    def run(
        self,
        state: Outcome,
        *,
        nodes: int,
        target: int,
        limit: int | None,
        deadline: Deadline,
        report: Callable[[Outcome], object] = lambda outcome: None,
    ) -> Outcome:
        """Continue for ``nodes`` nodes; see :meth:`NicheSearch.run`.

        The searches take turns, short ones at first, because it is not known which will be quick. A
        search misses its turns until its loops are compiled.
        """
        if not prepare_first(self.groups, deadline.share(COMPILING_SHARE)):
            return state
        ready = [turn for turn in self._turns if is_ready(turn.group)]
        while nodes > 0 and not deadline.expired():
            slice_nodes = min(nodes, self._slice)
            nodes -= slice_nodes
            for turn in ready:
                name = turn.search.name
                if name not in self._begun:
                    self._begun[name] = turn.search(self.problem, self._seed)
                state = self._begun[name].run(
                    state,
                    nodes=max(1, int(turn.share * slice_nodes)),
                    target=target,
                    limit=limit,
                    deadline=deadline,
                    report=report,
                )
                highest = state.peak - 1 if limit is None else min(state.peak - 1, limit)
                if max(target, state.bound) > highest:
                    return state
            self._slice = min(2 * self._slice, NODES_A_BUFFER * len(self.problem))
        return state
