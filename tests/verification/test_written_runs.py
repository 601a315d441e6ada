"""Runs of bytes against an array of them, compiled and not; simulations in runs and in bytes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.oracles import plan_for, random_problem, random_program
from support.sharing_oracle import random_sharing_graph

import cpplan
from cpplan import Graph, Op, Tensor, to_anf
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Placement
from cpplan.verification import arena, written_runs
from cpplan.verification.written_runs import WrittenRuns, first_wrong, first_wrong_compiled


@pytest.mark.parametrize("seed", seeds(30))
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


@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_loop_finds_what_an_array_of_bytes_does(seed):
    """Hundreds of runs at once.

    The checks ask for what is there, but for one: of a byte, or of many.
    """
    rng, array, accesses = random.Random(seed), np.zeros(2000, int), []
    for number in range(1, 1500):
        low = rng.randrange(2000)
        high = min(2000, low + rng.randint(1, 20 if seed % 2 else 300))
        array[low:high] = number
        accesses.append((True, low, high, number))
        low = rng.randrange(2000)
        changes = np.flatnonzero(array[low:] != array[low])
        accesses.append((False, low, low + int(changes[0]) if len(changes) else 2000, array[low]))
    for find in (first_wrong, first_wrong_compiled):
        assert find(*columns(accesses)) is None
    row = rng.choice([k for k in range(1401, 2998, 2) if accesses[k][2] < 2000])
    _, low, high, number = accesses[row]
    accesses[row] = (False, low, high, number + 1) if seed % 4 else (False, low, high + 1, number)
    for find in (first_wrong, first_wrong_compiled):
        assert find(*columns(accesses)) == (row, low if seed % 4 else high)


def columns(accesses):
    writes, *others = np.array(accesses, np.int64).T
    return writes.astype(bool), *others


def outcome(source, plan):
    try:
        return replace(cpplan.simulate(source, plan), rounds=0)
    except VerificationError as error:
        return str(error)


@pytest.fixture(params=["python", "compiled"])
def in_runs(request, monkeypatch):
    """Called before a simulation, has it keep runs."""

    def change():
        monkeypatch.setattr(arena, "_MOVED_AT_MOST", -1)
        if request.param == "compiled":
            monkeypatch.setattr(written_runs, "_VERY_MANY", -1)
            monkeypatch.setattr(written_runs, "_loop_is_compiled", lambda: True)
            monkeypatch.setattr(written_runs, "first_wrong", None)

    return change


@pytest.mark.parametrize("seed", seeds(60))
def test_simulations_in_runs_find_what_those_in_bytes_do(in_runs, seed):
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
    in_runs()
    assert outcome(source, plan) == in_bytes


@pytest.mark.parametrize("seed", range(15))
def test_copies_are_told_apart_byte_by_byte(in_runs, seed):
    """Bytes and runs may name another access first, as bytes look for the numbers of writes first.

    Plans that share, correct and with each buffer moved by a byte.
    """
    rng = random.Random(seed)
    graph = random_sharing_graph(seed, rng.randint(4, 9))
    plan = cpplan.solve(graph, in_place=True, placement=True, time_limit=5, workers=1)
    plans = [plan]
    for row, shift in ((row, shift) for row in range(len(plan.buffers)) for shift in (-1, 1)):
        offset = plan.offset.copy()
        offset[row] += shift
        plans.append(replace(plan, offset=offset))
    in_bytes = [isinstance(outcome(graph, plan), str) for plan in plans]
    assert not in_bytes[0]
    assert any(in_bytes)
    in_runs()
    assert [isinstance(outcome(graph, plan), str) for plan in plans] == in_bytes


def test_a_copy_beside_its_original_is_named(in_runs):
    """u holds copies of x at bytes 0 and 3; a second v, once more x, lies over the first by 1."""
    tensors = (
        Tensor("x", 2, kind="input"),
        *(Tensor("u", 2), Tensor("v", 2), Tensor("e", 1, kind="output")),
    )
    ops = (
        Op("f", "copy", ("x",), ("u",), placements=(Placement("x", "u", 0),)),
        Op("g", "copy", ("x",), ("v",), placements=(Placement("x", "v", 0),)),
        Op("end", "", ("u", "v"), ("e",)),
    )
    graph = Graph("g", tensors, ops)
    plan = plan_for(to_anf(graph))
    at = {"x": 0, "u": 3, "v": 4, "e": 0}
    plan = replace(plan, offset=np.array([at[name] for name in plan.buffers]), peak=6)
    in_runs()
    found = outcome(graph, plan)
    assert "op 'end' finds that bytes 4..5 of the arena are no longer those of tensor 'u'" in found
    offset = np.array([{**at, "v": 3}[name] for name in plan.buffers])
    assert outcome(graph, replace(plan, offset=offset, peak=5)).rounds == 0


def test_enough_is_moved_where_there_are_many_accesses(monkeypatch):
    """257 writes need two rounds; of a byte each, they take no longer than to fill 8 KiB."""
    count = 257
    problem = cpplan.Problem(
        tuple(map(str, range(count))),
        lower=list(range(count)), upper=list(range(1, count + 1)), size=[1] * count,
    )  # fmt: skip
    assert cpplan.simulate(problem, plan_for(problem)).rounds == 2
    monkeypatch.setattr(arena, "_MOVED_AT_MOST", 2 * 2 * count * ((1 << 13) + 1))
    assert cpplan.simulate(problem, plan_for(problem)).rounds == 2
    monkeypatch.setattr(arena, "_MOVED_AT_MOST", 2 * 2 * count * ((1 << 13) + 1) - 1)
    assert cpplan.simulate(problem, plan_for(problem)).rounds == 1


def test_enough_is_moved_where_sizes_say_so():
    count = 100
    problem = cpplan.Problem(
        tuple(map(str, range(count))),
        lower=list(range(count)), upper=list(range(1, count + 1)), size=[1 << 30] * count,
    )  # fmt: skip
    ran = cpplan.simulate(problem, plan_for(problem))
    assert (ran.rounds, ran.bytes_written) == (1, count << 30)
