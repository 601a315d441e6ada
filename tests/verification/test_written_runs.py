"""Runs of bytes, compiled and not, and simulations that keep them, against arrays of bytes."""

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
from cpplan.verification import arena, script, written_runs
from cpplan.verification.access_trace import trace
from cpplan.verification.relations import pairs_in_place
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
        return cpplan.simulate(source, plan)
    except VerificationError as error:
        return str(error)


def is_intact_in_bytes(source, plan):
    """True if every check finds its bytes in an arena of as many (write, byte) pairs as bytes."""
    if isinstance(source, cpplan.Problem):
        listed = script.from_problem(source)
    else:
        over = pairs_in_place(source.graph, plan)
        listed = script.from_accesses(trace(source, plan.residency, over))
    try:
        peak, offset = arena._placed(listed, plan)
    except VerificationError:
        return False
    memory = np.zeros((peak, 2), np.int64)
    columns = (listed.writes, offset[listed.buffer], listed.begin, listed.end, listed.serial)
    for is_write, at, begin, end, serial, start in zip(*columns, listed.start, strict=True):
        there = np.stack([np.full(end - begin, serial), start + np.arange(end - begin)], axis=1)
        if is_write:
            memory[at + begin : at + end] = there
        elif (memory[at + begin : at + end] != there).any():
            return False
    return True


@pytest.fixture(params=["python", "compiled"])
def in_runs(request, monkeypatch):
    """Has simulations keep runs in Python, or compiled."""
    if request.param == "compiled":
        monkeypatch.setattr(written_runs, "_VERY_MANY", -1)
        monkeypatch.setattr(written_runs, "_loop_is_compiled", lambda: True)
        monkeypatch.setattr(written_runs, "first_wrong", None)


@pytest.mark.usefixtures("in_runs")
@pytest.mark.parametrize("seed", seeds(60))
def test_simulations_find_what_an_array_of_bytes_does(seed):
    """Correct plans, and plans with one buffer moved; programs as well as bare problems."""
    rng = random.Random(seed)
    source = random_program(rng) if seed % 3 == 0 else random_problem(rng, rng.randint(1, 9))
    plan = plan_for(source)
    if seed % 2 and len(plan.buffers):
        row = rng.randrange(len(plan.buffers))
        offset = plan.offset.copy()
        offset[row] = rng.randint(0, plan.peak - int(plan.size[row]))
        plan = replace(plan, offset=offset)
    assert (not isinstance(outcome(source, plan), str)) == is_intact_in_bytes(source, plan)


@pytest.mark.usefixtures("in_runs")
@pytest.mark.parametrize("seed", range(15))
def test_copies_are_told_apart_byte_by_byte(seed):
    """Plans that share, correct and with each buffer moved by a byte."""
    rng = random.Random(seed)
    graph = random_sharing_graph(seed, rng.randint(4, 9))
    plan = cpplan.solve(graph, in_place=True, placement=True, time_limit=5, workers=1)
    plans = [plan]
    for row, shift in ((row, shift) for row in range(len(plan.buffers)) for shift in (-1, 1)):
        offset = plan.offset.copy()
        offset[row] += shift
        plans.append(replace(plan, offset=offset))
    program = to_anf(graph, plan.order)
    intact = [is_intact_in_bytes(program, plan) for plan in plans]
    assert intact[0]
    assert not all(intact)
    assert [not isinstance(outcome(graph, plan), str) for plan in plans] == intact


@pytest.mark.usefixtures("in_runs")
def test_a_copy_beside_its_original_is_named():
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
    found = outcome(graph, plan)
    assert "op 'end' finds that bytes 4..5 of the arena are no longer those of tensor 'u'" in found
    offset = np.array([{**at, "v": 3}[name] for name in plan.buffers])
    assert outcome(graph, replace(plan, offset=offset, peak=5)).arena_bytes == 5


def test_very_large_buffers_are_simulated_at_once():
    count = 100
    problem = cpplan.Problem(
        tuple(map(str, range(count))),
        lower=list(range(count)), upper=list(range(1, count + 1)), size=[1 << 30] * count,
    )  # fmt: skip
    assert cpplan.simulate(problem, plan_for(problem)).bytes_written == count << 30
