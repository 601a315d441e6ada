"""Choices of aliases over several pools."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import cpplan
from cpplan import Graph, Op, Pool, Tensor
from cpplan.aliasing import pools
from cpplan.model.problem import Problem
from cpplan.packing.pools.solve import PooledPacking
from cpplan.runtime.budget import Budget


def test_choices_that_leave_out_one_alias_more_get_as_much_time_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fast pool holds the input or the values in place; here all lie in the slow one."""
    names = "xvabcy"
    kinds = dict.fromkeys(names, "intermediate") | {"x": "input", "v": "input", "y": "output"}
    tensors = tuple(Tensor(name, 8, kind=kinds[name]) for name in names)
    ops = tuple(
        Op(f"make {one}", inputs=("x", other), outputs=(one,), in_place=((one, other),))
        for other, one in pairwise("vabcy")
    )
    slots = []

    def pack(problem: Problem, objective: str, budget: Budget, **_: object) -> PooledPacking:
        slots.append(budget.deadline.remaining())
        pool, offset = np.ones(len(problem), np.int64), np.cumsum(problem.size) - problem.size
        return PooledPacking("feasible", pool, offset, (), (), "by hand", ())

    monkeypatch.setattr(pools, "pack_pools", pack)
    both = Pool("fast", capacity=8), Pool("slow")
    graph = Graph("in place", tensors, ops)
    cpplan.solve(graph, pools=both, in_place=True, time_limit=1, deterministic=True)
    assert len(slots) > 4  # all aliases, none, and all but one
    assert slots == pytest.approx([slots[0]] * len(slots))
