"""Retentions apart from each other: what is found is a packing, and every offset is aligned."""

from __future__ import annotations

import numpy as np
import pytest

from cpplan.remat.search.retention_buffers import Retentions, separate_retentions
from cpplan.remat.tuning import RematTuning
from cpplan.runtime.deadline import Deadline


def random_retentions(seed: int, count: int, step: int = 1) -> Retentions:
    rng = np.random.default_rng(seed)
    begin = rng.integers(0, 12, count)
    return Retentions(
        begin,
        begin + rng.integers(1, 6, count),
        rng.integers(0, 20, count),
        np.full(count, step),
    )


def shared(retentions: Retentions, offsets: np.ndarray) -> int:
    """Bytes that pairs share, by definition."""
    total = 0
    for i in range(len(offsets)):
        for j in range(i):
            if max(retentions.begin[i], retentions.begin[j]) < min(
                retentions.end[i], retentions.end[j]
            ):
                top = min(offsets[i] + retentions.size[i], offsets[j] + retentions.size[j])
                total += max(0, int(top - max(offsets[i], offsets[j])))
    return total


def separate(retentions: Retentions, limit: int, seed: int = 0, moves: int = 20_000):
    zero = np.zeros(len(retentions.size), np.int64)
    return separate_retentions(
        retentions, zero, limit, Deadline(600), np.random.default_rng(seed), moves=moves
    )


@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("seed", range(8))
def test_reported_shared_bytes_are_shared(seed, step):
    """Also where there is too little room for all."""
    retentions = random_retentions(seed, 25, step)
    live = max(
        retentions.size[(retentions.begin <= t) & (retentions.end > t)].sum() for t in range(18)
    )
    for limit in (int(live) * 2 + 25 * step, int(live) * 3 // 4):
        limit = max(limit, int(retentions.size.max()))
        offsets, found = separate(retentions, limit, moves=3000)
        assert found == shared(retentions, offsets)
        assert (offsets % step == 0).all()
        assert (offsets >= 0).all()
        assert (offsets + retentions.size).max() <= limit
        assert found == 0 if limit > live else found > 0


def test_without_a_byte_to_spare():
    """Squares of four: 2 and 2 beside 4, then 3 and 1; one of 1 throughout, at either end."""
    retentions = Retentions(
        np.array([0, 0, 0, 1, 1]),
        np.array([2, 1, 1, 2, 2]),
        np.array([1, 2, 2, 3, 1]),
        np.ones(5, np.int64),
    )
    offsets, found = separate(retentions, 5)
    assert found == 0
    assert shared(retentions, offsets) == 0


def test_a_start_that_is_a_packing_stays():
    retentions = Retentions(*(np.array(a) for a in ([0, 0], [1, 1], [3, 4], [1, 1])))
    offsets, found = separate_retentions(
        retentions, np.array([4, 0]), 7, Deadline(600), np.random.default_rng(0), moves=5
    )
    assert (offsets.tolist(), found) == ([4, 0], 0)


def test_same_seed_same_offsets():
    retentions = random_retentions(3, 40)
    one, two = (separate(retentions, 70, seed=5, moves=2000)[0] for _ in range(2))
    assert one.tolist() == two.tolist()


def test_too_many_retentions_are_refused(tune):
    tune(RematTuning, most_retentions=6)
    with pytest.raises(ValueError, match="7 retentions: at most 6"):
        separate(random_retentions(0, 7), 100)


def test_moves_of_few_stays_are_counted_as_work():
    """Two retentions that do not fit: a move takes a third of a microsecond, however few."""
    retentions = Retentions(*(np.array(row) for row in ([0, 0], [2, 2], [4, 4], [1, 1])))
    deadline = Deadline(60, deterministic=True)
    random = np.random.default_rng(0)
    separate_retentions(retentions, np.array([0, 0]), 6, deadline, random, moves=100_000)
    assert 60 - deadline.remaining() > 0.03
