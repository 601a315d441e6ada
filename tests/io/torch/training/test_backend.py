"""Compiled training steps run as planned: equal results, bytes as predicted, limits kept."""

from __future__ import annotations

import copy
import logging
import re

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

from support.torch_models import ResNet18, Transformer  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from cpplan.io.torch import last_report, reports  # noqa: E402
from cpplan.io.torch.costs import formula_of  # noqa: E402
from cpplan.io.torch.training import planning  # noqa: E402
from cpplan.io.torch.training.backend import cpplan  # noqa: E402
from cpplan.io.torch.training.joint_graph import (  # noqa: E402
    TURN,
    UnsupportedError,
    read_joint,
)
from cpplan.io.torch.training.plan_cache import forget_plans  # noqa: E402
from cpplan.solving.shares import parse_share  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "user_cache", lambda: tmp_path / "plans")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    forget_plans()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    torch._dynamo.reset()


def run_steps(step, module, inputs, count=2):
    """Losses, gradients and buffers after each step; random numbers as in any other such run."""
    found = []
    for k in range(count):
        torch.manual_seed(k)
        module.zero_grad()
        loss = step(*inputs)
        loss.backward()
        values = [loss.detach().clone()]
        values += [p.grad.clone() for p in module.parameters() if p.grad is not None]
        found.append(values + [buffer.clone() for buffer in module.buffers()])
    return found


def compile_for(module, **options):
    return torch.compile(module, backend=cpplan, options={"resident": "outside", **options})


def compare(module, inputs, **options):
    """The report of compiled steps that equal eager ones bit for bit."""
    eager, planned = copy.deepcopy(module), copy.deepcopy(module)
    before = reports()
    kernels = torch.backends.mkldnn.flags(enabled=not isinstance(module, Lstm))
    with torch._dynamo.config.patch(allow_rnn=True), kernels:
        expected = run_steps(eager, eager, inputs)
        found = run_steps(compile_for(planned, **options), planned, inputs)
    assert options.get("fallback") or reports() != before
    for step, (one, other) in enumerate(zip(expected, found, strict=True)):
        assert len(one) == len(other)
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            assert torch.equal(a, b), (step, k)
    return last_report()


def transformer():
    return Transformer(64), (torch.randn(8, 32, 64),)


def resnet():
    return ResNet18(16), (torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(16, 32, 2, batch_first=True), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.cell(x)[0]).square().mean()


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.inner = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.ConvTranspose2d(16, 3, 2, 2)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x):
        a = torch.nn.functional.gelu(self.norm(self.down(x)))
        b = self.up(torch.relu(self.inner(a)))
        return (self.last(torch.cat([a, b], 1)) - x).square().mean()


MODELS = {
    "transformer": transformer,
    "resnet": resnet,
    "lstm": lambda: (Lstm(), (torch.randn(4, 12, 16),)),
    "unet": lambda: (UNet(), (torch.randn(2, 3, 32, 32),)),
}


@pytest.mark.parametrize("name", MODELS)
def test_steps_equal_eager_and_measured_peak_is_the_predicted(name):
    module, inputs = MODELS[name]()
    report = compare(module, inputs)
    assert report.measured_peak == pytest.approx(report.predicted_peak, rel=0.02)
    if name == "lstm":  # what is found for many small cells depends on the time there is
        return
    unplanned, least = report.predicted_peak, report.schedule.least
    torch._dynamo.reset()
    limit = least + (unplanned - least) * 6 // 10
    options = {"memory_limit": limit, "time_limit": 5, "on_infeasible": "best"}
    report = compare(module, inputs, **options)
    assert report.measured_peak == pytest.approx(report.predicted_peak, rel=0.02)
    assert report.predicted_peak < unplanned
    assert report.schedule.extra_work > 0


def test_flops_as_cost_lower_the_peak_and_repeat_no_product():
    module, inputs = transformer()
    plain = compare(module, inputs)
    torch._dynamo.reset()
    report = compare(module, inputs, cost="flops", cost_limit=1, time_limit=3)
    assert report.measured_peak == pytest.approx(report.predicted_peak, rel=0.02)
    assert report.predicted_peak < plain.predicted_peak
    order = report.schedule.order
    repeated = {name for name in order if order.count(name) > 1}
    assert repeated
    assert not any(formula_of(report.joint.nodes[name].target) for name in repeated)


class Noisy(nn.Module):
    """Random numbers of all kinds: masks, noise that reads nothing, and few of them."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(32, 256), nn.Linear(256, 256), nn.Linear(256, 4)

    def forward(self, x):
        x = nn.functional.dropout(torch.sigmoid(self.one(x)), 0.3)
        x = x * torch.rand(256, 256) * torch.rand(3).sum()
        x = torch.tanh(self.two(x)) * torch.bernoulli(torch.full((256, 256), 0.5))
        return self.three(nn.functional.dropout(torch.exp(x), 0.2)).square().mean()


def test_random_numbers_are_drawn_again_from_the_same_state():
    inputs = (torch.randn(256, 32),)
    report = compare(Noisy(), inputs)
    least = report.schedule.least
    torch._dynamo.reset()
    limit = least + (report.predicted_peak - least) // 2
    report = compare(Noisy(), inputs, memory_limit=limit, time_limit=3)
    order, states = report.schedule.order, report.joint.states
    assert len(states) == 4  # that of the few numbers is not worth noting
    assert any(order.count(node.name) > 1 for node in states.values())
    assert report.measured_peak == pytest.approx(report.predicted_peak, rel=0.02)


class Tied(nn.Module):
    """Embedding and output share their weight; two results are returned."""

    def __init__(self):
        super().__init__()
        self.embedding, self.inner = nn.Embedding(50, 32), nn.Linear(32, 32)
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        hidden = torch.relu(self.inner(torch.tanh(self.embedding(x))))
        return self.head(hidden), hidden


def test_tied_weights_and_several_results_get_equal_gradients():
    module, x = Tied(), torch.randint(0, 50, (8, 16))
    eager, planned = copy.deepcopy(module), copy.deepcopy(module)

    def step(called):
        def run(x):
            logits, hidden = called(x)
            return logits.square().mean() + hidden.exp().mean()

        return run

    expected = run_steps(step(eager), eager, (x,))
    found = run_steps(step(compile_for(planned, cost_limit=1.3, time_limit=2)), planned, (x,))
    for one, other in zip(expected, found, strict=True):
        assert all(map(torch.equal, one, other))


def test_views_and_writes_in_forward_keep_their_results():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(16, 16)
            self.register_buffer("total", torch.zeros(16))

        def forward(self, x):
            y = torch.tanh(self.inner(x))
            before = self.total * 2
            self.total.add_(y.detach().sum(0))
            z = y * 2
            z[:, 2:5] *= 3
            return (z.view(-1, 4).t() * 2).sum() + (y * before).sum() + y.expand(3, 4, 16).mean()

    report = compare(Writes(), (torch.randn(4, 16),), cost_limit=2, time_limit=2)
    assert report.schedule.order.count(TURN) == 1


def test_autocast_steps_equal_eager():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(32, 64), nn.Linear(64, 8)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.two(torch.relu(self.one(x))).float().square().mean()

    compare(Mixed(), (torch.randn(16, 32),), cost_limit=1.5, time_limit=2)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        layer = (nn.Linear(32, 128), nn.GELU(), nn.Dropout(0.2), nn.Linear(128, 32), nn.Tanh())
        self.layers = nn.ModuleList(nn.Sequential(*copy.deepcopy(layer)) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x.square().mean()


def test_checkpoint_regions_save_only_what_enters_them_and_random_numbers():
    report = compare(Checkpointed(), (torch.randn(64, 32),))
    entering, drawn = 3 * 64 * 32 * 4, 3 * 64 * 128 * 5
    # The first input is resident; the last result is read by the loss.
    assert report.saved_bytes <= entering + drawn
    assert any(
        "gelu" in name for name in report.schedule.order[report.schedule.order.index(TURN) :]
    )


def test_graph_breaks_give_one_plan_a_graph():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x):
            y = torch.tanh(self.one(x))
            torch._dynamo.graph_break()
            return torch.sigmoid(self.two(y)).sum()

    before = len(reports())
    compare(Broken(), (torch.randn(8, 32),))
    assert len(reports()) == before + 2


def test_new_shapes_are_planned_anew_and_symbolic_sizes_run():
    module = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    planned = copy.deepcopy(module)
    step = compile_for(planned, cost_limit=1.3, time_limit=1)
    for rows in (4, 6, 9, 12):
        x = torch.randn(rows, 16)
        module.zero_grad()
        planned.zero_grad()
        module(x).square().sum().backward()
        step(x).square().sum().backward()
        for one, other in zip(module.parameters(), planned.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)


def test_inference_without_gradients_equals_eager_and_is_measured():
    module, (x,) = transformer()
    module.eval()
    step = compile_for(module)
    with torch.no_grad():
        assert torch.equal(step(x), module(x))
    report = last_report()
    assert report.name == "inference"
    assert TURN not in report.schedule.order
    assert report.measured_peak == pytest.approx(report.predicted_peak, rel=0.02)


def test_gradients_accumulate_over_steps():
    module, (x,) = transformer()
    module.layers.layers[0].dropout.p = 0.0
    module.eval()
    planned = copy.deepcopy(module)
    step = compile_for(planned)
    for part in x.chunk(2):
        module(part).backward()
        step(part).backward()
    for one, other in zip(module.parameters(), planned.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_backward_runs_twice_where_its_graph_is_retained():
    module, inputs = MODELS["unet"]()
    planned = copy.deepcopy(module)
    with torch._functorch.config.patch(donated_buffer=False):
        for called, own in ((module, module), (compile_for(planned), planned)):
            loss = called(*inputs)
            loss.backward(retain_graph=True)
            loss.backward()
            assert own.last.weight.grad is not None
    for one, other in zip(module.parameters(), planned.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_collectives_are_named():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    reduced = graph.call_function(torch.ops._c10d_functional.all_reduce.default, (x, "sum", "0"))
    graph.output((reduced,))
    for node in graph.nodes:
        node.meta["val"] = torch.ones(2)
    with pytest.raises(UnsupportedError, match=r"all_reduce\S* \(collective"):
        read_joint(torch.fx.GraphModule(torch.nn.Module(), graph), 1)


def test_infeasible_limit_names_missing_bytes_op_and_help():
    module, inputs = transformer()
    step = compile_for(module, memory_limit="64 KiB")
    with pytest.raises(
        Exception, match=r"no schedule within memory_limit 64\.00 KiB was found"
    ) as caught:
        step(*inputs)
    text = str(caught.value)
    assert "B more than the limit" in text
    assert "op '" in text or "gradients at the end" in text
    assert "what would help: memory_limit=" in text


def test_best_schedule_runs_if_no_limit_is_met():
    module, inputs = transformer()
    options = {"on_infeasible": "best", "time_limit": 1, "deterministic": True}
    report = compare(module, inputs, memory_limit="64 KiB", **options)
    assert report.memory_limit < report.predicted_peak < report.schedule.unplanned


def test_best_schedule_keeps_the_limit_on_work():
    module, inputs = transformer()
    options = {"on_infeasible": "best", "time_limit": 1, "deterministic": True}
    report = compare(module, inputs, memory_limit="64 KiB", cost_limit=1, **options)
    assert report.schedule.extra_work == 0


def test_limit_given_as_a_share_is_of_the_peak_of_the_unplanned_step():
    module, inputs = transformer()
    report = compare(module, inputs, memory_limit="90%", time_limit=3, resident="outside")
    unplanned = report.schedule.unplanned
    assert report.memory_limit == unplanned * 9 // 10
    assert report.predicted_peak <= report.memory_limit


class LookedAt(nn.Module):
    """A check of the inputs, whose graph has a few bytes and no gradients, before the layers."""

    def __init__(self):
        super().__init__()
        self.inner = Transformer(64)

    def forward(self, x):
        if bool((x > 100).any()):
            raise ValueError
        return self.inner(x)


def test_share_does_not_limit_graphs_without_gradients():
    inputs = (torch.randn(8, 32, 64),)
    compare(LookedAt(), inputs, memory_limit="80%", time_limit=3)
    found = {report.name: report for report in reports()[-2:]}
    assert found["inference"].memory_limit is None
    assert found["step"].predicted_peak <= found["step"].memory_limit


class Broken(nn.Module):
    """Layers, and a graph of two ops after a graph break, which can free nothing."""

    def __init__(self):
        super().__init__()
        self.inner = Transformer(64)

    def forward(self, x):
        y = self.inner(x)
        torch._dynamo.graph_break()
        return y * 2 + 1


def test_share_is_kept_by_the_graph_that_can_and_missed_by_another_with_a_warning():
    module, inputs = Broken(), (torch.randn(8, 32, 64),)
    with pytest.warns(UserWarning, match=r"misses the limit of .* \(60%\)") as warned:
        compare(module, inputs, memory_limit="60%", time_limit=3, resident="outside")
    large, small = sorted(reports()[-2:], key=lambda report: -report.schedule.unplanned)
    assert large.predicted_peak <= large.memory_limit < large.schedule.unplanned
    assert small.predicted_peak == small.schedule.least > small.memory_limit
    assert len([given for given in warned if "misses the limit" in str(given.message)]) == 1


def test_bytes_are_a_limit_of_small_graphs_too():
    with pytest.raises(Exception, match=r"no schedule within memory_limit 1000 B was found"):
        compile_for(Broken(), memory_limit=1000, resident="outside", time_limit=1)(
            torch.randn(8, 32, 64)
        )


def test_share_that_is_not_kept_is_named_with_one_that_is():
    module, inputs = transformer()
    options = {"time_limit": 2, "deterministic": True, "on_infeasible": "error"}
    step = compile_for(module, memory_limit="10%", **options)
    with pytest.raises(Exception, match=r"\(10%\) was found") as caught:
        step(*inputs)
    [share] = re.findall(r"memory_limit='([0-9.]+%)'", str(caught.value))
    torch._dynamo.reset()
    del options["on_infeasible"]
    compile_for(module, memory_limit="10%", **options)(*inputs)
    assert last_report().predicted_peak <= parse_share(share) * last_report().schedule.unplanned


def test_plan_of_a_short_search_is_not_used_where_more_time_is_given(tmp_path):
    module, inputs = transformer()
    options = {"cost_limit": 1.2, "deterministic": True, "cache": tmp_path / "kept"}
    for seconds in (0.1, 0.2):
        report = compare(module, inputs, time_limit=seconds, **options)
        assert not report.schedule.cached


def test_kept_plan_is_used_again_after_a_restart(tmp_path):
    module, inputs = transformer()
    options = {"cost_limit": 1.2, "time_limit": 2, "cache": tmp_path / "kept"}
    first = compare(module, inputs, **options)
    assert not first.schedule.cached
    for restart in (False, True):
        torch._dynamo.reset()
        if restart:
            forget_plans()
        again = compare(module, inputs, **options)
        assert again.schedule.cached
        assert again.schedule.order == first.schedule.order
        assert again.measured_peak == first.measured_peak


def test_deterministic_time_gives_equal_plans():
    module, inputs = transformer()
    orders = []
    for _ in range(2):
        forget_plans()
        torch._dynamo.reset()
        planned = copy.deepcopy(module)
        options = {"deterministic": True, "time_limit": 0.3, "cache": False, "cost_limit": 1.2}
        run_steps(compile_for(planned, **options), planned, inputs, count=1)
        assert not last_report().schedule.cached
        orders.append(last_report().schedule.order)
    assert orders[0] == orders[1]


@pytest.mark.parametrize("text", ["{", '{"format": "cpplan.training_plan", "sequence": [0]}', "[]"])
def test_damaged_kept_plan_is_planned_anew(tmp_path, text):
    module, inputs = MODELS["unet"]()
    options = {"cost_limit": 1.2, "time_limit": 1, "cache": tmp_path}
    compare(module, inputs, **options)
    for file in tmp_path.iterdir():
        file.write_text(text)
    forget_plans()
    torch._dynamo.reset()
    assert not compare(module, inputs, **options).schedule.cached


def test_unknown_option_names_those_that_are_known():
    with pytest.raises(Exception, match="option 'limit' is unknown: expected one of memory_limit"):
        torch.compile(nn.Linear(2, 2), backend=cpplan, options={"limit": 3})(torch.ones(1, 2))


def test_recurrent_kernel_that_torch_cannot_compile_is_named():
    with (
        torch._dynamo.config.patch(allow_rnn=True),
        pytest.raises(Exception, match=r"oneDNN's recurrent layer.*mkldnn.enabled = False"),
    ):
        compile_for(Lstm())(torch.randn(4, 12, 16))


class Nonzero(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x)[torch.nonzero(x[:, 0] > 0)].sum()


def test_sizes_that_depend_on_data_are_named_and_run_eagerly_if_asked():
    x = torch.randn(6, 4)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        with pytest.raises(Exception, match=r"cannot be planned: .*size u0 that depends on data"):
            compile_for(Nonzero())(x)
        torch._dynamo.reset()
        compare(Nonzero(), (x,), fallback="eager")


def test_each_plan_is_one_line_of_logging(caplog):
    module, inputs = transformer()
    with caplog.at_level(logging.INFO, logger="cpplan.torch"):
        compare(module, inputs, memory_limit="8 MiB")
    [record] = [r for r in caplog.records if r.name == "cpplan.torch"]
    text = record.getMessage()
    assert "\n" not in text
    for word in ("limit 8.00 MiB", "predicted peak", "measured", "extra work", "bound", "in"):
        assert word in text


def test_report_is_an_html_page(tmp_path):
    module, inputs = MODELS["unet"]()
    report = compare(module, inputs, cost_limit=1.3, time_limit=1)
    report.save(tmp_path / "step.html")
    text = (tmp_path / "step.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "predicted peak" in text
