"""Branches of functions of TVM are planned on their own, or in the storage of their function."""

from __future__ import annotations

import numpy as np
import pytest

tvm = pytest.importorskip("tvm", reason="cpplan[tvm] is not installed")

from support.relax_models import (  # noqa: E402
    OPTIONS,
    check,
    compiled,
    equal,
    random_values,
    run,
    storages_of,
    without_planner,
)
from tvm.script import ir as I  # noqa: E402
from tvm.script import relax as R  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

import cpplan  # noqa: E402
import cpplan.tvm  # noqa: E402


@I.ir_module
class Branches:
    @R.function
    def main(
        x: R.Tensor((4, 4), "float32"),
        c: R.Tensor((), "bool"),
    ) -> R.Tensor((4, 4), "float32"):
        a = R.exp(x)
        b = R.add(a, x)
        if c:
            d = R.multiply(b, b)
            e = R.add(d, b)
            f = R.tanh(e)
        else:
            g = R.nn.relu(b)
            f = R.add(g, g)
        h = R.add(f, a)
        i = R.exp(h)
        return R.add(i, f)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_branches_have_plans_of_their_own(options):
    for chosen in (True, False):
        inputs = [*random_values((4, 4)), np.array(chosen)]
        plans = check(Branches, inputs, expected_of=without_planner(), **options)
    assert [each.name for each in plans] == ["main", "main/1", "main/2"]
    assert {reason for each in plans for reason in each.left.values()} == {
        "if gets it",
        "it leaves the region",
    }


@I.ir_module
class Nested:
    """Branches within a branch; 64 KiB are live before the ``if`` and after it, but not in it."""

    @R.function
    def main(
        x: R.Tensor((64, 64), "float32"),
        c: R.Tensor((), "bool"),
        d: R.Tensor((), "bool"),
    ) -> R.Tensor((64, 64), "float32"):
        w = R.concat([x, x, x, x], axis=0)
        s = R.sum(R.tanh(w), axis=[0])
        if c:
            a = R.exp(x)
            b = R.concat([a, a], axis=0)
            if d:
                e = R.sum(R.tanh(b), axis=[0])
                f = R.add(a, e)
            else:
                f = R.multiply(a, a)
            g = R.add(f, a)
        else:
            h = R.nn.relu(x)
            g = R.add(h, h)
        i = R.add(g, s)
        j = R.concat([i, i, i, i], axis=0)
        k = R.sum(R.exp(j), axis=[0])
        return R.add(i, k)


@pytest.mark.parametrize("options", [*OPTIONS, {"outputs": "keep", "in_place": True}], ids=str)
def test_branches_lie_in_the_storage_of_their_function(options):
    for chosen in ((True, True), (True, False), (False, True)):
        inputs = [*random_values((64, 64)), *map(np.array, chosen)]
        plans = check(Nested, inputs, expected_of=without_planner(), **options)
    assert [each.name for each in plans] == ["main", *(f"main/{k}" for k in (1, 2, 3, 4))]
    whole, outer, inner, nothing, _ = plans
    assert nothing.plan is None
    assert outer.plan.peak >= inner.plan.peak > 0
    # What lies in branches lies where the function's own tensors of 64 KiB are before and after.
    assert whole.plan.peak <= 2 * 64 * 64 * 4 * 4 + 64 * 64 * 4
    assert storages_of(Nested, **options) == 1


@pytest.mark.parametrize("steps", [1, 4])
def test_branches_of_symbolic_sizes_are_right_at_every_size(steps):
    """Storages of one size lie in that of the function; those that grow stay with their branch."""
    module = growing_branches()
    options = {"ranges": {"n": (1, 16)}, "steps": steps, "in_place": True}
    planned = compiled(module, cpplan.tvm.pipeline(**options))
    other = compiled(module, without_planner())
    for n in (1, 2, 5, 8, 16):
        for chosen in (True, False):
            inputs = [*random_values((n, 8)), np.array(chosen)]
            assert equal(run(planned, inputs), run(other, inputs))
    assert storages_of(module, **options) == (1 if steps == 1 else 3)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_branch_that_grows_does_not_lie_where_one_of_fixed_size_does(options):
    @I.ir_module
    class Mixed:
        @R.function
        def main(
            x: R.Tensor(("n", 8), "float32"), y: R.Tensor((2, 2), "float32"),
            c: R.Tensor((), "bool"),
        ):  # fmt: skip
            a = R.exp(x)
            s = R.sum(R.add(a, x))
            if c:
                d = R.exp(y)
                f = R.sum(R.multiply(d, R.tanh(R.add(d, y))))
            else:
                g = R.nn.relu(a)
                f = R.sum(R.multiply(g, R.tanh(R.add(g, a))))
            h = R.add(R.exp(R.add(a, f)), s)
            return R.add(R.tanh(h), a)

    limits = {"ranges": {"n": (1, 64)}, "steps": 4}
    planned = compiled(Mixed, cpplan.tvm.pipeline(**options, **limits))
    other = compiled(Mixed, without_planner())
    for n in (1, 7, 8, 16, 33, 64):
        for chosen in (True, False):
            inputs = [*random_values((n, 8), (2, 2)), np.array(chosen)]
            assert equal(run(planned, inputs), run(other, inputs))
    assert storages_of(Mixed, **options, **limits) == 2


def growing_branches():
    @I.ir_module
    class Growing:
        @R.function
        def main(x: R.Tensor(("n", 8), "float32"), c: R.Tensor((), "bool")):
            a = R.exp(x)
            b = R.add(a, x)
            if c:
                d = R.multiply(b, b)
                e = R.tanh(R.add(d, b))
                f = R.add(e, d)
            else:
                g = R.nn.relu(b)
                f = R.add(R.exp(g), g)
            return R.add(R.exp(R.add(f, b)), f)

    return Growing


@I.ir_module
class SymbolicBranches:
    """Branches of a bounded batch, and a length without a bound beside it."""

    @R.function
    def main(
        x: R.Tensor(("n", 8), "float32"),
        y: R.Tensor(("k", 8), "float32"),
        c: R.Tensor((), "bool"),
    ) -> R.Tensor(("n", 8), "float32"):
        n = T.int64()  # noqa: F841
        k = T.int64()  # noqa: F841
        R.func_attr({"tir_var_upper_bound": {"n": 64}})
        a = R.exp(x)
        b = R.add(a, x)
        if c:
            d = R.multiply(b, b)
            f = R.tanh(R.add(d, b))
        else:
            g = R.exp(R.nn.relu(b))
            f = R.add(g, b)
        z = R.sum(R.exp(R.exp(y)))
        return R.add(R.exp(R.add(f, a)), z)


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_storages_of_branches_grow_in_steps(options):
    planned = compiled(SymbolicBranches, cpplan.tvm.pipeline(steps=5, **options))
    assert [len(each.steps) for each in cpplan.tvm.last_plans()] == [5, 5, 5]
    expected = compiled(SymbolicBranches, without_planner())
    for n in (1, 4, 5, 33, 64):
        for chosen in (True, False):
            inputs = [*random_values((n, 8), (3, 8)), np.array(chosen)]
            assert equal(run(planned, inputs), run(expected, inputs))
