"""The smallest uses of the searches that reach every compiled loop, with the types of real ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.problem import Problem
from cpplan.ordering.problem import OrderProblem
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline

_ENDLESS = Deadline(float("inf"))


def use_packing() -> None:
    from cpplan.packing.search.exact_search import ExactSearch

    problem = _random_packing(200)
    start = Outcome(np.cumsum(problem.size) - problem.size, int(problem.size.sum()), 0)
    search = ExactSearch(problem, seed=0)
    search.run(start, nodes=1000, goal=0, ceiling=None, deadline=_ENDLESS)


def use_ordering() -> None:
    from cpplan.ordering import heuristics as orders
    from cpplan.ordering.search.downset_search import search_downsets

    problem = _two_chains()
    orders.get("beam")(problem, _ENDLESS)
    search_downsets(problem, [0, 1, 2, 3], _ENDLESS, level=0, states=100)


def use_eviction() -> None:
    from cpplan.remat.heuristics.eviction import evict
    from cpplan.remat.problem import remat_problem

    evict(remat_problem(_recomputable()), range(4), 12, _ENDLESS)


def use_sequences() -> None:
    from cpplan.remat.problem import remat_problem
    from cpplan.remat.search.local_search import search_sequences

    search_sequences(remat_problem(_recomputable()), 12, range(4), _ENDLESS, moves=100)


def use_packed_sequences() -> None:
    from cpplan.remat.problem import remat_problem
    from cpplan.remat.search.packed_search import search_packed

    search_packed(remat_problem(_recomputable()), 12, range(4), _ENDLESS, moves=100)


def use_sizes() -> None:
    from cpplan.packing.sizes.fit_kernel import first_fit

    problem = _random_packing(3)
    columns = problem.lower, problem.upper, problem.size, problem.alignment
    first_fit(np.arange(3), *columns, np.full(3, 300), np.zeros(3, int), np.zeros(3, int))


def use_ejection() -> None:
    from cpplan.packing.search.ejection_search import EjectionSearch

    problem = _random_packing(9)
    start = Outcome(np.cumsum(problem.size) - problem.size, int(problem.size.sum()), 0)
    EjectionSearch(problem, seed=0).run(start, moves=9, goal=0, deadline=_ENDLESS)


def use_insertion() -> None:
    from cpplan.packing.search.insertion_search import InsertionSearch

    problem = _random_packing(9)
    start = Outcome(np.cumsum(problem.size) - problem.size, int(problem.size.sum()), 0)
    InsertionSearch(problem, seed=0).run(start, moves=9, goal=0, deadline=_ENDLESS)


def use_skyline() -> None:
    from cpplan.packing.heuristics.skyline import Skyline

    Skyline(_random_packing(9)).place(np.arange(9))


def use_checks() -> None:
    from cpplan.verification.rectangles import all_apart, cut_gaps
    from cpplan.verification.written_runs import first_wrong_compiled

    problem = _random_packing(9)
    all_apart(cut_gaps(problem), np.cumsum(problem.size))
    access = np.array([1, 2])
    first_wrong_compiled(access < 2, access, access + 1, access)


def use_many_buffers() -> None:
    from cpplan.packing.heuristics.fit_index import index_first_fit
    from cpplan.packing.heuristics.segregated_fit import segregated_fit

    problem = _random_packing(2000)
    segregated_fit(problem, _ENDLESS)
    index_first_fit(problem, np.arange(len(problem)), _ENDLESS)


def _random_packing(count: int) -> Problem:
    random = np.random.default_rng(0)
    lower = random.integers(0, count, count)
    upper = lower + random.integers(1, 20, count)
    return Problem(tuple(map(str, range(count))), lower, upper, random.integers(1, 100, count))


def _two_chains() -> OrderProblem:
    return OrderProblem(
        predecessors=((), (), (0,), (1,)),
        extra=np.zeros(4, np.int64),
        size=np.array([8, 8, 1, 1]),
        touched_by=((0, 2), (1, 3), (2,), (3,)),
        present=np.zeros(4, bool),
        kept=np.array([False, False, True, True]),
    )


def _recomputable() -> Graph:
    """Of four ops, the first had better run twice where there are twelve bytes."""
    tensors = Tensor("a", 4), Tensor("b", 8), Tensor("c", 2), Tensor("y", 1, kind="output")
    ops = (
        Op("f", outputs=("a",)),
        Op("g", inputs=("a",), outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c"), outputs=("y",)),
    )
    return Graph("g", tensors, ops)


FIRST_USES: dict[str, Callable[[], None]] = {
    "packing": use_packing,
    "ordering": use_ordering,
    "eviction": use_eviction,
    "sequences": use_sequences,
    "packed-sequences": use_packed_sequences,
    "sizes": use_sizes,
    "checks": use_checks,
    "many-buffers": use_many_buffers,
    "ejection": use_ejection,
    "insertion": use_insertion,
    "skyline": use_skyline,
}
