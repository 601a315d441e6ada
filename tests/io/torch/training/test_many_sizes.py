"""Graphs with symbolic sizes: each size has a limit and a report, and the limit is kept there."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

from torch import nn  # noqa: E402

from cpplan.io.torch import reports  # noqa: E402
from cpplan.io.torch.training import backend  # noqa: E402
from cpplan.io.torch.training.backend import cpplan  # noqa: E402
from cpplan.io.torch.training.plan_cache import forget_plans  # noqa: E402
from cpplan.model.errors import InfeasibleError  # noqa: E402

OPTIONS = {"time_limit": 0.3, "cache": False, "resident": "outside"}


@pytest.fixture(autouse=True)
def _fresh():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    forget_plans()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 8))] * 2
        self.layers = nn.Sequential(*(copy.deepcopy(nn.Sequential(*each)) for each in layers))

    def forward(self, x):
        return self.layers(x).square().mean()


def run(called, own, batches):
    """Losses and gradients of steps with these numbers of rows."""
    found = []
    for rows in batches:
        torch.manual_seed(rows)
        own.zero_grad()
        loss = called(torch.randn(rows, 8))
        loss.backward()
        found += [loss.detach(), *(p.grad.clone() for p in own.parameters())]
    return found


def compare(batches, **options):
    """Reports of steps that equal eager ones, at several numbers of rows."""
    eager = Net()
    planned = copy.deepcopy(eager)
    step = torch.compile(planned, backend=cpplan, options={**OPTIONS, **options}, dynamic=True)
    expected, found = run(eager, eager, batches), run(step, planned, batches)
    assert all(map(torch.equal, expected, found))
    for report in reports(step):
        assert report.measured_peak == pytest.approx(report.predicted_peak, rel=0.02)
    return reports(step)


def test_each_size_of_a_batch_has_a_limit_and_a_report_of_its_own():
    first, second = compare((16, 32, 16), memory_limit="60%")
    assert (first.origin.shapes, second.origin.shapes) == (((16, 8),), ((32, 8),))
    assert first.memory_limit == first.schedule.unplanned * 6 // 10
    assert second.memory_limit == second.schedule.unplanned * 6 // 10
    assert second.schedule.unplanned > first.schedule.unplanned


def test_size_at_which_the_plan_misses_the_limit_is_planned_on_its_own():
    [free] = compare((32,))
    torch._dynamo.reset()
    limit = free.schedule.unplanned * 7 // 10
    small, large, between = compare((16, 32, 20), memory_limit=limit)
    assert small.schedule.extra_work == between.schedule.extra_work == 0 < large.schedule.extra_work
    assert all(report.predicted_peak <= limit for report in (small, large, between))


def test_size_at_which_no_plan_keeps_the_limit_is_named():
    with pytest.raises(InfeasibleError, match=r"Net\.forward \(graph .*, inputs 640x8\): no sch"):
        compare((16, 640), memory_limit="32 KiB")


def test_sizes_beyond_the_most_have_no_report_but_keep_limits_in_bytes(monkeypatch):
    monkeypatch.setattr(backend, "_MOST_SIZES", 2)
    found = compare((16, 20, 24, 28), memory_limit="80%")
    assert [report.origin.shapes[0][0] for report in found] == [16, 20]
    torch._dynamo.reset()
    limit = found[-1].schedule.unplanned
    found = compare((16, 20, 18, 28), memory_limit=limit)
    assert [report.origin.shapes[0][0] for report in found] == [16, 20, 28]
    assert found[-1].predicted_peak <= limit < found[-1].schedule.unplanned


def test_numbers_that_are_no_sizes_have_no_reports():
    class Scaled(Net):
        def forward(self, x, by):
            return super().forward(x * by)

    step = torch.compile(
        Scaled(), backend=cpplan, options={**OPTIONS, "memory_limit": "90%"}, dynamic=True
    )
    for by in (3, 4, 5):
        step(torch.randn(16, 8), by).backward()
    assert len(reports(step)) == 1


def test_inference_has_a_limit_at_each_size():
    module = Net().eval()
    step = torch.compile(
        module, backend=cpplan, options={**OPTIONS, "memory_limit": "1 MiB"}, dynamic=True
    )
    with torch.inference_mode():
        for rows in (16, 24):
            x = torch.randn(rows, 8)
            assert torch.equal(step(x), module(x))
    assert [report.origin.shapes for report in reports(step)] == [((16, 8),), ((24, 8),)]
