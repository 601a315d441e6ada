"""Orders in which exact searches break ties: preorders, with or without perturbed keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cpplan.packing.heuristics.preorders import largest_total
from cpplan.packing.tuning import active

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem


class TieOrders:
    """Orders of the buffers of a problem, by words over the letters of ``heuristics.preorders``.

    Total is not perturbed: many buffers share the same total, so that the other letters count.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 5], size=[4, 8, 4])
    >>> sorted(TieOrders(problem, seed=0).perturbed("WSA").tolist())
    [0, 1, 2]
    """

    def __init__(self, problem: Problem, seed: int):
        width = (problem.upper - problem.lower).astype(float)
        self._random, self._spreads = np.random.default_rng(seed), active().tie_spreads
        self._total = largest_total(problem).astype(float)
        self._keys = {"A": width * problem.size, "S": problem.size.astype(float), "W": width}

    def exact(self, word: str) -> Ints:
        """Rows in the word's order."""
        keys = {"T": self._total, **self._keys}
        return np.lexsort([-keys[letter] for letter in reversed(word)])

    def perturbed(self, word: str) -> Ints:
        """Rows in the word's order, with random noise on widths, areas and sizes."""
        spread = self._random.choice(self._spreads)
        keys = [self._total if letter == "T" else self._moved(letter, spread) for letter in word]
        return np.lexsort([-key for key in reversed(keys)])

    def _moved(self, letter: str, spread: float) -> np.ndarray:
        key = self._keys[letter]
        return key * np.exp(spread * self._random.standard_normal(len(key)))
