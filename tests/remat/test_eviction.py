"""Greedy eviction: what it returns is valid and fits; by hand, at random, and on real graphs."""

from __future__ import annotations

import pytest
from support.published import DATASETS
from support.remat_oracle import random_remat_problem, remat_chain

import cpplan
from cpplan.program.anf import Program
from cpplan.program.liveness import to_problem
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.heuristics.eviction import evict
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline, TimeUpError

RULES = {"farthest_use": True, "dtr": False}


@pytest.mark.parametrize("ahead", RULES.values(), ids=RULES)
def test_an_order_that_fits_is_left_alone(ahead):
    for seed in range(20):
        problem = random_remat_problem(seed, 6)
        order = given_order(problem)
        assert evict(problem, order, problem.peak(order), Deadline(10), ahead=ahead) == order


def test_the_value_used_last_goes_first():
    """Chain of n = 2 in 4 slots: at unit 3 t0 goes, and comes again for unit 4 (cost 6).

    In 3 slots too (published optimum 6).
    """
    problem = remat_problem(remat_chain(2))
    assert evict(problem, range(5), 3, Deadline(10)) == (0, 1, 2, 3, 0, 4)
    assert evict(problem, range(5), 2, Deadline(10)) is None


def test_a_chain_of_thousands():
    """n = 2000 in 200 slots instead of 2002."""
    problem = remat_problem(remat_chain(2000))
    schedule = evict(problem, range(4001), 200, Deadline(60))
    assert schedule is not None
    assert problem.is_schedule(schedule)
    assert problem.peak(schedule) <= 200


def test_training_step_fits_into_half_its_memory():
    """Half of the memory; the program's live bytes, by liveness, say the same."""
    problem = remat_problem(cpplan.load(DATASETS / "training/resnet18_training.json"))
    order = given_order(problem)
    limit = problem.peak(order) // 2
    for ahead in RULES.values():
        schedule = evict(problem, order, limit, Deadline(60), ahead=ahead)
        assert schedule is not None
        assert problem.is_schedule(schedule)
        live = to_problem(Program(problem.graph, problem.expand(schedule))).live_bytes()
        assert live.max() == problem.peak(schedule) <= limit


def test_expired_deadline_raises():
    with pytest.raises(TimeUpError):
        evict(remat_problem(remat_chain(2)), range(5), 3, Deadline(0))


class ThreeLooks(Deadline):
    """A deadline that is over at the fourth look at the clock."""

    looks = 0

    def check(self, work: float = 0.0) -> None:
        self.looks += 1
        if self.looks > 3:
            raise TimeUpError


def test_a_run_ends_at_its_deadline(monkeypatch):
    monkeypatch.setattr("cpplan.remat.heuristics.eviction._A_TURN", 100)
    problem = remat_problem(remat_chain(2000))
    with pytest.raises(TimeUpError):
        evict(problem, range(4001), 200, ThreeLooks(60))


@pytest.mark.parametrize("ahead", RULES.values(), ids=RULES)
def test_looks_at_the_clock_change_no_schedule(ahead, monkeypatch):
    for seed in range(10):
        problem = random_remat_problem(seed, 8)
        order = given_order(problem)
        limits = range(problem.peak(order) // 2, problem.peak(order))
        at_once = [evict(problem, order, limit, Deadline(60), ahead=ahead) for limit in limits]
        with monkeypatch.context() as patch:
            patch.setattr("cpplan.remat.heuristics.eviction._A_TURN", 1)
            paused = [evict(problem, order, limit, Deadline(60), ahead=ahead) for limit in limits]
        assert paused == at_once
