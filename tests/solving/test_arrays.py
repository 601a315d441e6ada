"""One call from arrays to offsets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples

import cpplan
from cpplan.model.errors import InfeasibleError, InputError


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9), st.integers(1, 5), st.integers(0, 40), st.sampled_from((1, 4))
        ),
        max_size=12,
    )
)
@settings(max_examples=examples(40), deadline=None)
def test_buffers_live_at_once_are_apart(rows: list[tuple[int, int, int, int]]) -> None:
    table = np.array(rows, np.int64).reshape(-1, 4)
    lower, width, size, alignment = table.T
    found = cpplan.pack(lower, lower + width, size, alignment=alignment, deterministic=True)
    assert not (found.offsets % alignment).any()
    ends = found.offsets + size
    assert found.peak == ends.max(initial=0)
    for one in range(len(rows)):
        for other in range(one):
            at_once = max(lower[one], lower[other]) < min((lower + width)[[one, other]])
            apart = ends[one] <= found.offsets[other] or ends[other] <= found.offsets[one]
            assert apart or not at_once
    live = [size[(lower <= t) & (t < lower + width)].sum() for t in range(16)]
    assert max(live) <= found.bound <= found.peak
    assert (found.status == "optimal") == (found.bound == found.peak)


def test_a_capacity_is_kept_or_refused() -> None:
    columns = [0, 0, 2, 3], [2, 4, 5, 6], [64, 32, 48, 64]
    assert cpplan.pack(*columns, capacity="1 KiB").peak <= 1024
    with pytest.raises(InfeasibleError, match="does not fit into 128 B: 16 B are missing"):
        cpplan.pack(*columns, capacity=128)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0, 1], [2, 3], [4]), r"size has shape \(1,\): expected \(2,\)"),
        (([[0]], [[1]], [[2]]), r"lower has shape \(1, 1\): expected \(n,\)"),
        (([0], [1], [2.5]), "size must hold 64-bit integers"),
        (([0, 1], [1, 1], [2, 2]), "buffer '1': upper must be greater than lower"),
    ],
)
def test_what_is_no_problem_is_refused_by_row(columns, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cpplan.pack(*columns)


def test_same_seed_gives_the_same_offsets() -> None:
    lower = np.arange(200) % 37
    upper, size = lower + 1 + np.arange(200) % 11, 1 + np.arange(200) * 7919 % 1000
    options = {"deterministic": True, "workers": 1, "time_limit": 0.2}
    one, two = (cpplan.pack(lower, upper, size, **options) for _ in range(2))
    assert one.offsets.tolist() == two.offsets.tolist()
