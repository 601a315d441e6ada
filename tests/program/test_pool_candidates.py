"""Pools allowed for a buffer: by kind, by name, for several tensors in it, and errors."""

from __future__ import annotations

import pytest

from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.tensor import Tensor
from cpplan.program.pool_candidates import assign_candidates

POOLS = (Pool("sram"), Pool("dram"), Pool("flash", kind="constant"))


def assign(*tensors: Tensor, pools: tuple[Pool, ...] = POOLS) -> dict[int, tuple[int, ...]]:
    """Candidates of one buffer that these tensors share."""
    return assign_candidates(pools, [("buffer", tensors)])


def test_kinds_decide_where_nothing_is_named():
    assert assign(Tensor("x", 4)) == {0: (0, 1)}
    assert assign(Tensor("w", 4, kind="constant")) == {0: (2,)}


def test_without_constant_pools_constants_go_to_the_others():
    assert assign(Tensor("w", 4, kind="constant"), pools=POOLS[:2]) == {}


def test_names_are_followed_in_their_order():
    assert assign(Tensor("x", 4, pools=("dram", "sram"))) == {0: (1, 0)}
    assert assign(Tensor("w", 4, kind="constant", pools=("sram",))) == {0: (0,)}


def test_what_shares_a_buffer_must_agree():
    x, y = Tensor("x", 4, pools=("dram", "sram")), Tensor("y", 4, pools=("sram",))
    assert assign(x, Tensor("z", 4), y) == {0: (0,)}
    with pytest.raises(InputError, match="'buffer': has no candidate pool among sram, dram"):
        assign(y, Tensor("z", 4, pools=("dram",)))


def test_a_constant_in_the_buffer_makes_it_constant():
    assert assign(Tensor("v", 4), Tensor("w", 4, kind="constant")) == {0: (2,)}


def test_wrong_names_are_named():
    with pytest.raises(InputError, match="tensor 'x': unknown pool 'l2': expected one of sram, dr"):
        assign(Tensor("x", 4, pools=("l2",)))
    with pytest.raises(InputError, match="'buffer': is written, but pool 'flash' is for constants"):
        assign(Tensor("x", 4, pools=("flash",)))
    with pytest.raises(InputError, match="'buffer': has no candidate pool among flash"):
        assign(Tensor("x", 4), pools=POOLS[2:])
