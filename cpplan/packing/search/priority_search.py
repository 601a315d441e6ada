"""Search over randomised priority rules for lowest-offset-first.

A rule is ``a·log(total) + b·log(width) + c·log(size)`` plus noise; buffers are ranked by it. Half
of the rules are new, the others are one of the best rules with more noise on some buffers. On
traces of real models the peak depends much on the rule and little on any single buffer, so that
tens of rules reach lower peaks than tens of thousands of exchanges of two buffers. The time for a
rule does not grow with the number of buffers live together.
"""

from __future__ import annotations

import bisect
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints, Problem
from cpplan.packing import loops
from cpplan.packing.heuristics.preorders import PREORDERS, largest_total, preorder
from cpplan.packing.heuristics.skyline import Skyline
from cpplan.packing.search.local_search import LocalSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import begin, is_ready, prepare
from cpplan.runtime.deadline import Deadline

# Priority rules: weights of totals against width and size, from none to nearly all.
_RULE_TOTALS = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0)
# Standard deviations of the noise added to a new rule (logarithms of sizes).
_RULE_BLURS = (0.0, 0.003, 0.01, 0.03, 0.1)
# Standard deviations of the noise on a rule of the elite, and shares of the buffers changed.
_RULE_CHANGES = (0.001, 0.003, 0.01, 0.03)
_RULE_CHANGED = (1.0, 0.3, 0.1, 0.01)
# Best rules kept to be changed.
_RULE_ELITE = 4

NAME = "priority search"
# Seconds a buffer and rule, for deadlines that count work.
_WORK = 1.5e-6

Floats = NDArray[np.float64]


class _Rule(NamedTuple):
    """Priorities of the buffers, the highest first, and the peak of their packing."""

    peak: int
    priority: Floats


class PrioritySearch(LocalSearch):
    """The priority search; it keeps its best rules, so that it can be continued.

    Parameters
    ----------
    problem
        A reduced problem; see :meth:`applies_to`.
    seed
        Seed of the random rules.
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        super().__init__(problem)
        self._tuning = active()
        self._random = np.random.default_rng(seed)
        self._starts = list(PREORDERS)
        self._skyline: Skyline | None = None
        self._elite: list[_Rule] = []

    @staticmethod
    def applies_to(problem: Problem) -> bool:
        """True if no buffer has gaps or a fixed offset."""
        return Skyline.applies_to(problem)

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Try the preorders, then ``moves`` rules, or until the peak is at most ``target``.

        O(n log n) a rule. Raises ``TimeUpError`` between two rules; :meth:`best` then has the best
        packing reached.
        """
        if not (deadline.endless or is_ready(loops.SKYLINE)):
            begin(loops.SKYLINE)
            return state  # the next turn tries again
        prepare(loops.SKYLINE, deadline)
        if self._skyline is None:
            self._skyline = Skyline(self.problem, deadline)
        while self._starts and not self._reached(target):
            self._place(preorder(self.problem, self._starts.pop(0)), state.peak, deadline)
        for _ in range(moves):
            if self._reached(target):
                break
            self._try(self._rule(), deadline)
        return self.best(state)

    @cached_property
    def _terms(self) -> tuple[Floats, Floats, Floats]:
        """Logarithms of totals, widths and sizes, the terms of a rule."""
        problem = self.problem
        total = np.log(np.maximum(largest_total(problem), 1))
        return total, _logarithm(problem.upper - problem.lower), _logarithm(problem.size)

    def _rule(self) -> Floats:
        random, count = self._random, len(self.problem)
        noise = random.standard_normal(count)
        if self._elite and random.random() < 0.5:
            changed = random.random(count) < random.choice(_RULE_CHANGED)
            old = self._elite[random.integers(len(self._elite))].priority
            return np.asarray(old + random.choice(_RULE_CHANGES) * noise * changed)
        total, width, size = self._terms
        rule = random.choice(_RULE_TOTALS) * total
        rule = rule + random.random() * width + random.random() * size
        return np.asarray(rule + random.choice(_RULE_BLURS) * noise)

    def _try(self, priority: Floats, deadline: Deadline) -> None:
        """Pack by a rule, and keep it if it is better than the worst of the elite."""
        limit = self._elite[-1].peak if len(self._elite) == _RULE_ELITE else None
        peak = self._place(np.argsort(-priority, kind="stable"), limit, deadline)
        if peak is not None:
            bisect.insort(self._elite, _Rule(peak, priority), key=lambda rule: rule.peak)
            del self._elite[_RULE_ELITE:]

    def _place(self, ranked: Ints, limit: int | None, deadline: Deadline) -> int | None:
        """Pack in this order; returns the peak, or ``None`` if it is not below ``limit``."""
        assert self._skyline is not None
        deadline.check(_WORK * len(ranked))
        offsets = self._skyline.place(ranked, None if limit is None else limit - 1, deadline)
        if offsets is None:
            return None
        peak = int((offsets + self.problem.size).max(initial=0))
        if self._peak is None or peak < self._peak:
            self._offsets, self._peak = offsets, peak
        return peak


def _logarithm(values: Ints) -> Floats:
    """Logarithms, scaled to the range from zero to one."""
    logs = np.log(np.maximum(values, 1))
    spread = float(np.ptp(logs)) if len(logs) else 0.0
    return np.asarray((logs - logs.min(initial=np.inf)) / (spread or 1.0))
