"""Smaller peaks and larger bounds by CP-SAT, until they meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from cpplan.runtime.cp_sat_run import Formulation, run_model
from cpplan.runtime.deadline import Deadline

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Proof(Generic[T]):
    """The best solution known, its peak, and a bound on every solution's peak, bytes."""

    best: T
    peak: int
    bound: int

    @property
    def settled(self) -> bool:
        """Whether there is provably nothing better."""
        return self.bound >= self.peak


def improve_peak(
    formulation: Formulation[T],
    known: Proof[T],
    deadline: Deadline,
    *,
    peak_of: Callable[[T], int],
    work: float | None = None,
    workers: int = 1,
    seed: int = 0,
    report: Callable[[Proof[T]], None] = lambda proof: None,
) -> Proof[T]:
    """Solve a model until a smaller peak is found than the one known, and proved smallest.

    Parameters
    ----------
    formulation
        A model with its hint.
    known
        What there is to improve.
    deadline
        When it passes, the best so far is returned.
    peak_of
        The peak of a solution, bytes: the solver's word for it is not taken.
    work
        Units of CP-SAT's deterministic time to spend at most.
    workers
        Threads. With one, and enough time, the same model and seed give the same solution.
    seed
        For CP-SAT's random choices.
    report
        Called, in the calling thread, at every improvement of either side.

    Examples
    --------
    >>> import numpy as np
    >>> from cpplan.ordering.problem import OrderProblem
    >>> from formulations.ordering import build
    >>> alone = OrderProblem(((),), np.array([4]), np.array([8]), ((0,),), *np.zeros((2, 1), bool))
    >>> known = Proof(np.array([0]), peak=12, bound=0)
    >>> improve_peak(build(alone, upper=12), known, Deadline(60), peak_of=alone.peak)
    Proof(best=array([0]), peak=12, bound=12)
    """
    state = known

    def found(solution: T) -> None:
        nonlocal state
        peak = peak_of(solution)
        if peak < state.peak:
            state = replace(state, best=solution, peak=peak)
            report(state)

    def proved(bound: int) -> None:
        nonlocal state
        if bound > state.bound:
            state = replace(state, bound=bound)
            report(state)

    run_model(
        formulation, deadline, found=found, proved=proved, work=work, workers=workers, seed=seed
    )
    return state
