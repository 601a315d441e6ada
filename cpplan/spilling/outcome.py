"""Outcome of a search: the gaps kept, their packing, the bound, and an op that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.program.anf import Program
from cpplan.spilling.bounds import MovedBound
from cpplan.spilling.packed import Layout


@dataclass(frozen=True, slots=True)
class Choice:
    """Gaps kept, the cost of the moves that follow, and the name of the search that chose them."""

    kept: Flags
    paid: int
    found_by: str


def make_choice(problem: SpillProblem, kept: Flags, found_by: str) -> Choice:
    """A choice of gaps with the cost of its moves."""
    return Choice(kept, int(problem.paid(kept).sum()), found_by)


@dataclass(frozen=True, slots=True)
class Shortfall:
    """An op whose operands do not fit: its name, the bytes it needs, and the bytes missing.

    ``tried`` is true if other pieces of the op might need fewer bytes: then it proves nothing.
    """

    op: str
    needed: int
    missing: int
    tried: bool = False


@dataclass(frozen=True, slots=True)
class Spilled:
    """The outcome of a search.

    Attributes
    ----------
    program
        The model in the order chosen.
    problem
        Its spilling problem; ``None`` if there was no time to build it.
    choice, layout
        The best choice that could be packed, and its packing; ``None`` if there is none.
    bound
        Bound on the cost of moves: bytes, or cycles if time is minimised.
    shortfall
        The op that does not fit, if there is one.
    exhausted
        True if every choice was tried, and none fits.
    every_order
        True if the bound holds for every order.
    order_by
        The search that found the order, if one did.
    origin
        If ops may run again, ``program`` is of the graph of runs; ``origin`` then gives the op of
        each run and the tensor of each copy.
    """

    program: Program
    problem: SpillProblem | None
    choice: Choice | None
    layout: Layout | None
    bound: MovedBound
    shortfall: Shortfall | None = None
    exhausted: bool = False
    every_order: bool = False
    order_by: str | None = None
    origin: Mapping[str, str] | None = None

    @property
    def found_by(self) -> str | None:
        """Names of the searches that found order, gaps and offsets."""
        packed = self.layout.found_by if self.layout is not None else None
        chosen = self.choice.found_by if self.choice is not None else None
        names = dict.fromkeys(name for name in (self.order_by, chosen, packed) if name is not None)
        return ", ".join(names) or None


def find_shortfall(problem: SpillProblem, *, alone: bool = False) -> Shortfall | None:
    """The op that exceeds the capacity by the most bytes, or ``None`` if all fit.

    An op's operands count, and what must lie beside them at this order; the operands ``alone``
    exceed it in every order.
    """
    none = np.zeros(len(problem.gap_lower), bool)
    least = problem.load(none) - problem.base if alone else problem.least_load()
    step = int(np.argmax(least))
    missing = int(least[step]) - problem.capacity
    if missing <= 0:
        return None
    return Shortfall(problem.ops[step] if problem.ops else "", int(least[step]), missing)
