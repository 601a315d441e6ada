"""The two models of whole storages: by hand, against brute force, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.cases import seeds
from support.instances import chain, perfect_packing, triangle
from support.storage_oracle import brute_force_total, random_storages

from cpplan.model.problem import Problem
from cpplan.packing.storage_ids.assignment import make_assignment
from cpplan.packing.storage_ids.checker import check_assignment
from cpplan.packing.storage_ids.rank_bound import rank_bound
from formulations import shared_storage, storage_classes

MODELS = (shared_storage, storage_classes)


def solve(sharing, log=None):
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.presolve_inclusion_work_limit = 0
    if log is not None:
        solver.log_callback = log
        solver.parameters.log_search_progress = True
        solver.parameters.log_to_stdout = False
    return solver, solver.solve(sharing.model)


def least(model, problem, group=None, lower=0):
    group = np.zeros(len(problem), np.int64) if group is None else group
    sharing = model.build(problem, group, upper=int(problem.size.sum()), lower=lower)
    solver, status = solve(sharing)
    assert status == cp_model.OPTIMAL
    keys = [str(label) for label in group.tolist()]
    assignment = make_assignment(problem, sharing.extract(solver), keys)
    check_assignment(problem, assignment, keys)
    assert sharing.proved_bound(solver) == assignment.total
    return assignment.total


@pytest.mark.parametrize("model", MODELS)
def test_a_chain_needs_two_storages(model):
    assert least(model, chain(6, 8)) == 16


@pytest.mark.parametrize("model", MODELS)
def test_the_larger_of_those_that_share_counts(model):
    """b meets both others; a and c share 6 bytes: 8 + 6."""
    problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 6])
    assert least(model, problem) == 14


@pytest.mark.parametrize("model", MODELS)
def test_groups_keep_apart_what_could_share(model):
    """In one group a and c share; in two, all three need storages of their own: 4 + 8 + 6."""
    problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 6])
    assert least(model, problem, np.array([0, 0, 1])) == 18


@pytest.mark.parametrize("model", MODELS)
def test_more_storages_than_are_ever_live_at_once_may_be_best(model):
    """Never more than two are live, but with a third storage the two large ones can share."""
    problem = Problem(
        ("big0", "one0", "one1", "big1"),
        lower=[0, 1, 2, 3],
        upper=[2, 3, 4, 5],
        size=[100, 1, 1, 100],
    )
    # A path: big0 - one0 - one1 - big1. Two colours put big0 with one1, one0 with big1: 200.
    # Three: both big ones share, and each small one is alone: 102.
    assert least(model, problem) == 102


def test_buffers_that_meet_in_pairs_only_need_three_storages():
    assert least(shared_storage, triangle()) == 3


def test_classes_refuse_gaps():
    with pytest.raises(ValueError, match="without gaps"):
        storage_classes.build(triangle(), np.zeros(3, np.int64), upper=3)


@pytest.mark.parametrize("seed", seeds(60))
def test_the_rank_bound_is_sound_and_keeps_the_optimum(seed):
    problem, group = random_storages(seed, gaps=True)
    expected = brute_force_total(problem, group)
    bound = rank_bound(problem, group).value
    assert bound <= expected
    assert least(shared_storage, problem, group, bound) == expected


@pytest.mark.parametrize("seed", range(8))
def test_both_models_agree_where_brute_force_ends(seed):
    problem = perfect_packing(seed, 16, steps=40, height=64)
    assert least(shared_storage, problem) == least(storage_classes, problem)


@pytest.mark.parametrize("model", MODELS)
def test_a_limit_below_the_least_total_is_infeasible(model):
    problem = chain(6, 8)
    group = np.zeros(6, np.int64)
    assert solve(model.build(problem, group, upper=15))[1] == cp_model.INFEASIBLE
    assert solve(model.build(problem, group, upper=16, lower=17))[1] == cp_model.INFEASIBLE


def test_live_sets_are_maximal_among_the_rows_asked_for():
    problem = Problem(("a", "b", "c", "d"), lower=[0, 1, 2, 3], upper=[3, 4, 6, 5], size=[1] * 4)
    asked = np.array([0, 1, 3])
    found = [live.tolist() for live in shared_storage.live_sets(problem, asked)]
    assert found == [[0, 1], [1, 3]]
