"""Objectives with several levels, minimised in turn, and the best solution known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from cpplan.packing.bounds import Bound

S = TypeVar("S")
Contra = TypeVar("Contra", contravariant=True)


class Objective(Protocol[Contra]):
    """Numbers to minimise: the better solution is smaller at the first level that differs."""

    def values(self, solution: Contra, /) -> tuple[int, ...]:
        """The value of every level, in integers."""

    def bound(self, level: int, values: Sequence[int], /) -> Bound:
        """Lower bound on a level for solutions with these values on the earlier levels.

        Needs no search. Called once a level, when the values before it are proved smallest.
        """


@dataclass(frozen=True, slots=True)
class OneLevel(Generic[S]):
    """Objective of one number."""

    value: Callable[[S], int]

    def values(self, solution: S, /) -> tuple[int]:
        """The number alone."""
        return (self.value(solution),)

    def bound(self, level: int, values: Sequence[int], /) -> Bound:
        """Raise ``IndexError``: no level follows the first."""
        raise IndexError(f"an objective of one level has no level {level}")


class LevelIncumbent(Generic[S]):
    """The best solution so far with its values and bounds, shared by the stages of a run.

    A level is *settled* once its value meets its bound. The bound of a level holds for solutions
    that are the best on the earlier levels. A single number to minimise is one level.

    Parameters
    ----------
    objective
        Evaluates solutions and bounds them.
    best, found_by
        The first solution, and the name of its method.
    bounds
        One bound a level; each holds for all solutions.
    target
        Value of the first level that is good enough to end the run, or ``None``.
    limit
        Value that the first level must not exceed, or ``None``.
    report
        Called with the incumbent and a source when a value or a bound improves.
    """

    def __init__(
        self,
        objective: Objective[S],
        best: S,
        found_by: str,
        bounds: Sequence[Bound],
        *,
        target: int | None = None,
        limit: int | None = None,
        report: Callable[[Any, str], object] = lambda incumbent, source: None,
    ):
        self.objective, self.best, self.found_by = objective, best, found_by
        self.target, self.limit, self._report = target, limit, report
        self.values, self.bounds = objective.values(best), list(bounds)
        self._bounded = 1
        self._reported: tuple[tuple[int, ...], ...] | None = None
        self._bound_next()

    @property
    def bound(self) -> Bound:
        """Bound on the first level."""
        return self.bounds[0]

    @property
    def least(self) -> tuple[int, ...]:
        """The bound of every level."""
        return tuple(bound.value for bound in self.bounds)

    @property
    def fits(self) -> bool:
        return self.limit is None or self.values[0] <= self.limit

    @property
    def hopeless(self) -> bool:
        """True if it is proved that no solution keeps the limit."""
        return self.limit is not None and self.bound.value > self.limit

    @property
    def good_enough(self) -> bool:
        """True if the first value is at most the target."""
        return self.target is not None and self.values[0] <= self.target

    @property
    def active(self) -> int | None:
        """The first level that is not settled; ``None`` if all are."""
        return next((k for k in range(len(self.values)) if not self.settled(k)), None)

    @property
    def done(self) -> bool:
        """Good enough, proved best, or proved not to fit."""
        return self.hopeless or self.good_enough or self.active is None

    def settled(self, level: int) -> bool:
        """True if the value of a level is proved to be the smallest possible."""
        return self.values[level] <= self.bounds[level].value

    def settled_before(self, level: int) -> bool:
        """True if all levels before this one are settled."""
        return all(map(self.settled, range(level)))

    def offer(self, solution: S, name: str, *, or_equal: bool = False) -> bool:
        """Take a solution if it is better, or equal and ``or_equal`` is set; true if taken."""
        values = self.objective.values(solution)
        if values > self.values or (values == self.values and not or_equal):
            return False
        self.best, self.values, self.found_by = solution, values, name
        self._bound_next()
        self.announce(name)
        return True

    def replace(self, solution: S, name: str) -> None:
        """Take a solution, better or not."""
        self.best, self.values, self.found_by = solution, self.objective.values(solution), name
        self.announce(name)

    def offer_bound(self, level: int, value: int, name: str, *, everywhere: bool = False) -> None:
        """Take a bound on a level if it is larger than the known one.

        With ``everywhere`` the bound holds for all solutions. Else it holds for solutions that are
        no worse on the earlier levels, and is ignored until these are settled.
        """
        if value > self.bounds[level].value and (everywhere or self.settled_before(level)):
            self.bounds[level] = Bound(value, name, self.bounds[level].step)
            self._bound_next()
            self.announce(name)

    def watch(self, report: Callable[[Any, str], object]) -> None:
        """Report improvements to this function from now on."""
        self._report = report

    def announce(self, source: str | None = None) -> None:
        """Report values and bounds if they have changed since the last report."""
        now = self.values, self.least
        if now != self._reported:
            self._reported = now
            self._report(self, self.found_by if source is None else source)

    def _bound_next(self) -> None:
        """Bound every level that is active now that all earlier levels are settled."""
        while self._bounded < len(self.values) and not self.hopeless:
            if not self.settled_before(self._bounded):
                return
            bound = self.objective.bound(self._bounded, self.values)
            if bound.value > self.bounds[self._bounded].value:
                self.bounds[self._bounded] = bound
            self._bounded += 1
