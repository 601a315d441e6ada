"""Every compiled loop of the searches computes what it computes as a Python function."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from cpplan.ordering import loops as ordering_loops
from cpplan.packing import loops as packing_loops
from cpplan.remat import loops as remat_loops
from cpplan.runtime.loop_compiler.loop import CompiledLoop
from cpplan.spilling import loops as spilling_loops
from cpplan.splitting import loops as splitting_loops
from cpplan.verification import loops as verification_loops

GROUPS = (
    *packing_loops.LOOPS,
    *ordering_loops.LOOPS,
    *verification_loops.LOOPS,
    *splitting_loops.LOOPS,
    *remat_loops.LOOPS,
    *spilling_loops.LOOPS,
)


class FromZero(np.ndarray):
    """An array that refuses negative indices, which compiled loops do not look out for."""

    def __getitem__(self, index):
        refuse_negative(index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        refuse_negative(index)
        super().__setitem__(index, value)


def refuse_negative(index) -> None:
    for k in index if isinstance(index, tuple) else (index,):
        assert isinstance(k, slice) or k >= 0


def copied(value):
    if isinstance(value, np.ndarray):
        return value.copy().view(FromZero)
    if isinstance(value, np.random.Generator):
        return deepcopy(value)
    if isinstance(value, tuple):
        members = map(copied, value)
        return type(value)(*members) if hasattr(value, "_fields") else tuple(members)
    return value


def assert_same(one, other) -> None:
    if isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, np.random.Generator):
        assert str(one.bit_generator.state) == str(other.bit_generator.state)
    else:
        assert np.array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_loops_compute_what_python_does(group, monkeypatch):
    compiled, calls = CompiledLoop.__call__, []

    def call(loop, *arguments):
        if calls and calls[-1] == "in Python":
            return loop.python(*arguments)
        same = tuple(map(copied, arguments))
        calls.append("in Python")
        with np.errstate(over="ignore"):
            expected = loop.python(*same)
        calls.append("compiled")
        assert_same(compiled(loop, *arguments), expected)
        assert_same(arguments, same)
        return expected

    monkeypatch.setattr(CompiledLoop, "__call__", call)
    group.use()
    assert calls
