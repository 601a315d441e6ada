"""Small runs of every search, which compile its loops for the types used in planning."""

from __future__ import annotations

from cpplan.model.remat_problem import RematProblem
from cpplan.model.small_graphs import read_at_the_end
from cpplan.remat.heuristics.dropping import drop
from cpplan.remat.heuristics.eviction import evict
from cpplan.remat.problem import remat_problem
from cpplan.remat.search.local_search import search_schedules
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

_ENDLESS = Deadline(float("inf"))


def use_eviction() -> None:
    """Evict from a schedule of four ops."""
    evict(_recomputable(), range(4), 12, _ENDLESS)


def use_schedules() -> None:
    """Make 100 moves of the search over schedules, and drop values."""
    drop(_recomputable(), range(4), 12, _ENDLESS)
    search_schedules(_recomputable(), 12, range(4), Budget(_ENDLESS), moves=100)


def _recomputable() -> RematProblem:
    """Problem of four ops; within twelve bytes, the first op must run twice."""
    return remat_problem(read_at_the_end())
