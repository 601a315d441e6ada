"""Reports belong to a compiled module, a graph and a shape; limits that are missed are named."""

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

from cpplan.io.torch import last_report, reports  # noqa: E402
from cpplan.io.torch.training import compiled_graph  # noqa: E402
from cpplan.io.torch.training.backend import cpplan  # noqa: E402
from cpplan.io.torch.training.plan_cache import forget_plans  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402

OPTIONS = {"time_limit": 0.3, "cache": False, "resident": "outside"}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    forget_plans()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(module, **options):
    return torch.compile(module, backend=cpplan, options={**OPTIONS, **options})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 64), nn.Linear(64, 8)

    def forward(self, x):
        return self.two(torch.tanh(self.one(x)))


class Broken(nn.Module):
    """After the graph break, nothing of the module is read."""

    def __init__(self):
        super().__init__()
        self.inner = Net()

    def forward(self, x):
        y = self.inner(x)
        torch._dynamo.graph_break()
        return (y * 2).exp()


class Disabled(Net):
    @torch.compiler.disable
    def forward(self, x):
        return super().forward(x)


def test_share_that_is_missed_runs_with_a_warning_and_is_in_the_report():
    step = compiled(Net(), memory_limit="10%")
    with pytest.warns(
        UserWarning, match=r"step of Net\.forward \(graph 0/0, inputs 4x8\): the pred"
    ):
        step(torch.randn(4, 8)).sum().backward()
    report = last_report(step)
    assert report.missed == report.predicted_peak - report.memory_limit > 0
    assert report.share == "10%"
    assert report.measured_peak == pytest.approx(report.predicted_peak, rel=0.02)
    assert f"limit missed by {report.missed} B" in str(report)


def test_limit_in_bytes_that_is_missed_at_best_is_warned_of():
    step = compiled(Net(), memory_limit=100, on_infeasible="best")
    with pytest.warns(UserWarning, match=r"of 100 B by \d+ B: every schedule needs"):
        step(torch.randn(4, 8))
    assert last_report(step).missed == last_report(step).predicted_peak - 100


def test_kept_limit_is_not_warned_of(recwarn):
    step = compiled(Net(), memory_limit="100%")
    step(torch.randn(4, 8)).sum().backward()
    assert last_report(step).missed == 0
    assert not [given for given in recwarn if "misses the limit" in str(given.message)]
    assert last_report(compiled(Net())) is None
    assert "missed" not in str(last_report(step))


def test_measured_peak_beyond_the_limit_is_warned_of_once(monkeypatch):
    count = compiled_graph.count_allocated

    def larger(run):
        found = count(run)
        return found._replace(most=2 * found.most)

    monkeypatch.setattr(compiled_graph, "count_allocated", larger)
    step = compiled(Net(), memory_limit="100%")
    loss = step(torch.randn(4, 8)).sum()
    with pytest.warns(UserWarning, match=r"the measured peak of .* were predicted"):
        loss.backward()
    assert (
        last_report(step).missed == last_report(step).measured_peak - last_report(step).memory_limit
    )


def test_module_left_to_eager_has_no_report_and_not_that_of_another():
    step = compiled(Net())
    step(torch.randn(4, 8)).sum().backward()
    assert last_report() is last_report(step) is not None
    for left in (compiled(Disabled()), compiled(nn.LSTM(8, 4))):
        left(torch.randn(4, 8))
        assert last_report(left) is None
        assert reports(left) == []
        assert last_report() is None
    assert last_report(step) in reports()


def test_graphs_after_a_break_belong_to_their_module():
    other, step = compiled(Net()), compiled(Broken())
    for called in (other, step):
        called(torch.randn(4, 8)).sum().backward()
    first, second = reports(step)
    assert first.origin.function == "Broken.forward"
    assert second.origin.function.startswith("Broken.torch_dynamo_resume_in_forward")
    assert (first.origin.graph, second.origin.graph) == ("1/0", "2/0")
    assert reports(other) == reports()[-3:-2]


def test_graphs_of_a_module_in_training_and_evaluation_and_of_other_shapes_are_told_apart():
    module = Net()
    step = compiled(module)
    for rows in (4, 6):
        step(torch.randn(rows, 8)).sum().backward()
    with torch.no_grad():
        step(torch.randn(4, 8))
    found = [(report.name, report.origin.graph, report.origin.shapes) for report in reports(step)]
    assert found == [
        ("step", "0/0", ((4, 8),)),
        ("step", "0/1", ((6, 8),)),
        ("inference", "0/2", ((4, 8),)),
    ]


def test_module_that_is_compiled_again_has_the_reports_of_the_code_that_dynamo_keeps():
    module = Broken()
    step = compiled(module)
    step(torch.randn(4, 8)).sum().backward()
    again, other = compiled(module), compiled(copy.deepcopy(module))
    again(torch.randn(4, 8)).sum().backward()
    assert reports(again) == reports(step) == reports(module)
    assert len(reports(step)) == 2
    assert reports(other) == []


def test_modules_within_modules_and_functions_have_their_own_reports():
    module, x = nn.Sequential(Net(), Net()), torch.randn(4, 8)
    module[0].compile(backend=cpplan, options=OPTIONS)
    whole = compiled(module[1])
    loss = compiled(lambda y: y.square().mean())
    loss(whole(module[0](x))).backward()
    for called in (module[0], whole, loss):
        [report] = reports(called)
        assert report is last_report(called)
    assert last_report(whole).origin.function == "Net.forward"
    assert "<lambda>" in last_report(loss).origin.function
    with pytest.raises(InputError, match=r"expected a module, or what torch\.compile returns, not"):
        reports(abs)
