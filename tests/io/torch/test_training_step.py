"""Training steps for one's own loop: gradients and buffers in place, equal to eager ones."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from support.torch_models import ResNet18, Transformer  # noqa: E402
from torch import nn  # noqa: E402

import cpplan  # noqa: E402
from cpplan.io.torch import training_graph, training_module, training_step  # noqa: E402
from cpplan.io.torch.training_step import TrainingStep  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def models():
    x = torch.randn(2, 3, 32, 32)
    return [
        (ResNet18(4), (x, torch.randint(0, 10, (2,)))),
        (Transformer(16), (torch.randn(2, 8, 16),)),
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_two_steps_in_a_planned_order_equal_eager_ones(which):
    module, inputs = models()[which]
    planned = copy.deepcopy(module)
    graph = training_graph(planned, inputs)
    plan = cpplan.solve(graph, remat=True, cost_limit=1.2, time_limit=2)
    step = training_step(planned, inputs, plan.order)
    for seed in (1, 2):  # the second adds to the gradients of the first
        torch.manual_seed(seed)
        expected = module(*inputs)
        expected.backward()
        torch.manual_seed(seed)
        assert torch.equal(step(*inputs), expected)
    for one, other in zip(module.parameters(), planned.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    for one, other in zip(module.buffers(), planned.buffers(), strict=True):
        assert torch.equal(one, other)


class Several(nn.Module):
    """A frozen weight, a shared one, a running statistic, and outputs beside the loss."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.frozen = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.two.weight = self.one.weight
        self.frozen.weight.requires_grad_(False)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        y = self.norm(self.frozen(self.two(self.one(x))))
        return y.square().mean(), y, y * 2


def test_results_have_names_and_outputs_are_returned_in_order():
    module, x = Several(), torch.randn(4, 3)
    step = TrainingStep(module, training_module(module, (x,)))
    assert [name for kind, name in step.results if kind == "gradient"] == [
        name for name, weight in module.named_parameters() if weight.requires_grad
    ]
    assert {name for kind, name in step.results if kind == "buffer"} == dict(
        module.named_buffers()
    ).keys()
    eager = copy.deepcopy(module)
    loss, *others = step(x)
    expected, *rest = eager(x)
    expected.backward()
    assert torch.equal(loss, expected)
    assert all(map(torch.equal, others, rest))
    for (name, one), other in zip(module.named_parameters(), eager.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None), name
        assert one.grad is None or torch.equal(one.grad, other.grad), name
    assert all(map(torch.equal, module.buffers(), eager.buffers()))


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ((torch.ones(5, 3),), r"input 0: is torch.float32\[5, 3\]: expected torch.float32\[4, 3\]"),
        ((torch.ones(4, 3, dtype=torch.float64),), "input 0: is torch.float64"),
        ((torch.ones(4, 3), torch.ones(1)), "expected 1 inputs, not 2"),
    ],
)
def test_other_shapes_and_types_are_refused(inputs, text):
    module = Several()
    step = training_step(module, (torch.randn(4, 3),))
    with pytest.raises(InputError, match=text):
        step(*inputs)


def test_other_graph_modules_are_refused():
    traced = torch.fx.symbolic_trace(nn.Linear(2, 2))
    with pytest.raises(InputError, match="made by training_module"):
        TrainingStep(nn.Linear(2, 2), traced)


def test_archive_of_a_training_step_is_planned_with_a_report(tmp_path, capsys):
    from torch.export.experimental import _export_forward_backward

    from cpplan.cli.main import main

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return torch.tanh(self.two(torch.tanh(self.one(x)))).square().mean()

    program = _export_forward_backward(torch.export.export(Loss(), (torch.randn(64, 8),)))
    archive, page = tmp_path / "step.pt2", tmp_path / "step.html"
    torch.export.save(program, archive)
    words = ["plan", str(archive), "--remat", "--cost-limit", "1.2", "--report", str(page)]
    assert main([*words, "--time-limit", "2"]) == 0
    capsys.readouterr()
    assert page.read_text().startswith("<!doctype html>")
