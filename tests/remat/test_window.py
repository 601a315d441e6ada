"""Windows of sequences: their pressure is the whole's, and so is what may take their place."""

from __future__ import annotations

import random

import pytest
from support.cases import seeds
from support.remat_oracle import random_remat_problem, remat_chain

from cpplan.model.errors import InputError
from cpplan.remat.heuristics.chain import as_chain, solve_chain
from cpplan.remat.problem import RematProblem, remat_problem
from cpplan.remat.search.remat_windows import improve_window, improve_windows
from cpplan.remat.search.window import remat_window
from cpplan.runtime.deadline import Deadline


def random_sequence(rng: random.Random, problem: RematProblem) -> list[int]:
    """Whatever may run next, also again."""
    sequence: list[int] = []
    while len(set(sequence)) < len(problem):
        done = set(sequence)
        may = [
            unit
            for unit in range(len(problem))
            if done.issuperset(problem.ordering.predecessors[unit])
            and (unit not in done or problem.repeatable[unit])
        ]
        sequence.append(rng.choice(may))
    return sequence


@pytest.mark.parametrize("seed", seeds(40))
def test_the_pressure_is_that_of_the_whole(seed):
    rng = random.Random(seed)
    problem = random_remat_problem(seed, rng.randint(1, 8))
    sequence = random_sequence(rng, problem)
    begin = rng.randrange(len(sequence))
    end = rng.randint(begin + 1, len(sequence))
    window = remat_window(problem, sequence, begin, end)
    whole = problem.pressure(sequence)[begin:end]
    assert window.problem.pressure(window.runs).tolist() == whole.tolist()
    assert window.problem.total_cost(window.runs) == problem.total_cost(sequence[begin:end])


@pytest.mark.parametrize("seed", seeds(30))
def test_what_takes_its_place_fits(seed):
    rng = random.Random(seed)
    problem = random_remat_problem(seed, rng.randint(2, 7))
    sequence = tuple(random_sequence(rng, problem))
    limit = problem.peak(sequence)
    begin = rng.randrange(len(sequence))
    end = rng.randint(begin + 1, len(sequence))
    better = improve_window(problem, limit, sequence, begin, end, Deadline(60))
    assert problem.is_sequence(better)
    assert problem.peak(better) <= limit
    assert problem.total_cost(better) <= problem.total_cost(sequence)
    assert (better == sequence) == (problem.total_cost(better) == problem.total_cost(sequence))


def test_a_value_that_lives_through_may_be_made_again():
    """t0, which g0 reads, is dropped while g1 runs, and made again before the window ends."""
    problem = remat_problem(remat_chain(2))
    window = remat_window(problem, [0, 1, 2, 3, 4], 2, 4)
    assert window.units == (0, 1, 2, 3)
    assert window.done == {0, 1}
    assert window.problem.peak(window.runs) == 4
    assert window.problem.pressure((2, 3, 0)).tolist() == [3, 3, 2]


@pytest.mark.slow
def test_windows_reach_the_optimum_of_a_chain():
    """n = 8 in 5 slots: from the 45 of 3 slots down to 22, by the published table."""
    problem = remat_problem(remat_chain(8))
    poor = solve_chain(problem, as_chain(problem), 3, Deadline(60)).sequence
    reports = []
    found = improve_windows(
        problem, 5, poor, Deadline(60), width=30, searches=20, report=reports.append
    )
    assert problem.total_cost(poor) == 45
    assert problem.is_sequence(found.sequence)
    assert problem.peak(found.sequence) == found.peak <= 5
    assert found.cost == problem.total_cost(found.sequence) == 22
    assert reports[-1] == found


def test_a_start_that_does_not_fit_is_refused():
    problem = remat_problem(remat_chain(2))
    with pytest.raises(InputError, match="start takes 4 bytes: expected at most 3"):
        improve_windows(problem, 3, range(5), Deadline(60))


@pytest.mark.parametrize(("begin", "end"), [(0, 0), (-1, 2), (2, 6)])
def test_what_is_no_window(begin, end):
    problem = remat_problem(remat_chain(2))
    with pytest.raises(InputError, match="is no window of 5 runs"):
        remat_window(problem, range(5), begin, end)
