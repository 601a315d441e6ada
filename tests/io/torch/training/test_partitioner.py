"""The partitioner in inductor and AOTAutograd: equal losses, what is saved, plans kept apart."""

from __future__ import annotations

import copy
import shutil
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

from importlib.metadata import EntryPoint  # noqa: E402
from pathlib import Path  # noqa: E402

from support.torch_models import Transformer  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._inductor.utils import fresh_cache  # noqa: E402
from torch._prims.rng_prims import run_with_rng_state  # noqa: E402
from torch.fx.passes.fake_tensor_prop import FakeTensorProp  # noqa: E402

from cpplan.io.torch import last_report, partitioner  # noqa: E402
from cpplan.io.torch.training import planning  # noqa: E402
from cpplan.io.torch.training.halves import split_halves  # noqa: E402
from cpplan.io.torch.training.inductor import (  # noqa: E402
    keep_saved_inputs,
    workspace_by_inductor,
)
from cpplan.io.torch.training.joint_graph import TURN, read_joint  # noqa: E402
from cpplan.io.torch.training.plan_cache import forget_plans  # noqa: E402
from cpplan.io.torch.training.work import OPERATIONS_PER_BYTE, work_of  # noqa: E402
from cpplan.io.torch.workspaces import workspace_of  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402
from tests.benchmarks.inductor_training import Trained, planned  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "user_cache", lambda: tmp_path / "plans")
    torch._dynamo.reset()
    forget_plans()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def _compiled_anew():
    """Keep inductor from using what it compiled in an earlier run, which is not planned again.

    It compiles in this process: a pool of forked processes may wait for each other for ever.
    """
    with torch._inductor.config.patch(compile_threads=1), fresh_cache():
        yield


def small():
    return nn.Sequential(
        nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4)
    )


def train(step, module, count):
    """Losses of training steps on fixed data."""
    torch.manual_seed(1)
    x, y = torch.randn(32, 16), torch.randn(32, 4)
    optimizer = torch.optim.SGD(module.parameters(), 0.05)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = (step(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.usefixtures("_compiled_anew")
def test_inductor_trains_with_equal_losses_for_twenty_steps():
    module = small()
    plain, planned = copy.deepcopy(module), copy.deepcopy(module)
    expected = train(torch.compile(plain), plain, 20)
    torch._dynamo.reset()
    found = partitioner(cost_limit=1.3, time_limit=2, deterministic=True)
    step = torch.compile(planned, options={"custom_partitioner_fn": found})
    assert train(step, planned, 20) == pytest.approx(expected, rel=1e-5)
    report = last_report()
    assert report.schedule.extra_work > 0
    assert report.schedule.peak < report.schedule.unplanned


class Convolutions(nn.Module):
    """Convolutions with batch norms, and dropout; cross-entropy."""

    def __init__(self):
        super().__init__()
        sizes = [3, 8, 16, 16]
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.GELU())
                for a, b in pairwise(sizes)
            )
        )
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(16, 5)

    def forward(self, images, labels):
        y = self.drop(torch.tanh(self.layers(images)).mean((2, 3)))
        return nn.functional.cross_entropy(self.head(y), labels)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.usefixtures("_compiled_anew")
def test_inductor_trains_with_dropout_and_batch_norms_as_by_its_own_partition():
    inputs = (torch.randn(8, 3, 32, 32), torch.randint(0, 5, (8,)))
    module = Convolutions()
    with torch._inductor.config.patch(fallback_random=True):
        own = Trained(module, inputs, torch.compile)
        found = Trained(module, inputs, planned(cost_limit=1, cost="flops", time_limit=2))
    # Inductor fuses what it is given, and sums in another order where it is given other ops.
    assert found.losses == pytest.approx(own.losses, rel=1e-5)
    assert found.losses[-1] < 0.9 * found.losses[0]
    assert last_report().schedule.extra_work == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.usefixtures("_compiled_anew")
def test_inductor_saves_weights_of_convolutions_and_no_copies_of_them():
    module = Convolutions()
    weights = {each.data_ptr() for each in module.parameters() if each.dim() == 4}
    saved = []
    settings = {"cost_limit": 1, "time_limit": 2, "cost": "flops", "deterministic": True}
    found = partitioner(resident="outside", **settings)
    step = torch.compile(module, options={"custom_partitioner_fn": found})
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        loss = step(torch.randn(8, 3, 32, 32), torch.randint(0, 5, (8,)))
    shapes = {each.shape for each in module.parameters() if each.dim() == 4}
    kept = [each.data_ptr() for each in saved if each.shape in shapes]
    assert weights.issuperset(kept)
    assert len(kept) == len(weights)
    loss.backward()


def test_saved_inputs_that_convolutions_read_are_read_as_views():
    forward = saved_weight_of(nn.Conv2d(3, 8, 3))
    [output] = forward.graph.find_nodes(op="output")
    [convolution] = forward.graph.find_nodes(
        op="call_function", target=torch.ops.aten.convolution.default
    )
    keep_saved_inputs(forward)
    views = forward.graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default)
    assert set(views) == set(convolution.args[:2])
    assert {view.args[0] for view in views} <= set(output.all_input_nodes)


def test_workspaces_by_inductor_are_those_of_kernels_in_channels_last():
    found = {}

    def partition(joint, inputs, *, num_fwd_outputs, **others):
        for name, measure in (("kernels", workspace_of), ("inductor", workspace_by_inductor)):
            read = read_joint(joint, num_fwd_outputs, workspaces=measure)
            tensor = read.graph.tensor
            found[name] = {
                op.kind: sum(tensor[each].nbytes for each in op.workspaces)
                for op in read.graph.ops
                if op.workspaces
            }
        order = [op.name for op in read.graph.ops]
        return split_halves(read, order)

    backend = aot_autograd(fw_compiler=lambda g, i: g.forward, partition_fn=partition)
    # A weight of many more bytes than the images.
    torch.compile(nn.Conv2d(128, 128, 3, bias=False), backend=backend)(torch.randn(16, 128, 6, 6))
    kind = "aten.convolution_backward.default"
    # There the kernel puts the weight, and its gradient, into two layouts more.
    assert found["inductor"][kind] > found["kernels"][kind]
    assert set(found["inductor"]) == {kind, "aten.convolution.default"}


def saved_weight_of(module):
    """The forward graph of a module, which saves weight and input."""
    halves = []

    def partition(joint, inputs, *, num_fwd_outputs, **others):
        read = read_joint(joint, num_fwd_outputs)
        halves.extend(split_halves(read, [op.name for op in read.graph.ops]))
        return tuple(halves)

    backend = aot_autograd(fw_compiler=lambda g, i: g.forward, partition_fn=partition)
    torch.compile(module, backend=backend)(torch.randn(2, 3, 8, 8))
    return halves[0]


def test_partition_of_aot_autograd_saves_less_within_a_lower_limit():
    module, x = Transformer(64), torch.randn(8, 32, 64)
    saved = []
    for most in (1, 1.1, 1.4):
        torch._dynamo.reset()
        found = partitioner(cost_limit=most, time_limit=3)
        backend = aot_autograd(fw_compiler=lambda g, i: g.forward, partition_fn=found)
        torch.manual_seed(3)
        torch.compile(copy.deepcopy(module), backend=backend)(x).backward()
        saved.append(last_report().saved_bytes)
    assert saved[0] > saved[1] > saved[2]


def test_numbers_drawn_again_in_the_same_half_run_without_data():
    halves = []

    def partition(module, inputs, *, num_fwd_outputs, **others):
        joint = read_joint(module, num_fwd_outputs)
        drawn = {node.name for node in joint.states.values()}
        order = [op.name for op in joint.graph.ops]
        order = [name for each in order for name in [each] * (1 + (each in drawn))]
        halves.extend(split_halves(joint, order))
        return tuple(halves)

    backend = aot_autograd(fw_compiler=lambda g, i: g.forward, partition_fn=partition)
    module = nn.Sequential(nn.Linear(32, 256), nn.Dropout(0.5), nn.Linear(256, 4))
    x = torch.randn(256, 32)
    torch.manual_seed(7)
    found = torch.compile(module, backend=backend)(x)
    torch.manual_seed(7)
    assert torch.equal(found, module(x))
    [forward, _] = halves
    assert any(node.target is run_with_rng_state for node in forward.graph.nodes)
    given = [node.meta["val"] for node in forward.graph.find_nodes(op="placeholder")]
    FakeTensorProp(forward, given[0].fake_mode).propagate_dont_convert_inputs(*given)


def test_ops_of_the_backward_pass_do_not_run_in_the_forward_pass_too():
    """Attention may draw numbers; with ``fallback_random``, what does is never removed."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    counts = []

    def partition(module, inputs, *, num_fwd_outputs, **others):
        joint = read_joint(module, num_fwd_outputs)
        order = [op.name for op in joint.graph.ops]
        again = [name for name in order if name in joint.nodes]
        again = [name for name in again if joint.nodes[name].target is attention]
        turn = order.index(TURN) + 1
        halves = split_halves(joint, [*order[:turn], *again, *order[turn:]])
        counts.extend(
            len(half.graph.find_nodes(op="call_function", target=attention)) for half in halves
        )
        return halves

    backend = aot_autograd(fw_compiler=lambda g, i: g.forward, partition_fn=partition)
    x = torch.randn(1, 2, 32, 16, requires_grad=True)
    attend = nn.functional.scaled_dot_product_attention
    gradients = []
    with torch._inductor.config.patch(fallback_random=True):
        for called in (torch.compile(attend, backend=backend), attend):
            called(x, x, x).square().sum().backward()
            gradients.append(x.grad)
            x.grad = None
    assert torch.equal(*gradients)
    assert counts == [1, 1]


def test_identity_of_a_partitioner_is_its_settings():
    one = partitioner(memory_limit="1 GiB")
    assert one.uuid() == partitioner(memory_limit=1 << 30).uuid()
    assert one.uuid() != partitioner(memory_limit="2 GiB").uuid()
    assert partitioner(cost=lambda node, operations, nbytes: operations).uuid() is None


def test_cost_of_ops_can_be_given():
    asked = []

    def cost(node, operations, nbytes):
        asked.append(str(node.target))
        return 1

    found = partitioner(cost=cost, time_limit=1)
    backend = aot_autograd(fw_compiler=lambda g, i: g.forward, partition_fn=found)
    torch.compile(small(), backend=backend)(torch.randn(4, 16)).sum().backward()
    assert "aten.addmm.default" in asked
    schedule = last_report().schedule
    assert schedule.base == len({name for name in schedule.order if name != "turn"})


def test_fused_ops_cost_what_they_read_and_others_their_time():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(64, 256), nn.Linear(256, 64)

        def forward(self, x):
            y = torch.tanh(torch.sin(self.one(x)))
            return self.two(y).square().mean()

    found = partitioner(cost="fused", time_limit=0.5, cache=False)
    backend = aot_autograd(fw_compiler=lambda g, i: g.forward, partition_fn=found)
    torch.compile(Gated(), backend=backend)(torch.randn(32, 64)).backward()
    graph = last_report().joint.graph
    move = OPERATIONS_PER_BYTE * 32 * 256 * 4
    # Its result is read by an element-wise op alone; that of tanh is by a product.
    assert graph.op["sin"].cost == move
    assert graph.op["tanh"].cost == 2 * move
    product = graph.op["addmm"]
    assert product.cost == work_of(
        None, 2 * 32 * 64 * 256, 4 * (32 * 64 + 64 * 256 + 256 + 32 * 256)
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"memory_limit": "much"}, "much"),
        ({"memory_limit": "0%"}, "'0%' is not a share: expected e.g. '60%'"),
        ({"cost_limit": 0.5}, "cost_limit must be at least 1, not 0.5"),
        ({"time_limit": 0}, "time_limit must be a positive number"),
        ({"fallback": "none"}, "fallback='none' is not understood: expected one of error, eager"),
        (
            {"cost": "size"},
            "cost='size' is not understood: expected time, operations, flops, fused, or",
        ),
        ({"budget": 1}, "option 'budget' is unknown"),
        ({"workers": "2"}, "workers must be an integer, at least 1, not '2'"),
        ({"seed": -1}, "seed must be an integer, at least 0, not -1"),
        ({"measure": "no"}, "measure must be True or False, not 'no'"),
        ({"cache": 3}, "cache must be a folder, or False for none, not 3"),
    ],
)
def test_options_that_are_not_understood_are_named(options, text):
    with pytest.raises(InputError, match=text):
        partitioner(**options)


def test_entry_point_names_the_backend():
    project = Path(__file__).parents[4] / "pyproject.toml"
    [line] = [text for text in project.read_text().splitlines() if "training.backend" in text]
    name, _, value = line.replace('"', "").partition(" = ")
    from cpplan.io.torch.training.backend import cpplan

    assert name == "cpplan"
    assert EntryPoint(name, value, "torch_dynamo_backends").load() is cpplan
