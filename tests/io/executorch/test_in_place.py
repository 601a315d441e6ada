"""Every kernel that may write over its argument does so, with the result it has otherwise."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("executorch", reason="cpplan[executorch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
# ExecuTorch warns while it is imported, where no mark applies yet.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from support import executorch_models  # noqa: F401

import torch  # noqa: E402
from executorch.exir import memory  # noqa: E402
from support.executorch_models import finish, lower, run, same  # noqa: E402
from torch import nn  # noqa: E402

from cpplan.io.executorch import planning_pass, verify_program  # noqa: E402
from cpplan.io.executorch.graph import BATCH_NORM, ELEMENTWISE, kind_of  # noqa: E402

UNARY = sorted(
    ELEMENTWISE
    - {"add", "atan2", "bitwise_not", "clamp", "div", "elu", "fmod", "gelu", "hardtanh"}
    - {"leaky_relu", "logical_not", "maximum", "minimum", "mul", "pow", "remainder", "sub"}
)
PAIRED = ("add", "sub", "mul", "div", "maximum", "minimum", "atan2", "pow", "fmod", "remainder")


class Unary(nn.Module):
    """Each on a value of its own, which nothing else reads."""

    def forward(self, x):
        aten = torch.ops.aten
        results = [getattr(aten, name)(x * (k + 1)) for k, name in enumerate(UNARY)]
        results += [nn.functional.gelu(x * 2), nn.functional.gelu(x * 3, approximate="tanh")]
        results += [torch.clamp(x * 4, -1, 1), nn.functional.hardtanh(x * 5)]
        results += [nn.functional.leaky_relu(x * 6), nn.functional.elu(x * 7)]
        flags = x > 0
        results += [torch.logical_not(torch.logical_or(flags, x > 1))]
        results += [torch.bitwise_not(torch.logical_and(flags, x > 1))]
        return [*results, x * 8 + 1.5, x * 9 - 2, torch.pow(x * 10, 2), 2 - x * 11]


class Binary(nn.Module):
    """First, then second argument dies; the other is as large, a row, a column, one element."""

    def __init__(self, others):
        super().__init__()
        self.others = others

    def forward(self, x):
        results = []
        for name in PAIRED:
            operator = getattr(torch, name)
            for other in self.others:
                results.append(operator(x * 2, other))
                if other.shape != x.shape:
                    results.append(operator(other, x * 3))
            results.append(operator(x * 4, x * 5))
        return results


def shared_kinds(program):
    """Kinds of the nodes whose result lies over an argument."""
    nodes = program.exported_program().graph_module.graph.nodes
    shared = set()
    for node in nodes:
        specs = node.meta.get("spec")
        first = specs[0] if isinstance(specs, (list, tuple)) and specs else specs
        if node.op == "call_function" and node.target is not memory.alloc:
            reads = [n.meta.get("spec") for n in node.args if isinstance(n, torch.fx.Node)]
            if any(first.storage_base is spec for spec in reads if spec is not None):
                shared.add(kind_of(node))
    return shared


def check(model, x):
    edge = lower(model, (x,))
    default = finish(edge)
    program = finish(edge, planning_pass(time_limit=5, workers=1, order="given"))
    verify_program(program)
    assert same(run(program, (x,)), run(default, (x,)))
    return shared_kinds(program)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1,), (37, 41), (3, 64, 8)])
def test_kernels_of_one_argument(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    kinds = check(Unary(), x)
    assert kinds >= ELEMENTWISE - set(PAIRED)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(37, 41), (8, 64)])
def test_kernels_of_two_arguments(shape):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0)) + 0.5
    others = [torch.rand(shape) + 0.5, torch.rand(shape[1:]) + 0.5, torch.rand(shape[0], 1) + 0.5]
    kinds = check(Binary([*others, torch.rand(1) + 0.5]), x)
    assert set(PAIRED) <= kinds


def test_batch_normalization():
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 2, 1))
    norm = net[1]
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    assert check(net, torch.randn(2, 3, 9, 11)) == {BATCH_NORM, "relu"}


def test_an_argument_that_is_read_again_or_is_an_input_stays():
    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            first, second = torch.exp(y), torch.tanh(y)
            return torch.relu(x), first * second

    # Of the two that read y only the later may lie over it, and relu reads the program's input.
    assert check(Net(), torch.randn(5, 7)) == {"tanh", "mul"}


def test_an_argument_read_in_another_shape_too_stays():
    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            return y + y.reshape(1, 3, 3)

    assert "add" not in check(Net(), torch.randn(3, 3))
