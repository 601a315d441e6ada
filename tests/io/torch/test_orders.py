"""Planned graph modules run: equal results in every order that a graph allows, bytes as planned."""

from __future__ import annotations

import operator
import random

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from support.torch_models import ResNet18, Transformer, arguments, random_order  # noqa: E402
from torch.export import export  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import cpplan  # noqa: E402
from cpplan.io.torch import (  # noqa: E402
    measure_live_bytes,
    read_torch,
    reorder_graph_module,
    training_module,
)
from cpplan.model.errors import InputError  # noqa: E402
from cpplan.program.anf import to_anf  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(module, inputs):
    """The module's results, what it did to its inputs, and what was measured."""
    inputs = [given.detach().clone() for given in inputs]
    buffers = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(7)
    found = measure_live_bytes(module, inputs)
    after = {name: value.clone() for name, value in module.state_dict().items()}
    module.load_state_dict(buffers)
    return torch.utils._pytree.tree_leaves(found.results) + inputs + list(after.values()), found


def check_bytes(graph, module, measured):
    """At every step, as many bytes as the program says."""
    steps = [node.name for node in module.graph.nodes if node.name in measured.per_node]
    program = to_anf(graph)
    at = {name: measured.per_node[name] for name in steps}
    assert [at[name] for name in program.names] == program.live_bytes().tolist()


def writes_through_views(x, y):
    a = x * 2
    v = a.view(-1)
    b = a + 1
    v[2:5].add_(1)
    c = a * 3
    a.t().mul_(y)
    w = x.clone()
    s = w[1:]
    w.copy_(y.t())
    return b, c, v.sum(), s + 1, a, torch.cat([a, b])


def random_and_views(x, y):
    q, r = x.split(2)
    z = torch.stack([q, r])
    z.select(0, 0).fill_(2.0)
    u = z.unbind(0)
    dropped = torch.nn.functional.dropout(x, 0.3)
    return u[0] + u[1], z.permute(2, 0, 1).contiguous(), torch.rand(2) + torch.randn(2), dropped


def an_input_that_nothing_reads(x, y):
    return x.half().exp().chunk(2)


class Called(torch.nn.Module):
    """A function as a module, which is all that can be exported."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


class Stateful(torch.nn.Module):
    """A buffer that is written between reads, and batch normalisation that trains."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x, y):
        self.mean.add_(x.mean(0))
        hidden = self.norm(x @ y) + self.mean
        self.mean.mul_(0.5)
        return torch.nn.functional.dropout(hidden, 0.3) + self.mean


def traced(kind, function):
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    if kind == "make_fx":
        return make_fx(function)(x, y), (x, y), None
    if kind == "symbolic_trace":
        return torch.fx.symbolic_trace(function), (x, y), (x, y)
    program = export(
        function if isinstance(function, torch.nn.Module) else Called(function), (x, y)
    )
    return program.module(), (x, y), None


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("make_fx", writes_through_views),
        ("symbolic_trace", writes_through_views),
        ("make_fx", random_and_views),
        ("export", an_input_that_nothing_reads),
        ("export", Stateful()),
        ("symbolic_trace", Stateful()),
    ],
)
def test_every_order_gives_equal_results(kind, function):
    module, inputs, example = traced(kind, function)
    graph = read_torch(module, example_inputs=example)
    given = reorder_graph_module(module, [op.name for op in graph.ops], example_inputs=example)
    expected, measured = run(given, inputs)
    check_bytes(graph, given, measured)
    rng = random.Random(1)
    for _ in range(10):
        order = random_order(graph, rng)
        found, _ = run(reorder_graph_module(module, order, example_inputs=example), inputs)
        assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


@pytest.mark.parametrize("model", ["resnet", "transformer"])
def test_training_planned_and_run(model):
    torch.manual_seed(0)
    if model == "resnet":
        module, inputs = ResNet18(8), (torch.randn(2, 3, 32, 32), torch.tensor([1, 2]))
    else:
        module, inputs = Transformer(), (torch.randn(2, 16, 32),)
    joint = training_module(module, inputs)
    given = [value.clone() for value in arguments(module, inputs)]
    expected, measured = run(joint, given)
    graph = cpplan.load(joint)
    check_bytes(graph, joint, measured)

    torch.manual_seed(7)
    loss = module(*inputs)
    loss.backward()
    buffers = len(dict(module.named_buffers()))
    eager = [loss.detach(), *(p.grad for p in module.parameters())]
    results = measured.results[len(measured.results) - len(eager) :]
    assert len(measured.results) - len(eager) in (0, buffers)
    assert all(torch.equal(one, other) for one, other in zip(results, eager, strict=True))

    searched = cpplan.solve(graph, time_limit=10, workers=1, order="search")
    limit = (9 * measured.peak) // 10
    again = cpplan.solve(graph, time_limit=3, workers=1, memory_limit=limit, remat=True)
    assert len(again.order) > len(graph.ops)
    for plan in (searched, again):
        planned = reorder_graph_module(joint, plan.order)
        found, there = run(planned, given)
        assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))
        live = to_anf(graph, plan.order).live_bytes()
        assert there.peak == max(live) <= plan.peak
        reread = cpplan.load(planned)
        check_bytes(reread, planned, there)
        torch.manual_seed(7)
        called = planned(*(value.clone() for value in given))
        assert all(torch.equal(a, b) for a, b in zip(called, measured.results, strict=True))


def test_kernels_write_over_what_they_may():
    """Every in-place pair is tried with the op's variant that writes to a tensor given."""
    torch.manual_seed(0)
    module, inputs = Transformer(dropout=0.0), (torch.randn(2, 16, 32),)
    tried = set()

    def name_of(node):
        picked = getattr(node, "target", None) is operator.getitem
        return f"{node.args[0]}.{node.args[1]}" if picked else str(node)

    class Trying(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            op = graph.op.get(self.node.name)
            for k, (_, source) in enumerate(() if op is None else op.in_place):
                packet = target._schema.name.replace("::", ".").partition(".")[2]
                overload = getattr(torch.ops.aten, packet)
                variants = set(overload.overloads())
                wanted = {"out", "grad_input", f"{target._schema.overload_name}_out"} & variants
                at = next(i for i, n in enumerate(self.node.args) if name_of(n) == source)
                for name in sorted(wanted):
                    variant = getattr(overload, name)
                    over = args[at].clone()
                    given = [over if n is args[at] else n for n in args]
                    out = variant._schema.arguments[-1].name
                    if len(variant._schema.arguments) != len(target._schema.arguments) + 1:
                        continue
                    variant(*given, **kwargs, **{out: over})
                    assert torch.equal(over, result)
                    tried.add((packet, k))
            return result

        def run_node(self, node):
            self.node = node
            return super().run_node(node)

    joint = training_module(module, inputs)
    graph = cpplan.load(joint)
    Trying(joint).run(*arguments(module, inputs))
    assert {"add", "mul", "relu", "threshold_backward"} <= {name for name, _ in tried}


def test_an_exported_program_planned():
    program = export(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), (torch.ones(2, 4),)
    )
    plan = cpplan.solve(cpplan.load(program))
    planned = reorder_graph_module(program, plan.order)
    weights = list(program.state_dict.values())
    assert torch.equal(planned(*weights, torch.ones(2, 4))[0], program.module()(torch.ones(2, 4)))


def test_copies_have_names_that_nothing_else_has():
    def function(x):
        exp_again = x.exp()
        return exp_again.exp() + 1, exp_again

    module = make_fx(function)(torch.ones(2))
    graph = cpplan.load(module)
    first, *others = [op.name for op in graph.ops]
    twice = reorder_graph_module(module, [first, first, *others])
    once_more = reorder_graph_module(twice, [first, f"{first}_again", first, *others])
    names = [node.name for node in once_more.graph.nodes]
    assert len(names) == len(set(names))
    assert f"{first}_again_2" in names


def test_orders_that_are_none():
    module = make_fx(lambda x: torch.rand(2) + x.exp())(torch.ones(2))
    with pytest.raises(InputError, match="op 'exp' is missing from the order"):
        reorder_graph_module(module, ["rand"])
    with pytest.raises(InputError, match="op 'rand' runs twice"):
        reorder_graph_module(module, ["rand", "rand", "exp", "add"])
    problem = cpplan.Problem(("a",), [0], [1], [4])
    with pytest.raises(InputError, match="missing from the order"):
        reorder_graph_module(module, cpplan.solve(problem).order)
