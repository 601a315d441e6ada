"""Minimum memory to reach a unit: by hand, sound on random graphs, and on a real graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cases import seeds
from support.remat_oracle import least_cost, random_remat_problem, remat_chain

import cpplan
from cpplan.remat.footprint import Footprint, least_footprint, reach_bound
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline

DATASETS = Path(__file__).parents[2] / "datasets"


@pytest.mark.parametrize("seed", seeds(30))
def test_no_schedule_fits_below_the_reach(seed):
    problem = random_remat_problem(seed, 6)
    bound = reach_bound(problem, Deadline(60))
    assert bound.bytes >= least_footprint(problem).bytes
    assert least_cost(problem, bound.bytes - 1) is None


def test_a_chain_is_reached_with_three_slots():
    """Published optimum for n = 4 in 3 slots: 15, so that no bound above 3 is right."""
    assert reach_bound(remat_problem(remat_chain(4)), Deadline(60)) == Footprint(3, 5)


def test_reaching_a_layered_op_takes_more_than_its_footprint():
    """By themselves its units need 24,470 bytes; to reach the last but one takes 30,000."""
    problem = remat_problem(cpplan.load(DATASETS / "ordering/layered_250.json"))
    assert least_footprint(problem) == Footprint(24470, 248)
    assert reach_bound(problem, Deadline(600), target=30_000).bytes >= 30_000


def test_one_unit_takes_no_more_than_its_time():
    """The unit that needs most is not settled by 50,000 sets; a second is 20,000 of them."""
    problem = remat_problem(cpplan.load(DATASETS / "training/unet_training.json"))
    whole = Deadline(10, deterministic=True)
    reach_bound(problem, whole.share(0.01))
    assert 9.8 < whole.remaining() <= 9.9


def test_limit_of_zero_sets_gives_the_footprint():
    problem = remat_problem(remat_chain(4))
    assert reach_bound(problem, Deadline(60), states=0) == least_footprint(problem)
