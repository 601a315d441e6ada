"""Storages of functions of TVM whose sizes are symbols hold every size, and grow in steps."""

from __future__ import annotations

import pytest

tvm = pytest.importorskip("tvm", reason="cpplan[tvm] is not installed")

from support.relax_models import (  # noqa: E402
    OPTIONS,
    branchy,
    compiled,
    equal,
    random_values,
    run,
)
from tvm.script import ir as I  # noqa: E402
from tvm.script import relax as R  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

import cpplan  # noqa: E402
import cpplan.tvm  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402


@I.ir_module
class Symbolic:
    """A function of any batch up to 32, and any length."""

    @R.function
    def main(
        x: R.Tensor(("n", "m"), "float32"),
        w: R.Tensor(("m", 8), "float32"),
    ) -> R.Tensor(("n * 8",), "float32"):
        n = T.int64()
        m = T.int64()  # noqa: F841
        R.func_attr({"tir_var_upper_bound": {"n": 32, "m": 16}, "tir_var_lower_bound": {"n": 1}})
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, x)
            c = R.matmul(b, w)
            d = R.nn.relu(c)
            e = R.concat((d, c), axis=0)
            f = R.split(e, 2, axis=0)
            g = R.add(f[0], f[1])
            h = R.reshape(g, (n * 8,))
            R.output(h)
        return h


def test_storage_holds_every_size_up_to_the_bounds():
    expected = compiled(Symbolic)
    for options in OPTIONS[:3]:
        planned = compiled(Symbolic, cpplan.tvm.pipeline(**options))
        (found,) = cpplan.tvm.last_plans()
        assert found.plan.peak >= 2 * 32 * 16 * 4
        for n, m in ((1, 1), (1, 16), (7, 3), (31, 16), (32, 16)):
            inputs = random_values((n, m), (m, 8), seed=n + m)
            assert equal(run(planned, inputs), run(expected, inputs))


def storage_bytes(machine, inputs) -> int:
    """Bytes of all storages that a run asks the allocator for."""
    asked = []

    def watch(function, name, before, result, *arguments):
        if before and name == "vm.builtin.alloc_storage":
            asked.extend(arguments[1])

    machine.set_instrument(watch)
    machine["main"](*map(tvm.runtime.tensor, inputs))
    return sum(map(int, asked))


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_storages_grow_in_steps_with_the_variables(options):
    expected = compiled(Symbolic)
    planned = compiled(Symbolic, cpplan.tvm.pipeline(steps=4, **options))
    (found,) = cpplan.tvm.last_plans()
    limits = [tuple(step.limits.values()) for step in found.steps]
    assert limits == [(4, 2), (8, 4), (16, 8), (32, 16)]
    sizes = [step.bytes["arena"] for step in found.steps]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] / 4
    assert sizes[-1] == found.plan.peak
    for n, m, step in (
        (1, 1, 0), (4, 2, 0), (1, 3, 1), (5, 2, 1), (8, 4, 1), (9, 4, 2), (2, 16, 3), (32, 16, 3),
    ):  # fmt: skip
        inputs = random_values((n, m), (m, 8), seed=n + m)
        assert equal(run(planned, inputs), run(expected, inputs))
        result = 4 * n * 8
        assert storage_bytes(planned, inputs) == sizes[step] + result


def test_steps_are_a_small_number():
    for wrong in (0, 33, "2", True):
        with pytest.raises(InputError, match="steps must be 1 to 32, not"):
            cpplan.tvm.pipeline(steps=wrong)
    module, _ = branchy()
    compiled(module, cpplan.tvm.pipeline(steps=8))
    assert len(cpplan.tvm.last_plans()[0].steps) == 1


def test_tensors_without_bounds_are_left_to_tvm():
    bare = tvm.IRModule({"main": Symbolic["main"].without_attr("tir_var_upper_bound")})
    compiled(bare, cpplan.tvm.pipeline())
    (found,) = cpplan.tvm.last_plans()
    assert found.plan is None
    assert "its shape depends on n, which has no bounds" in found.left.values()
    compiled(bare, cpplan.tvm.pipeline(ranges={"n": (1, 4), "m": 16}))
    assert cpplan.tvm.last_plans()[0].plan.peak > 0


def test_bounds_that_exclude_each_other_are_refused():
    with pytest.raises(InputError, match=r"function 'main': .*'n': lower bound 9 is above"):
        compiled(Symbolic, cpplan.tvm.pipeline(ranges={"n": (9, 4)}))
    attributes = {"tir_var_upper_bound": {"n": 2}, "tir_var_lower_bound": {"n": 5}}
    module = tvm.IRModule({"main": Symbolic["main"].with_attrs(attributes)})
    with pytest.raises(InputError, match=r"function 'main': .*'n': upper bound 2 is below"):
        compiled(module, cpplan.tvm.pipeline())


@I.ir_module(check_well_formed=False)
class Malformed:
    """A kernel that is called with an argument too many, and a result of another shape."""

    @T.prim_func(private=True, s_tir=True)
    def copy(x: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("copy"):
                a, b = T.axis.remap("SS", [i, j])
                y[a, b] = x[a, b]

    @R.function
    def too_many(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = Malformed
        with R.dataflow():
            a = R.call_tir(cls.copy, (x, x), out_ty=R.Tensor((4, 4), "float32"))
            b = R.exp(a)
            R.output(b)
        return b

    @R.function
    def other_shape(x: R.Tensor((4, 4), "float32")) -> R.Tensor((2, 2), "float32"):
        cls = Malformed
        with R.dataflow():
            a = R.call_tir(cls.copy, (x,), out_ty=R.Tensor((2, 2), "float32"))
            b = R.exp(a)
            R.output(b)
        return b


def test_modules_that_are_not_well_formed_are_refused_in_one_line():
    def with_function(name):
        kept = Malformed.get_global_var("copy"), Malformed.get_global_var(name)
        return tvm.IRModule({variable: Malformed[variable] for variable in kept})

    with pytest.raises(InputError, match=r"\ATVM does not lower the module: .*3 arguments.*\Z"):
        cpplan.load(with_function("too_many"))
    with pytest.raises(InputError, match=r"\ATVM does not lower the module: .*mismatch.*\Z"):
        cpplan.load(with_function("other_shape"))
    attributes = {"tir_var_upper_bound": "thirty-two"}
    module = tvm.IRModule({"main": Symbolic["main"].with_attrs(attributes)})
    with pytest.raises(InputError, match=r"'main': attribute 'tir_var_upper_bound': expected int"):
        compiled(module, cpplan.tvm.pipeline())
