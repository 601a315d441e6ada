"""The measured peak of the first step is the predicted one, also where steps are unusual."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

from torch import nn  # noqa: E402

from cpplan.io.torch import last_report  # noqa: E402
from cpplan.io.torch.training.backend import cpplan  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    torch._dynamo.reset()


def compiled(module):
    options = {"cost_limit": 1, "time_limit": 0.5, "deterministic": True, "cache": False}
    return torch.compile(module, backend=cpplan, options=options)


def check_measured():
    report = last_report()
    assert report.measured_peak == pytest.approx(report.predicted_peak, rel=0.02)


def test_layers_that_share_one_graph_are_measured_as_one_runs():
    parts = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4)]
    layer = compiled(nn.Sequential(nn.Linear(4, 64), *parts, nn.Linear(64, 4)))
    layer(layer(layer(torch.randn(64, 4)))).sum().backward()
    check_measured()


def test_views_without_elements_keep_no_bytes():
    class Rotated(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(16, 256)

        def forward(self, x):
            y = self.inner(x)
            return y.sum() + (torch.sin(y[..., :256]), y[..., 256:])[1].exp().sum(), y[..., 256:]

    module = Rotated()
    compiled(module)(torch.randn(64, 16))[0].backward()
    check_measured()


def test_workspaces_of_symbolic_sizes_are_those_of_the_traced_sizes():
    module = nn.Sequential(nn.Conv1d(3, 16, 7), nn.ReLU(), nn.Conv1d(16, 16, 7))
    x = torch.randn(2, 3, 400)
    torch._dynamo.mark_dynamic(x, 2)
    compiled(module)(x).square().sum().backward()
    report = last_report()
    assert any(isinstance(size, torch.SymInt) for size in report.joint.forward[0].meta["val"].shape)
    assert any(tensor.kind == "workspace" for tensor in report.joint.graph.tensors)
    check_measured()
