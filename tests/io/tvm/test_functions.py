"""Modules of several functions, of kernels that change tensors, and of several devices."""

from __future__ import annotations

import pytest

tvm = pytest.importorskip("tvm", reason="cpplan[tvm] is not installed")

from support.relax_models import (  # noqa: E402
    OPTIONS,
    check,
    compiled,
    equal,
    random_values,
    run,
    without_planner,
)
from tvm import relax  # noqa: E402
from tvm.script import ir as I  # noqa: E402
from tvm.script import relax as R  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

import cpplan  # noqa: E402
import cpplan.tvm  # noqa: E402


@I.ir_module
class Packed:
    """A packed function whose result may be its argument; its effects keep their order."""

    @R.function(pure=False)
    def main(x: R.Tensor((4, 4), "float32")):
        a = R.exp(x)
        b = R.call_packed("cpplan.tests.noted", a, ty_args=(R.Tensor((4, 4), "float32"),))
        c = R.add(a, x)
        d = R.tanh(c)
        e = R.call_packed("cpplan.tests.noted", d, ty_args=(R.Tensor((4, 4), "float32"),))
        f = R.add(b, R.exp(e))
        return (R.add(f, c), (b, (d,)))


@I.ir_module
class Functions:
    @R.function
    def halved(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.multiply(a, R.const(0.5, "float32"))
            c = R.add(b, a)
            R.output(c)
        return c

    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        a = R.exp(x)
        b = Functions.halved(a)
        c = Functions.halved(R.add(b, R.tanh(a)))
        return R.add(c, R.exp(c))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_packed_functions_keep_their_order(options):
    seen = []

    def noted(value):
        seen.append(value.numpy())
        return value

    tvm.register_global_func("cpplan.tests.noted", noted, override=True)
    # TVM's planner takes the result of a packed function never to be its argument.
    inputs = random_values((4, 4))
    (planned,) = check(Packed, inputs, expected_of=without_planner(), **options)
    assert "cpplan.tests.noted gets it" in planned.left.values()
    first, second = seen[:2]
    assert equal(seen, [first, second] * 3)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_functions_that_call_each_other_are_planned_one_by_one(options):
    plans = check(Functions, random_values((4, 4)), **options)
    assert {each.name for each in plans} == {"halved", "main"}


@I.ir_module
class Rewritten:
    """A kernel that adds to a tensor, which is read before and after."""

    @T.prim_func(private=True, s_tir=True)
    def increase(x: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("increase"):
                a, b = T.axis.remap("SS", [i, j])
                x[a, b] = x[a, b] + y[a, b]

    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = Rewritten
        with R.dataflow():
            a = R.exp(x)
            b = R.tanh(a)
            c = R.call_tir_inplace(
                cls.increase, (a, b), inplace_indices=[0], out_ty=R.Tensor((4, 4), "float32")
            )
            d = R.exp(b)
            e = R.multiply(c, d)
            R.output(e)
        return e


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_kernels_that_change_a_tensor_keep_their_place(options):
    check(Rewritten, random_values((4, 4)), expected_of=without_planner(), **options)


@I.ir_module
class Circle:
    """Two functions that call each other until a condition, which is given, is false."""

    @R.function
    def first(x: R.Tensor((4, 4), "float32"), c: R.Tensor((), "bool")):
        a = R.exp(x)
        b = R.add(a, x)
        if c:
            d = Circle.second(R.tanh(b))
            e = R.add(d, b)
        else:
            e = R.add(b, b)
        return e

    @R.function
    def second(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        a = R.exp(x)
        b = R.multiply(a, a)
        c = Circle.first(R.tanh(b), R.const(False, "bool"))
        return R.add(c, R.exp(b))

    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        a = R.exp(x)
        b = Circle.first(R.tanh(a), R.const(True, "bool"))
        return R.add(b, a)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_functions_that_call_each_other_in_a_circle_have_storages_of_their_own(options):
    check(Circle, random_values((4, 4)), expected_of=without_planner(), **options)


@I.ir_module
class Devices:
    """Kernels on two devices, and copies between them."""

    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

    @R.function
    def main(x: R.Tensor((8, 8), "float32", "llvm:0")):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, a)
            c = R.to_vdevice(b, "llvm:1")
            d = R.exp(c)
            e = R.multiply(d, d)
            f = R.exp(R.add(e, d))
            g = R.to_vdevice(f, "llvm:0")
            h = R.add(g, b)
            R.output(h)
        return h


@I.ir_module
class OneDevice:
    """The same on one device."""

    @R.function
    def main(x: R.Tensor((8, 8), "float32")) -> R.Tensor((8, 8), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, a)
            d = R.exp(b)
            e = R.multiply(d, d)
            f = R.exp(R.add(e, d))
            h = R.add(f, b)
            R.output(h)
        return h


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_each_device_has_a_storage_of_its_own(options):
    """TVM 0.27's own pipeline refuses kernels on a second CPU: their place is checked by us."""
    inputs = [0.01 * each for each in random_values((8, 8))]
    module = relax.transform.RealizeVDevice()(Devices)
    pipeline = cpplan.tvm.pipeline(**options)
    executable = tvm.compile(module, target="llvm", relax_pipeline=pipeline)
    machine = relax.VirtualMachine(executable, [tvm.cpu(0), tvm.cpu(1)])
    assert equal(run(machine, inputs), run(compiled(OneDevice), inputs))
    (planned,) = cpplan.tvm.last_plans()
    peaks = planned.plan.pool_peaks
    assert set(peaks) == {"device 0, global", "device 1, global"}
    assert all(peak > 0 for peak in peaks.values())
    assert set(planned.left.values()) == {"relax.to_vdevice gets it", "it leaves the region"}
