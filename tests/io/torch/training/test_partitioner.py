"""The partitioner in inductor and AOTAutograd: equal losses, what is saved, plans kept apart."""

from __future__ import annotations

import copy
import shutil

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

from cpplan.io.torch import last_report, partitioner  # noqa: E402
from cpplan.io.torch.training.plan_cache import forget_plans  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("CPPLAN_CACHE", str(tmp_path / "plans"))
    torch._dynamo.reset()
    forget_plans()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"memory_limit": "much"}, "much"),
        ({"memory_limit": "0%"}, "'0%' is not a share: expected e.g. '60%'"),
        ({"cost_limit": 0.5}, "cost_limit must be at least 1, not 0.5"),
        ({"time_limit": 0}, "time_limit must be a positive number"),
        ({"fallback": "none"}, "fallback='none' is not understood: expected one of error, eager"),
        ({"cost": "size"}, "cost='size' is not understood: expected time, operations, flops, or"),
        ({"budget": 1}, "option 'budget' is unknown"),
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
