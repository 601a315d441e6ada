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
    OPTIONS,
    arrays,
    branchy,
    built,
    check,
    compiled,
    equal,
    random_net,
    random_values,
    run,
    several_outputs,
    static_plan_bytes,
    twice_read,
)
from support.sources import ROOT  # noqa: E402
from tvm import relax  # noqa: E402
from tvm.script import relax as R  # noqa: E402

import cpplan  # noqa: E402
import cpplan.tvm  # noqa: E402
from cpplan.model.errors import InfeasibleError, InputError  # noqa: E402

NETS = {"branchy": branchy, "twice read": twice_read, "several outputs": several_outputs}
NETS |= {f"random {seed}": lambda seed=seed: random_net(seed) for seed in range(4)}


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
