"""The limit on live bytes moves until packings just fit."""

from __future__ import annotations

from cpplan.remat.objectives import MovingLimit


def test_a_limit_falls_farther_after_each_packing_that_does_not_fit():
    moving = MovingLimit(1000, 100, sharing=False)
    limits = []
    for _ in range(3):
        moving.packed(moving.live, 10)
        limits.append(moving.live)
    assert limits == [990, 970, 930]


def test_a_limit_moves_between_one_that_fits_and_one_that_does_not():
    moving = MovingLimit(1000, 100, sharing=False)
    moving.packed(1000, 100)
    moving.packed(900, -5)
    assert moving.live == 950
    moving.packed(950, 3)
    assert moving.live == 925
