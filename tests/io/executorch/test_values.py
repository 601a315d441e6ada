"""Reads are checked against writes where tensors share a storage, and buffers outlive a run."""

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
from executorch.exir import memory, to_edge  # noqa: E402
from executorch.exir.memory_planning import Verifier  # noqa: E402
from executorch.exir.passes import MemoryPlanningPass  # noqa: E402
from support.executorch_models import bytes_of, finish, lower, run, same  # noqa: E402
from torch import nn  # noqa: E402

import cpplan.io.executorch.planner as planner  # noqa: E402
from cpplan.io.executorch import algorithm, planning_pass, verify_program  # noqa: E402
from cpplan.model.errors import VerificationError  # noqa: E402

FAST = {"time_limit": 5, "workers": 1}


def module_of(program):
    return program.exported_program().graph_module


class Chain(nn.Module):
    """A result that is read twice, the second time after another has been computed."""

    def forward(self, x):
        y = x * 2
        z = torch.sigmoid(y)
        return torch.tanh(y) + z.exp()


def over_an_argument_that_is_read_again():
    edge = to_edge(torch.export.export(Chain(), (torch.randn(64),)))
    for node in edge.exported_program().graph.nodes:
        if "sigmoid" in node.name:
            node.meta["_share_alloc_with_arg_idx"] = 0
    return finish(edge, algorithm(**FAST))


def test_a_result_over_an_argument_that_is_read_again_is_found():
    program = over_an_argument_that_is_read_again()
    method = program.exported_program()
    Verifier(method.graph_module, True, True, True, method.graph_signature).verify_storage_reuse()
    message = (
        "'aten_tanh_default' reads 'aten_mul_tensor' .* last written by 'aten_sigmoid_default'"
    )
    with pytest.raises(VerificationError, match=message):
        verify_program(program)


def test_nodes_moved_behind_a_write_are_found():
    program = finish(to_edge(torch.export.export(Chain(), (torch.randn(64),))), algorithm(**FAST))
    verify_program(program)
    nodes = {node.name: node for node in module_of(program).graph.nodes}
    # The lifetimes stay those of the order before.
    nodes["output_1" if "output_1" in nodes else "output"].prepend(nodes["aten_tanh_default"])
    with pytest.raises(VerificationError, match="reads"):
        verify_program(program)


class Cache(nn.Module):
    """A row of its state is written, then all of it is read in another shape."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(8, 20))

    def forward(self, x, position):
        self.rows.index_put_((position,), x)
        return self.rows.view(4, 40).exp().sum(0)


def test_default_plan_leaves_views_of_a_buffer_behind_where_it_is_written_in_place():
    # executorch 1.5.1 makes the view of the result, then places that result in the buffer.
    inputs = (torch.randn(1, 20), torch.tensor([3]))
    edge = to_edge(torch.export.export(Cache(), inputs))
    default = finish(edge, run_reinplace_pass=True)
    with pytest.raises(VerificationError, match=r"view .* lies at byte .* but its base"):
        verify_program(default)
    for planning in (algorithm(**FAST), planning_pass(**FAST)):
        program = finish(edge, planning, run_reinplace_pass=True)
        verify_program(program)
        wanted = Cache()(*inputs)
        torch.testing.assert_close(run(program, inputs)[0], wanted, atol=1e-4, rtol=1e-4)


class Late(nn.Module):
    """A large buffer, which is written last."""

    def __init__(self):
        super().__init__()
        self.register_buffer("large", torch.zeros(256))

    def forward(self, x):
        y = torch.cat([(x * 2).exp()] * 4, 0).sum(0)
        self.large.add_(1)
        return y + self.large.sum()


@pytest.mark.parametrize(
    ("passing", "named"),
    [
        ({}, False),
        ({"share_mutable_buffers": True}, False),
        ({"alloc_mutable_buffers": False}, True),
    ],
)
def test_bounds_hold_where_buffers_outlive_a_run(passing, named):
    edge = to_edge(torch.export.export(Late(), (torch.randn(64),)))
    config = {"emit_mutable_buffer_names": named}
    default = finish(edge, MemoryPlanningPass(**passing), **config)
    planning = planning_pass(**FAST, passing=passing)
    program = finish(edge, planning, **config)
    verify_program(program)
    (plan,) = planning.arrangements
    (placed,) = planning.memory_planning_algo.plans
    assert plan.lower_bound <= placed.peak
    assert bytes_of(program) <= bytes_of(default)


class Store(nn.Module):
    """A row is written into a large buffer, and nothing is read of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(64, 20))

    def forward(self, x, position):
        self.rows.index_put_((position,), x)
        return x.exp()


def test_what_is_returned_of_a_buffer_needs_no_bytes_of_its_own():
    inputs = (torch.randn(1, 20), torch.tensor([3]))
    edge = to_edge(torch.export.export(Store(), inputs))
    default = finish(edge, run_reinplace_pass=True)
    assert bytes_of(default) >= 2 * 64 * 20 * 4
    for planning in (algorithm(**FAST), planning_pass(**FAST)):
        program = finish(edge, planning, run_reinplace_pass=True)
        verify_program(program)
        assert bytes_of(program) <= 64 * 20 * 4 + 3 * 96
        assert same(run(program, inputs), run(default, inputs))


def test_their_verifier_is_called_on_request_only(monkeypatch):
    edge = to_edge(torch.export.export(Chain(), (torch.randn(64),)))
    calls = []
    monkeypatch.setattr(planner, "call_verifier", lambda *args, **named: calls.append(args))
    finish(edge, algorithm(**FAST))
    assert calls == []
    program = finish(edge, algorithm(**FAST, executorch_verifier=True))
    assert len(calls) == 1
    verify_program(program, executorch_verifier=True)


class Sized(nn.Module):
    """Views whose size another branch's result has, before and after work that may move."""

    def forward(self, x, y):
        n = x.shape[0]
        wide = torch.cat([x, y, x], 0)
        thirds = wide.shape[0] // 3
        parts = [(x * (k + 2)).view(thirds * 3, 4).tanh().view(n, 12) for k in range(4)]
        other = torch.cat([y.exp()] * 2, 0)
        halves = other.view(2, other.shape[0] // 2, 12).sum(0)
        return sum(parts) + halves, wide.view(thirds * 4, 9).sum(1)


@pytest.mark.parametrize("order", ["given", "search"])
def test_views_follow_their_bytes_not_their_size(order):
    rows = torch.export.Dim("n", min=14, max=40)
    inputs = [(torch.randn(count, 12), torch.randn(count, 12)) for count in (15, 40)]
    exported = torch.export.export(Sized(), inputs[0], dynamic_shapes=({0: rows}, {0: rows}))
    edge = to_edge(exported)
    default = finish(edge)
    for in_place in (False, True):
        program = finish(edge, planning_pass(**FAST, order=order, in_place=in_place))
        verify_program(program)
        assert bytes_of(program) <= bytes_of(default)
        assert all(same(run(program, given), run(default, given)) for given in inputs)
    # What reserves bytes stays with what writes them.
    nodes = list(module_of(program).graph.nodes)
    for place, node in enumerate(nodes):
        if node.target is memory.alloc:
            (user,) = node.users
            between = {other.target for other in nodes[place + 1 : nodes.index(user)]}
            assert all(target is memory.alloc or "view" in str(target) for target in between)


class Product(nn.Module):
    """A size that is computed after the bytes that are viewed by it, and needs none of them."""

    def forward(self, x):
        first = torch.cat([x, x * 2], 1)
        return first.view(x.shape[0] * 3, -1).exp(), torch.cat([first] * 3, 1).sum(1)


def test_a_size_that_is_computed_late_is_waited_for():
    rows = torch.export.Dim("n", min=14, max=40)
    inputs = (torch.randn(15, 12),)
    edge = to_edge(torch.export.export(Product(), inputs, dynamic_shapes=({0: rows},)))
    default, program = finish(edge), finish(edge, planning_pass(**FAST))
    verify_program(program)
    assert bytes_of(program) <= bytes_of(default)
    assert same(run(program, inputs), run(default, inputs))


def test_constants_in_the_arena_are_reported_and_folded(caplog):
    from cpplan.io.executorch import fold_constants

    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).eval()
    inputs = (torch.randn(1, 64),)
    edge = to_edge(torch.export.export(net, inputs))
    program = finish(edge, algorithm(**FAST))
    assert "2 results (72" in caplog.text
    caplog.clear()
    folded = finish(fold_constants(edge), algorithm(**FAST))
    assert "constants" not in caplog.text
    assert bytes_of(folded) < bytes_of(program) // 20
    assert same(run(folded, inputs), run(program, inputs))
    # The program that was given is as it was.
    assert bytes_of(finish(edge, algorithm(**FAST))) == bytes_of(program)


def test_only_edge_programs_are_folded():
    from cpplan.io.executorch import fold_constants
    from cpplan.model.errors import InputError

    with pytest.raises(InputError, match="expected an EdgeProgramManager"):
        fold_constants(torch.export.export(Chain(), (torch.randn(4),)))


def test_models_that_lower_folds_have_nothing_to_report(caplog):
    finish(lower(nn.Linear(8, 4), (torch.randn(2, 8),)), algorithm(**FAST))
    assert "constants" not in caplog.text
