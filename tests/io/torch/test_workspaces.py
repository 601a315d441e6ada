"""Workspaces measured for single kernels, against the allocator's peak over a whole run."""

from __future__ import annotations

import gc
from functools import cache

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from support.torch_models import ResNet18, Transformer  # noqa: E402
from torch.export import Dim, export  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import cpplan  # noqa: E402
from cpplan.io.torch import read_torch, reorder_graph_module, training_module  # noqa: E402
from cpplan.io.torch.workspaces import count_allocated, most_allocated  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402
from cpplan.zoo.own_images import UNet  # noqa: E402


class Segmentation(torch.nn.Module):
    """A U-Net and its loss."""

    def __init__(self):
        super().__init__()
        self.net = UNet(4)

    def forward(self, x, target):
        return torch.nn.functional.cross_entropy(self.net(x), target)


MODELS = {
    "unet": (Segmentation, lambda: (torch.randn(1, 3, 32, 32), torch.zeros(1, 32, 32).long())),
    "resnet18": (lambda: ResNet18(8), lambda: (torch.randn(2, 3, 32, 32), torch.tensor([1, 2]))),
    "transformer": (lambda: Transformer(), lambda: (torch.randn(2, 9, 32),)),
}


@cache
def traced(name):
    model, inputs = MODELS[name]
    module, given = model(), inputs()
    held = (*dict(module.named_parameters()).values(), *dict(module.named_buffers()).values())
    return training_module(module, given), (*(each.detach().clone() for each in held), *given)


def taken(module, given):
    """Bytes that a run takes from the allocator at once; its code drops values that are done."""
    return most_allocated(lambda: module(*given))[1]


@pytest.mark.parametrize("name", MODELS)
def test_peak_with_workspaces_is_what_a_run_takes(name):
    joint, given = traced(name)
    graph = read_torch(joint, workspaces=True)
    plan = cpplan.solve(graph, inputs="outside", time_limit=2)
    assert taken(reorder_graph_module(joint, plan.order), given) <= plan.peak
    without = cpplan.solve(read_torch(joint), inputs="outside", time_limit=2)
    assert without.peak <= plan.peak <= 1.02 * taken(reorder_graph_module(joint, plan.order), given)


def test_memory_limit_with_workspaces_limits_what_a_run_takes():
    joint, given = traced("unet")
    graph = read_torch(joint, workspaces=True)
    plan = cpplan.solve(
        graph, remat=True, memory_limit="80%", inputs="outside", time_limit=5, workers=1
    )
    limit = int(0.8 * cpplan.solve(graph, inputs="outside", time_limit=5).peak) + 1
    assert plan.offset is not None
    assert taken(reorder_graph_module(joint, plan.order), given) <= plan.peak <= limit


def test_convolutions_have_workspaces_and_sums_have_none():
    joint, _ = traced("unet")
    graph = read_torch(joint, workspaces=True)
    kinds = {op.kind for op in graph.ops if op.workspaces}
    assert "aten.convolution_backward.default" in kinds
    assert "aten.relu.default" not in kinds


def test_measuring_draws_no_random_numbers():
    module = make_fx(lambda x: torch.nn.functional.dropout(x, 0.5))(torch.ones(8))
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    read_torch(module, workspaces=True)
    assert torch.equal(torch.rand(4), expected)


def test_symbolic_sizes_are_named():
    class Net(torch.nn.Module):
        def forward(self, x):
            return x.exp()

    program = export(Net(), (torch.ones(6, 4),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))
    with pytest.raises(
        InputError, match="node 'exp': workspaces can be measured at fixed sizes only"
    ):
        read_torch(program, workspaces=True)


def test_models_of_any_source_can_be_measured(tmp_path):
    """A program, its file and a network of the zoo, whose weights have no data."""
    program = export(torch.nn.Conv2d(3, 8, 3), (torch.ones(1, 3, 16, 16),))
    measured = read_torch(program, workspaces=True)
    assert cpplan.load(program, kernels="measured") == measured
    torch.export.save(program, tmp_path / "conv.pt2")
    loaded = cpplan.load(str(tmp_path / "conv.pt2"), kernels="measured")
    assert [op.workspaces for op in loaded.ops] == [op.workspaces for op in measured.ops]
    named = cpplan.load("zoo://cpplan/unet?batch=1&size=32&mode=train", kernels="measured")
    assert any(op.workspaces for op in named.ops)
    with pytest.raises(InputError, match="kernels='fast' is not understood: expected 'measured'"):
        cpplan.load(program, kernels="fast")


def test_cycles_of_an_earlier_run_are_not_collected_in_a_measured_one():
    def tied():
        knot = [torch.empty(1000)]
        knot.append(knot)

    def busy():
        _ = [[] for _ in range(100_000)]  # enough for the collector to run by itself
        return torch.empty(1000)

    gc.collect()
    count_allocated(tied)
    found = count_allocated(busy)
    assert (found.most, found.left) == (4000, 4000)
    assert gc.isenabled()
