"""Modules with planned memory give what TVM's own pipeline gives, bit for bit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from shutil import which

import numpy as np
import pytest

tvm = pytest.importorskip("tvm", reason="cpplan[tvm] is not installed")

from support.relax_models import (  # noqa: E402
    arrays,
    branchy,
    built,
    compiled,
    random_net,
    random_values,
    run,
    several_outputs,
    static_plan_bytes,
    twice_read,
    without_planner,
)
from support.sources import ROOT  # noqa: E402
from tvm import relax  # noqa: E402
from tvm.script import ir as I  # noqa: E402
from tvm.script import relax as R  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

import cpplan  # noqa: E402
import cpplan.tvm  # noqa: E402
from cpplan.io.tvm.passes import PlannedFunction  # noqa: E402
from cpplan.model.errors import InfeasibleError, InputError  # noqa: E402

OPTIONS = (
    {},
    {"in_place": True},
    {"order": "search", "in_place": True},
    {"remat": True, "cost_limit": 1.5, "in_place": True, "time_limit": 2},
)
NETS = {"branchy": branchy, "twice read": twice_read, "several outputs": several_outputs}
NETS |= {f"random {seed}": lambda seed=seed: random_net(seed) for seed in range(4)}


def equal(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    """True if all arrays have the same bytes."""
    return [(a.shape, a.tobytes()) for a in found] == [(a.shape, a.tobytes()) for a in expected]


def check(module, inputs, *, expected_of="default", **options) -> list[PlannedFunction]:
    """Plans of a module that gives the same results with its memory planned and without."""
    expected = run(compiled(module, expected_of), inputs)
    planned = compiled(module, cpplan.tvm.pipeline(**options))
    assert equal(run(planned, inputs), expected)
    # Storages are taken again from the runtime's pool.
    assert equal(run(planned, inputs), expected)
    return list(cpplan.tvm.last_plans())


@pytest.mark.parametrize("fused", [False, True], ids=["unfused", "fused"])
@pytest.mark.parametrize("net", NETS)
def test_results_are_those_of_the_default_pipeline(net, fused):
    module, inputs = NETS[net]()
    if fused:
        module = relax.get_pipeline("zero")(module)
    for options in OPTIONS:
        check(module, inputs, **options)


def test_freedoms_make_the_storage_smaller():
    module, inputs = branchy()
    peaks = [check(module, inputs, **options)[0].plan.peak for options in OPTIONS]
    assert peaks == sorted(peaks, reverse=True)
    module, inputs = random_net(4)
    given, _, searched, _ = (check(module, inputs, **each)[0].plan.peak for each in OPTIONS)
    assert searched < given


@pytest.mark.parametrize("net", NETS)
def test_results_may_lie_in_the_storage(net):
    """They stay as they are when the function runs again, in a storage of its own."""
    module, inputs = NETS[net]()
    expected = run(compiled(module), inputs)
    others = [each + 1 for each in inputs]
    for options in OPTIONS:
        machine = compiled(module, cpplan.tvm.pipeline(outputs="keep", **options))
        (planned,) = cpplan.tvm.last_plans()
        assert "it leaves the region" not in planned.left.values()
        made = [tensor.name for tensor in planned.graph.tensors if tensor.kind == "output"]
        assert set(made) <= set(planned.plan.row)
        first = machine["main"](*map(tvm.runtime.tensor, inputs))
        machine["main"](*map(tvm.runtime.tensor, others))
        assert equal(arrays(first), expected)


def test_a_result_that_is_computed_again_lies_where_its_last_run_writes_it():
    """The result of 2 KiB is not kept while tensors of 8 KiB are live."""

    def body(builder, x):
        early = builder.emit(relax.op.nn.relu(x))
        wide = builder.emit(relax.op.concat([early, early, early, early], axis=0))
        total = builder.emit(relax.op.sum(relax.op.matmul(relax.op.sin(wide), x)))
        return relax.Tuple([early, total])

    def main():
        builder = relax.BlockBuilder()
        x = relax.Var("x", R.Tensor((16, 16), "float32"))
        with builder.function("main", [x]):
            with builder.dataflow():
                result = builder.emit_output(body(builder, x))
            builder.emit_func_output(result)
        return builder.get()

    module, inputs = main(), random_values((16, 16))
    options = {"outputs": "keep", "in_place": True, "remat": True, "cost_limit": 2.0}
    (planned,) = check(module, inputs, **options, time_limit=3)
    (once,) = check(module, inputs, outputs="keep", in_place=True)
    assert len(planned.plan.order) > len(planned.graph.ops)
    assert planned.plan.peak < once.plan.peak


@pytest.mark.parametrize("target", ["nvidia/nvidia-a100", "rocm", "vulkan", "opencl"])
def test_pipeline_of_a_gpu_has_the_plan_and_the_schedules_of_its_target(target):
    """Modules are lowered for these targets; without one of them, nothing runs."""
    module, _ = branchy()
    target = tvm.target.Target(target)
    with target:
        lowered = cpplan.tvm.pipeline(order="search", in_place=True)(module)
        theirs = relax.get_default_pipeline(target)(module)
    (planned,) = cpplan.tvm.last_plans()
    assert planned.plan.status == "optimal"
    text = lowered["main"].script()
    assert text.count("alloc_storage") < theirs["main"].script().count("alloc_storage")
    kernels = [each for each in lowered.functions.values() if isinstance(each, tvm.tirx.PrimFunc)]
    assert kernels
    assert all("thread_binding" in each.script() for each in kernels)


def test_where_results_lie_is_one_of_two_words():
    with pytest.raises(InputError, match="outputs='inside' is not understood"):
        cpplan.tvm.PlanMemory(outputs="inside")


def test_op_that_reads_a_tensor_twice_writes_over_it():
    module, inputs = twice_read()
    (planned,) = check(module, inputs, in_place=True)
    assert {op.kind for op in planned.graph.ops if op.in_place} >= {"multiply"}


def test_memory_limit_runs_kernels_again():
    """Three large values are needed again at the end, and are cheap to compute from the input."""

    def body(builder, x):
        early = [builder.emit(relax.op.add(x, relax.const(float(k)))) for k in range(4)]
        total = builder.emit(relax.op.sin(x))
        for value in early:
            total = builder.emit(relax.op.matmul(relax.op.multiply(total, value), total))
        for value in reversed(early):
            total = builder.emit(relax.op.add(total, value))
        return total

    module, inputs = built(body, (64, 64)), random_values((64, 64))
    (free,) = check(module, inputs, in_place=True)
    limit = free.plan.peak - 2 * 64 * 64 * 4
    (planned,) = check(module, inputs, in_place=True, remat=True, memory_limit=limit)
    assert planned.plan.peak <= limit
    assert len(planned.plan.order) > len(planned.graph.ops)
    with pytest.raises(InfeasibleError, match=r"function 'main': does not fit into 4096 B"):
        compiled(module, cpplan.tvm.pipeline(memory_limit="4 KiB", in_place=True))


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


def storages_of(module, **options) -> int:
    """Number of storages in the planned module."""
    lowered = tvm.transform.Sequential(
        [
            getattr(relax.transform, name)()
            for name in (
                "LegalizeOps", "RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking",
                "CallTIRRewrite",
            )
        ]
    )(module)  # fmt: skip
    return cpplan.tvm.PlanMemory(**options)(lowered)["main"].script().count("alloc_storage")


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


def test_options_of_other_decisions_are_refused():
    with pytest.raises(
        InputError, match="PlanMemory: no option 'split': expected one of ranges, steps"
    ):
        cpplan.tvm.pipeline(split=True)
    module, _ = branchy()
    with pytest.raises(InputError, match="order='best'"):
        compiled(module, cpplan.tvm.pipeline(order="best"))


def test_pipeline_has_a_name():
    module, inputs = branchy()
    assert equal(run(compiled(module, "cpplan"), inputs), run(compiled(module), inputs))


def test_loaded_graph_is_planned_and_its_plan_written_back():
    module, inputs = branchy()
    graph = cpplan.load(module)
    plan = cpplan.solve(graph, order="search", in_place=True)
    cpplan.verify(graph, plan)
    written = plan.export(module)
    assert "alloc_storage" in written.script()
    assert equal(run(compiled(written), inputs), run(compiled(module), inputs))
    other, _ = twice_read()
    with pytest.raises(InputError, match="is for another module"):
        plan.export(other)
    with pytest.raises(InputError, match="found none"):
        cpplan.load(tvm.IRModule({}))


def test_exported_library_runs_without_cpplan(tmp_path):
    module, inputs = branchy()
    executable = tvm.compile(
        module, target="llvm", relax_pipeline=cpplan.tvm.pipeline(order="search", in_place=True)
    )
    executable.export_library(str(tmp_path / "planned.so"))
    np.savez(tmp_path / "inputs.npz", *inputs)
    script = """
import sys
import numpy as np
import tvm
from tvm import relax
machine = relax.VirtualMachine(tvm.runtime.load_module("planned.so"), tvm.cpu())
given = np.load("inputs.npz")
result = machine["main"](*(tvm.runtime.tensor(given[name]) for name in given.files))
assert "cpplan" not in sys.modules
np.save("result.npy", result.numpy())
"""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=120, env=environment
    )
    assert equal([np.load(tmp_path / "result.npy")], run(compiled(module), inputs))


@pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")
def test_kernels_written_in_c_run_the_plan(tmp_path):
    module, inputs = branchy()
    pipeline = cpplan.tvm.pipeline(order="search", in_place=True)
    tvm.compile(module, target="c", relax_pipeline=pipeline).export_library(str(tmp_path / "c.so"))
    library = tvm.runtime.load_module(str(tmp_path / "c.so"))
    machine = relax.VirtualMachine(library, tvm.cpu())
    tvm.compile(module, target="c").export_library(str(tmp_path / "tvm.so"))
    theirs = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "tvm.so")), tvm.cpu())
    assert equal(run(machine, inputs), run(theirs, inputs))


def test_guide_runs(capsys):
    text = (ROOT / "docs" / "guide" / "tvm.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    exec("\n".join(blocks), {})
    assert "(4, 64)\noptimal" in capsys.readouterr().out


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("googlenet", 0.44),
        ("mobilenet_v2", 0.51),
        ("resnet18", 0.55),
        ("shufflenet_v2_x1_0", 0.53),
        ("squeezenet1_1", 0.62),
    ],
)
def test_classifiers_need_a_share_of_the_bytes_of_tvm_s_planner(name, most):
    torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
    if find_spec("torchvision") is None:
        pytest.skip("cpplan[zoo] is not installed")
    from cpplan.zoo.torchvision_models import import_torchvision

    models = import_torchvision().models
    from tvm.relax.frontend.torch import from_exported_program

    torch.manual_seed(0)
    more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    inputs = (torch.randn(1, 3, 224, 224),)
    exported = torch.export.export(models.get_model(name, **more).eval(), inputs)
    module = relax.transform.DecomposeOpsForInference()(from_exported_program(exported))
    module = relax.get_pipeline("zero")(module)
    (planned,) = check(module, [inputs[0].numpy()], order="search", in_place=True)
    assert planned.plan.status == "optimal"
    assert planned.plan.peak <= most * static_plan_bytes(module)


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
