"""Generated packing problems: what is said of them can be counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpplan.model.errors import InputError
from cpplan.model.problem import Ints, Problem
from cpplan.packing.reduction import reduce_problem
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import (
    near_perfect_packing,
    perfect_packing,
    random_lifespans,
    training_layers,
)


def rectangles(problem: Problem, offset: Ints) -> frozenset[tuple[int, ...]]:
    """(lower, upper, begin, end) of every buffer."""
    columns = (problem.lower, problem.upper, offset, offset + problem.size)
    return frozenset(zip(*(column.tolist() for column in columns), strict=True))


def is_guillotine(pieces: frozenset[tuple[int, ...]]) -> bool:
    """True if straight cuts from side to side separate all pieces."""
    if len(pieces) <= 1:
        return True
    for first, last in ((0, 1), (2, 3)):
        for cut in {piece[first] for piece in pieces}:
            before = frozenset(piece for piece in pieces if piece[last] <= cut)
            after = frozenset(piece for piece in pieces if piece[first] >= cut)
            if before and after and len(before) + len(after) == len(pieces):
                # Further cuts are as possible whichever comes first.
                return is_guillotine(before) and is_guillotine(after)
    return False


@given(
    count=st.integers(1, 80),
    seed=st.integers(0, 1000),
    pinwheels=st.sampled_from([0.0, 0.3, 1.0]),
    alignment=st.sampled_from([1, 64]),
)
def test_cut_boxes_are_full_at_every_step(
    count: int, seed: int, pinwheels: float, alignment: int
) -> None:
    problem, offset, height = perfect_packing(
        count, seed=seed, pinwheels=pinwheels, steps=20, height=30 * alignment, alignment=alignment
    )
    assert len(problem) == count
    assert height == 30 * alignment
    assert problem.live_bytes().tolist() == [height] * 20
    assert not (problem.size % alignment).any()
    assert (problem.size > 0).all()
    check_offsets(problem, offset, "planted")
    assert int((offset + problem.size).max()) == height


def test_straight_cuts_take_guillotine_packings_apart_and_no_pinwheel() -> None:
    for seed in range(5):
        problem, offset, _ = perfect_packing(60, seed=seed)
        assert is_guillotine(rectangles(problem, offset))
        problem, offset, _ = perfect_packing(61, seed=seed, pinwheels=1.0)
        assert not is_guillotine(rectangles(problem, offset))


def test_the_smallest_pinwheel_has_five_pieces() -> None:
    problem, offset, _ = perfect_packing(5, seed=0, pinwheels=1.0, steps=3, height=3, alignment=1)
    left_or_right = [
        {(0, 1, 0, 2), (0, 2, 2, 3), (2, 3, 1, 3), (1, 3, 0, 1), (1, 2, 1, 2)},
        {(0, 1, 1, 3), (0, 2, 0, 1), (2, 3, 0, 2), (1, 3, 2, 3), (1, 2, 1, 2)},
    ]
    assert rectangles(problem, offset) in left_or_right


def test_a_box_can_be_cut_into_its_cells_and_no_further() -> None:
    problem, _, _ = perfect_packing(12, seed=3, steps=4, height=3, alignment=1)
    assert problem.size.tolist() == [1] * 12
    with pytest.raises(InputError, match="cannot be cut into 13 pieces"):
        perfect_packing(13, seed=3, steps=4, height=3, alignment=1)


@pytest.mark.parametrize("fill", [0.6, 0.95, 1.0])
def test_what_is_left_of_a_box_fits_into_it(fill: float) -> None:
    problem, offset, height = near_perfect_packing(120, seed=2, fill=fill)
    assert len(problem) == 120
    check_offsets(problem, offset, "planted")
    assert int((offset + problem.size).max()) <= height
    assert problem.live_bytes().mean() <= fill * height


def test_random_lifespans_are_live_as_often_as_asked() -> None:
    for live in (10, 200):
        problem = random_lifespans(50_000, seed=5, live=live, alignment=64)
        lifetime = problem.upper - problem.lower
        assert lifetime.sum() / (16 * 50_000) == pytest.approx(live, rel=0.02)
        # Exponential: as much spread as mean.
        assert lifetime.std() == pytest.approx(lifetime.mean(), rel=0.02)
        # Log-uniform: half of the sizes are below the geometric mean of the limits.
        assert (problem.size <= 2**13).mean() == pytest.approx(0.5, abs=0.02)
        assert not (problem.size % 64).any()
        assert problem.size.max() <= 1 << 20


def test_training_layers_repeat() -> None:
    problem = training_layers(10, seed=4, a_layer=6, kept=3, steps=20)
    assert len(problem) == 10 * (6 + 6 + 3)
    short = problem.upper - problem.lower <= 20
    # What waits for the backward run nests: the first layer's waits longest. Of the last layer's,
    # whose two runs follow each other, some may be short.
    assert (~short).sum() >= 9 * 3
    forward = np.flatnonzero(short & (problem.upper <= 200))
    shapes = {
        (int(problem.lower[row]) % 20, int(problem.size[row]))
        for row in forward
        if problem.lower[row] < 180
    }
    assert len(shapes) <= 6


def test_seeds_repeat_and_differ() -> None:
    makers = (
        lambda seed: perfect_packing(40, seed=seed, pinwheels=0.5).problem,
        lambda seed: near_perfect_packing(40, seed=seed).problem,
        lambda seed: random_lifespans(40, seed=seed),
        lambda seed: training_layers(4, seed=seed),
    )
    for make in makers:
        zeros = np.zeros(len(make(1)), np.int64)
        assert rectangles(make(1), zeros) == rectangles(make(1), zeros)
        assert rectangles(make(1), zeros) != rectangles(make(2), zeros)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda: perfect_packing(0, seed=1), "at least 1"),
        (lambda: perfect_packing(9, seed=1, height=1000), "multiple of the alignment 1024"),
        (lambda: perfect_packing(9, seed=1, pinwheels=1.5), "must be a probability"),
        (lambda: near_perfect_packing(9, seed=1, fill=0), "fill must be above 0"),
        (lambda: random_lifespans(9, seed=1, smallest=5, largest=4), "smallest <= largest"),
        (lambda: training_layers(0, seed=1), "at least one layer"),
    ],
)
def test_arguments_that_make_no_sense(wrong, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        wrong()


@pytest.mark.parametrize("pinwheels", [0.0, 0.3])
def test_cut_boxes_do_not_fall_apart(pinwheels: float) -> None:
    for seed in range(10):
        problem = perfect_packing(50, seed=seed, pinwheels=pinwheels).problem
        assert set(reduce_problem(problem).part.tolist()) == {0}
