"""The insertion search keeps to the rules, repeats itself, and packs tightly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples
from support.published import minimalloc

from cpplan.model.problem import Gap, Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search import insertion_search
from cpplan.packing.search.insertion_search import InsertionSearch, applies_to
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.verifier import check_offsets


def start_of(problem: Problem) -> Outcome:
    """All buffers on top of one another, those with fixed offsets at the bottom."""
    offsets = np.zeros(len(problem), np.int64)
    end = 0
    for row, offset in problem.fixed.items():
        offsets[row] = offset
        end = max(end, offset + int(problem.size[row]))
    for row in range(len(problem)):
        if row not in problem.fixed:
            step = int(problem.alignment[row])
            offsets[row] = -(-end // step) * step
            end = int(offsets[row] + problem.size[row])
    return Outcome(offsets, end, lower_bound(problem).value)


def searched(problem: Problem, moves: int, seed: int = 0) -> Outcome:
    state = start_of(problem)
    search = InsertionSearch(problem, seed)
    outcome = search.run(state, moves=moves, target=state.bound, deadline=Deadline(600))
    check_offsets(problem, outcome.offsets, "insertion search")
    assert state.bound <= outcome.peak <= state.peak
    assert outcome.peak == (outcome.offsets + problem.size).max()
    return outcome


def cut_box(cuts: int, seed: int, width: int = 40, height: int = 400) -> Problem:
    """A box cut into rectangles: the height of the box can be reached."""
    random = np.random.default_rng(seed)
    boxes = [(0, width, 0, height)]
    while len(boxes) <= cuts:
        left, right, low, high = boxes.pop(int(random.integers(len(boxes))))
        if random.random() < 0.5 and right - left > 1:
            at = int(random.integers(left + 1, right))
            boxes += [(left, at, low, high), (at, right, low, high)]
        elif high - low > 1:
            at = int(random.integers(low + 1, high))
            boxes += [(left, right, low, at), (left, right, at, high)]
        else:
            boxes.append((left, right, low, high))
    left, right, low, high = np.array(boxes).T
    names = [str(row) for row in range(len(boxes))]
    return Problem(names, lower=left, upper=right, size=high - low)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    count = draw(st.integers(1, 8))
    lower = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    width = draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    upper = [a + b for a, b in zip(lower, width, strict=True)]
    size = draw(st.lists(st.integers(1, 12), min_size=count, max_size=count))
    alignment = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=count, max_size=count))
    gaps = {
        row: [Gap(lower[row] + 1, upper[row] - 1)]
        for row in range(count)
        if width[row] > 2 and draw(st.booleans())
    }
    fixed = {0: alignment[0] * draw(st.integers(0, 5))} if draw(st.booleans()) else {}
    names = [str(row) for row in range(count)]
    return Problem(names, lower, upper, size, alignment, gaps=gaps, fixed=fixed)


@given(problems(), st.integers(0, 3))
@settings(max_examples=examples(30))
def test_every_packing_found_is_one(problem: Problem, seed: int) -> None:
    searched(problem, 60, seed)


def test_fixed_offsets_are_kept() -> None:
    """The fixed buffer lies at 4..8: one of 4 fits below it, one of 8 above it; optimum 16."""
    problem = Problem(("fixed", "small", "large"), [0, 0, 0], [2, 2, 2], [4, 4, 8], fixed={0: 4})
    offsets = np.array([4, 20, 8])
    search = InsertionSearch(problem, 0)
    outcome = search.run(Outcome(offsets, 24, 16), moves=50, target=16, deadline=Deadline(60))
    assert outcome.offsets.tolist() == [4, 0, 8]


def test_the_search_ends_where_no_packing_can_be_lower() -> None:
    """The fixed buffer ends at 9, whatever the target, which is no multiple of 4."""
    problem = Problem(("fixed", "odd"), [0, 0], [2, 2], [5, 3], [4, 4], fixed={0: 4})
    start = Outcome(np.array([4, 12]), 15, 0)
    search = InsertionSearch(problem, 0)
    outcome = search.run(start, moves=50, target=0, deadline=Deadline(60))
    assert (outcome.offsets.tolist(), outcome.peak) == ([4, 0], 9)


def test_gaps_are_filled() -> None:
    """b lives within a's gap: both lie at 0, and the peak is that of the larger."""
    problem = Problem(("a", "b"), [0, 1], [3, 2], [4, 6], gaps={0: [Gap(1, 2)]})
    assert searched(problem, 50).peak == 6


def test_alignments_are_respected() -> None:
    """8 + 5 and a buffer at multiples of 8: 5 lies on 8, the optimum is 13, not 16."""
    problem = Problem(("a", "b"), [0, 0], [1, 1], [8, 5], [8, 1])
    assert searched(problem, 50).peak == 13


@pytest.mark.parametrize("seed", range(3))
def test_boxes_are_put_together_again(seed: int) -> None:
    """Thirty rectangles without any waste."""
    assert searched(cut_box(30, seed), 20_000).peak == 400


def test_same_seed_gives_the_same_packing() -> None:
    problem = cut_box(60, seed=5, height=997)
    one, other = (searched(problem, 2000, seed=3) for _ in range(2))
    assert one.offsets.tolist() == other.offsets.tolist()


def test_search_continues_from_a_better_packing() -> None:
    problem = cut_box(30, seed=1)
    search = InsertionSearch(problem, 0)
    search.run(start_of(problem), moves=1, target=400, deadline=Deadline(60))
    better = searched(problem, 20_000, seed=1)
    assert search.run(better, moves=0, target=400, deadline=Deadline(60)).peak == better.peak


def test_search_returns_to_its_best_packing() -> None:
    """Nothing lies below 400: after the moves of patience, all lie as in the best packing again."""
    problem = cut_box(30, seed=0)
    best = searched(problem, 20_000)._replace(bound=0)
    assert best.peak == 400
    search = InsertionSearch(problem, 0)
    patience = insertion_search._PATIENCE * len(problem)

    def strayed() -> int:
        packing = search._packing
        assert packing is not None
        moved = packing.lowest_end - problem.size != best.offsets
        return int((moved & packing._placed).sum())

    search.run(best, moves=patience - 1, target=0, deadline=Deadline(60))
    assert strayed() > 0
    search.run(best, moves=1, target=0, deadline=Deadline(60))
    assert strayed() == 0


def test_expired_deadline_keeps_the_best_packing() -> None:
    problem = cut_box(60, seed=2)
    state = start_of(problem)
    search = InsertionSearch(problem, 0)
    with pytest.raises(TimeUpError):
        search.run(state, moves=10**9, target=0, deadline=Deadline(0.03, deterministic=True))
    best = search.best(state)
    check_offsets(problem, best.offsets, "insertion search")
    assert best.peak < state.peak


@pytest.mark.slow
@pytest.mark.parametrize(("name", "known"), [("D", 1026048), ("J", 1019904)])
def test_hard_instances_end_below_what_was_known(name: str, known: int) -> None:
    """Heights that other searches reached; the live bytes are 986112 and 989184."""
    assert searched(reduce_problem(minimalloc(name)).problem, 300_000).peak < known


def test_windows_are_left_to_others() -> None:
    windowed = Problem(("a",), [0], [3], [8], gaps={0: [Gap(1, 2, 0, 4)]})
    assert not applies_to(windowed)
    assert applies_to(cut_box(5, seed=0))
