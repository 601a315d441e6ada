"""Search by CP-SAT for smaller peaks and larger bounds, until they meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_run import Hinted, improve_by_model

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Proof(Generic[T]):
    """The best solution known, its peak, and a bound on every solution's peak, bytes."""

    best: T
    peak: int
    bound: int

    @property
    def settled(self) -> bool:
        """True if the peak meets the bound, so that no solution is better."""
        return self.bound >= self.peak


@dataclass(frozen=True, slots=True)
class PeakModel(Generic[T]):
    """A formulation that minimises a peak, before it is built.

    Attributes
    ----------
    build
        Function that builds the formulation from the largest and the smallest peak of interest,
        bytes.
    peak_of
        Function that computes a solution's peak, bytes: the solver's own value is not trusted.
    """

    build: Callable[[int, int], Hinted[T]]
    peak_of: Callable[[T], int]


def prove_peak(
    model: PeakModel[T],
    start: T,
    budget: Budget,
    *,
    bound: int = 0,
    work: float | None = None,
    report: Callable[[Proof[T]], None] = lambda proof: None,
) -> Proof[T]:
    """Look for smaller peaks than a solution's, until the peak meets the bound or time is up.

    Parameters
    ----------
    model
        Model of all solutions. It is built only if the start's peak does not meet the bound, and
        only if there is time.
    start
        A solution; the result is never worse.
    budget
        When its deadline passes, the best solution so far is returned. With one worker and enough
        time, the same model and seed give the same solution.
    bound
        A proved bound on every solution's peak, bytes.
    work
        Most units of CP-SAT's deterministic time to spend.
    report
        Called in the calling thread when the peak or the bound improves.
    """
    peak = model.peak_of(start)
    state = Proof(start, peak, min(bound, peak))
    if state.settled or budget.deadline.expired():
        return state

    def found(solution: T) -> None:
        nonlocal state
        peak = model.peak_of(solution)
        if peak < state.peak:
            state = replace(state, best=solution, peak=peak)
            report(state)

    def proved(bound: int) -> None:
        nonlocal state
        if bound > state.bound:
            state = replace(state, bound=bound)
            report(state)

    improve_by_model(
        lambda: model.build(state.peak, state.bound),
        start,
        budget,
        found=found,
        proved=proved,
        work=work,
    )
    return state
