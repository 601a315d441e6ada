"""Relay's textures: its test of two-dimensional storages, and the rule by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.published import tvm_case

from cpplan import Problem
from cpplan.model.errors import InputError
from cpplan.packing.storage_ids.textures import texture_extent, texture_tokens


def textures(*extents: tuple[int, int], lower=None, upper=None, group=None):
    count = len(extents)
    steps = np.arange(count)
    problem = Problem(
        [f"b{k}" for k in steps],
        lower=steps if lower is None else lower,
        upper=steps + 1 if upper is None else upper,
        size=np.ones(count, np.int64),
    )
    width, height = np.array(extents).T
    labels = np.zeros(count, np.int64) if group is None else np.array(group)
    return texture_tokens(problem, width, height, labels)


def test_plan_2d_memory_reuses_no_texture():
    """t6, t8 and t10 of (1, 8, 40, 40, 4): t10 reads the other two."""
    case = tvm_case("relay_graph_plan_memory", "relay/plan_2d_texture")
    extent = texture_extent((1, 8, 40, 40, 4))
    assert extent == (40, 320)
    found = textures(extent, extent, extent, lower=[2, 3, 4], upper=[5, 5, 6])
    assert len(found) == case["expect"]["textures"]


def test_one_that_need_not_grow_comes_first():
    """Free are 10 × 10 and 4 × 4: 5 × 5 takes the larger, although the smaller is nearer."""
    found = textures((4, 4), (10, 10), (5, 5), lower=[0, 0, 1], upper=[1, 1, 2])
    assert found.storage.tolist() == [0, 1, 1]
    assert found.width.tolist() == [4, 10]


def test_the_least_to_spare_wins_among_those_that_need_not_grow():
    found = textures((20, 20), (10, 10), (8, 8), lower=[0, 0, 1], upper=[1, 1, 2])
    assert found.storage.tolist() == [0, 1, 1]


@pytest.mark.parametrize(("width", "expected"), [(59, [0, 0]), (60, [0, 1])])
def test_textures_five_times_as_wide_still_match(width, expected):
    """59 // 10 = 5, but 60 // 10 = 6 > 5."""
    assert textures((10, 10), (width, 10)).storage.tolist() == expected


def test_width_and_height_grow_each_for_itself():
    found = textures((10, 4), (6, 8))
    assert (found.storage.tolist(), found.width.tolist(), found.height.tolist()) == (
        [0, 0],
        [10],
        [8],
    )


def test_groups_are_kept_apart():
    assert textures((4, 4), (4, 4), group=[0, 1]).storage.tolist() == [0, 1]


def test_scopes_cut_shapes_differently():
    assert texture_extent((2, 3, 5, 7, 4)) == (7, 30)
    assert texture_extent((2, 3, 5, 4), "global.texture-nhwc") == (5, 6)
    assert texture_extent((6, 5, 4), "global.texture-nhwc") == (5, 6)
    assert texture_extent((2, 3, 5, 7, 4), "global.texture-weight") == (105, 2)


def test_bad_extents_and_scopes_are_named():
    with pytest.raises(InputError, match="buffer 'b0': a texture of 0 × 4 texels"):
        textures((0, 4))
    with pytest.raises(InputError, match="scope 'local' is not understood"):
        texture_extent((1, 2, 3), "local")
    with pytest.raises(InputError, match="at least three extents"):
        texture_extent((4, 4))


@given(
    st.lists(
        st.tuples(
            *(st.integers(1, 30), st.integers(1, 30), st.integers(0, 6), st.integers(1, 4)),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_textures_hold_what_lies_in_them_and_nothing_meets(rows):
    width, height, lower, length, group = (np.array(column) for column in zip(*rows, strict=True))
    upper = lower + length
    found = textures(
        *zip(width.tolist(), height.tolist(), strict=True), lower=lower, upper=upper, group=group
    )
    assert (found.width[found.storage] >= width).all()
    assert (found.height[found.storage] >= height).all()
    for one in range(len(rows)):
        for other in range(one):
            if found.storage[one] == found.storage[other]:
                assert group[one] == group[other]
                assert upper[one] <= lower[other] or upper[other] <= lower[one]
