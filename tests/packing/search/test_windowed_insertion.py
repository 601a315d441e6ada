"""Insertion search in windows of time, for a great many buffers."""

from dataclasses import replace

import numpy as np
import pytest

from cpplan.model.problem import Gap, Problem
from cpplan.packing.heuristics import get
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.search.time_windows import TimeWindows
from cpplan.packing.search.windowed_insertion import WindowedInsertion
from cpplan.packing.tuning import PackingTuning
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans


def start_of(problem):
    offsets = get("first_fit")(problem, Deadline(60))
    return Outcome(offsets, int((offsets + problem.size).max()), int(problem.live_bytes().max()))


@pytest.mark.parametrize("live", [10, 40])
def test_lowers_first_fit_to_the_live_bytes(live):
    problem = reduce_problem(random_lifespans(1500, seed=live, live=live)).problem
    start = start_of(problem)
    found = WindowedInsertion(problem, 0).run(
        start, moves=300, target=0, deadline=Deadline(300, deterministic=True)
    )
    check_offsets(problem, found.offsets, "windows")
    assert found.peak == (found.offsets + problem.size).max() < start.peak
    assert found.peak <= 1.005 * start.bound


def test_gaps_windows_and_fixed_offsets_are_kept():
    plain = reduce_problem(random_lifespans(800, seed=3, live=30)).problem
    long = np.flatnonzero(plain.upper - plain.lower > 6)[:120].tolist()
    gaps = {
        row: [Gap(int(plain.lower[row]) + 2, int(plain.upper[row]) - 2, 0, row % 2 * 16)]
        for row in long
    }
    fixed = {int(np.argmin(plain.upper)): 4096}
    problem = reduce_problem(replace(plain, gaps=gaps, fixed=fixed)).problem
    start = start_of(problem)
    found = WindowedInsertion(problem, 0).run(start, moves=40, target=0, deadline=Deadline(60))
    check_offsets(problem, found.offsets, "windows")
    assert found.peak < start.peak


def test_same_seed_gives_the_same_packing():
    problem = reduce_problem(random_lifespans(600, seed=5, live=30)).problem
    start = start_of(problem)
    runs = [
        WindowedInsertion(problem, 7).run(start, moves=8, target=0, deadline=Deadline(60))
        for _ in range(2)
    ]
    assert runs[0].peak == runs[1].peak
    np.testing.assert_array_equal(runs[0].offsets, runs[1].offsets)


def test_a_buffer_longer_than_any_window_is_moved_by_force(tune):
    """Lying on top of all others, which are small and come and go below it."""
    tune(PackingTuning, insertion_buffers=20)
    count = 40
    lower = np.append(np.arange(count), 0)
    upper = np.append(np.arange(count) + 1, count)
    size = np.append(np.full(count, 8), 16)
    problem = Problem([str(k) for k in range(count + 1)], lower, upper, size)
    start = Outcome(np.append(np.full(count, 4), 16), 32, 24)
    search = WindowedInsertion(problem, 0)
    found = search.run(start, moves=200, target=24, deadline=Deadline(60))
    check_offsets(problem, found.offsets, "windows")
    assert found.peak == 24


def test_windows_meet_no_more_than_asked_and_contain_the_lifespan():
    problem = random_lifespans(500, seed=1, live=10)
    windows = TimeWindows(problem)
    for row in range(0, 500, 17):
        steps = windows.around(row, 60, 0.3)
        assert steps is not None
        meets = (problem.lower < steps[1]) & (problem.upper > steps[0])
        assert windows.count(*steps) == meets.sum() <= 60
        assert sorted(windows.rows(*steps)) == np.flatnonzero(meets).tolist()
        assert steps[0] <= problem.lower[row] < problem.upper[row] <= steps[1]


def test_clash_with_a_clipped_obstacle_is_detected():
    problem = Problem(("a", "b"), lower=[0, 1], upper=[3, 9], size=[8, 8])
    piece = TimeWindows(problem).piece(0, 4, np.array([8, 0]), 4)
    assert piece.rows.tolist() == [0]
    assert piece.problem.size.tolist() == [8, 4]
    assert piece.clashes(np.array([4, 0]))
    assert not piece.clashes(np.array([8, 0]))
