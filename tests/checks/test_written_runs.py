"""Runs of bytes against an array of them, and simulations in runs against those in bytes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from oracles import plan_for, random_problem, random_program

import cpplan
from cpplan import arena
from cpplan.checks.written_runs import WrittenRuns
from cpplan.errors import VerificationError


@pytest.mark.parametrize("seed", range(50))
def test_runs_know_what_an_array_of_bytes_does(seed):
    rng, runs, array = random.Random(seed), WrittenRuns(), np.zeros(40, int)
    for number in range(1, 60):
        low = rng.randrange(40)
        high = rng.randint(low + 1, 40)
        wanted = rng.randint(max(0, number - 4), number)
        others = np.flatnonzero(array[low:high] != wanted)
        assert runs.first_other(low, high, wanted) == (low + others[0] if len(others) else None)
        low, high = sorted(rng.sample(range(41), 2))
        runs.write(low, high, number)
        array[low:high] = number


def outcome(source, plan):
    try:
        return replace(cpplan.simulate(source, plan), rounds=0)
    except VerificationError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(120))
def test_simulations_in_runs_find_what_those_in_bytes_do(monkeypatch, seed):
    """Correct plans, and plans with one buffer moved; programs as well as bare problems."""
    rng = random.Random(seed)
    source = random_program(rng) if seed % 3 == 0 else random_problem(rng, rng.randint(1, 9))
    plan = plan_for(source)
    if seed % 2 and len(plan.buffers):
        row = rng.randrange(len(plan.buffers))
        offset = plan.offset.copy()
        offset[row] = rng.randint(0, plan.peak - int(plan.size[row]))
        plan = replace(plan, offset=offset)
    in_bytes = outcome(source, plan)
    monkeypatch.setattr(arena, "_MOVED_AT_MOST", -1)
    assert outcome(source, plan) == in_bytes


def test_enough_is_moved_where_sizes_say_so():
    count = 100
    problem = cpplan.Problem(
        tuple(map(str, range(count))),
        lower=list(range(count)), upper=list(range(1, count + 1)), size=[1 << 30] * count,
    )  # fmt: skip
    ran = cpplan.simulate(problem, plan_for(problem))
    assert (ran.rounds, ran.bytes_written) == (1, count << 30)
