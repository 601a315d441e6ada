"""Windows of schedules: their pressure is the whole's, and so is what may take their place."""

from __future__ import annotations

import random

import pytest
from support.cases import seeds
from support.remat_oracle import random_remat_problem, remat_chain

from cpplan.model.errors import InputError
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.heuristics.chain import as_chain, solve_chain
from cpplan.remat.problem import remat_problem
from cpplan.remat.search.remat_windows import improve_window, improve_windows, remat_window
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline


def random_schedule(rng: random.Random, problem: RematProblem) -> list[int]:
    """Whatever may run next, also again."""
    schedule: list[int] = []
    while len(set(schedule)) < len(problem):
        done = set(schedule)
        may = [
            unit
            for unit in range(len(problem))
            if done.issuperset(problem.ordering.predecessors[unit])
            and (unit not in done or problem.repeatable[unit])
        ]
        schedule.append(rng.choice(may))
    return schedule


@pytest.mark.parametrize("seed", seeds(40))
def test_the_pressure_is_that_of_the_whole(seed):
    rng = random.Random(seed)
    problem = random_remat_problem(seed, rng.randint(1, 8))
    schedule = random_schedule(rng, problem)
    begin = rng.randrange(len(schedule))
    end = rng.randint(begin + 1, len(schedule))
    window = remat_window(problem, schedule, begin, end)
    whole = problem.pressure(schedule)[begin:end]
    assert window.problem.pressure(window.runs).tolist() == whole.tolist()
    assert window.problem.total_cost(window.runs) == problem.total_cost(schedule[begin:end])


@pytest.mark.parametrize("seed", seeds(30))
def test_replaced_window_keeps_the_limit(seed):
    rng = random.Random(seed)
    problem = random_remat_problem(seed, rng.randint(2, 7))
    schedule = tuple(random_schedule(rng, problem))
    limit = problem.peak(schedule)
    begin = rng.randrange(len(schedule))
    end = rng.randint(begin + 1, len(schedule))
    better = improve_window(problem, limit, schedule, begin, end, Budget(Deadline(60)))
    assert problem.is_schedule(better)
    assert problem.peak(better) <= limit
    assert problem.total_cost(better) <= problem.total_cost(schedule)
    assert (better == schedule) == (problem.total_cost(better) == problem.total_cost(schedule))


def test_a_value_that_lives_through_may_be_made_again():
    """t0, which g0 reads, is dropped while g1 runs, and made again before the window ends."""
    problem = remat_problem(remat_chain(2))
    window = remat_window(problem, [0, 1, 2, 3, 4], 2, 4)
    assert window.units == (0, 1, 2, 3)
    assert window.done == {0, 1}
    assert window.problem.peak(window.runs) == 4
    assert window.problem.pressure((2, 3, 0)).tolist() == [3, 3, 2]


@pytest.mark.slow
def test_windows_reach_the_optimum_of_a_chain(monkeypatch):
    """n = 8 in 5 slots: from the 45 of 3 slots down to 22, by the published table."""
    problem = remat_problem(remat_chain(8))
    poor = solve_chain(problem, as_chain(problem), 3, Deadline(60)).schedule
    reports = []
    monkeypatch.setattr("cpplan.remat.search.remat_windows._WINDOW_RUNS", 30)
    budget = Budget(Deadline(60))
    found = improve_windows(problem, 5, poor, budget, searches=20, report=reports.append)
    assert problem.total_cost(poor) == 45
    assert problem.is_schedule(found.schedule)
    assert problem.peak(found.schedule) == found.peak <= 5
    assert found.cost == problem.total_cost(found.schedule) == 22
    assert reports[-1] == found


def test_a_start_that_does_not_fit_is_refused():
    problem = remat_problem(remat_chain(2))
    with pytest.raises(InputError, match="start takes 4 bytes: expected at most 3"):
        improve_windows(problem, 3, range(5), Budget(Deadline(60)))


@pytest.mark.parametrize(("begin", "end"), [(0, 0), (-1, 2), (2, 6)])
def test_invalid_windows_are_refused(begin, end):
    problem = remat_problem(remat_chain(2))
    with pytest.raises(InputError, match="is no window of 5 runs"):
        remat_window(problem, range(5), begin, end)
