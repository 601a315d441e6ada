"""Storages that are larger than their tensors: as many bytes as eager torch allocates."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from torch.export import Dim, export  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional  # noqa: E402

from cpplan.io.torch import measure_live_bytes, read_torch, reorder_graph_module  # noqa: E402
from cpplan.program.anf import to_anf  # noqa: E402

ATEN = torch.ops.aten
VIEWS = {
    "rows": lambda y: y[2:5],
    "columns": lambda y: y[:, 1:7:2],
    "turned": lambda y: y.t()[1:3],
    "whole": lambda y: y,
    "repeated": lambda y: y[:1].expand(6, 8),
    "copy of a part": lambda y: ATEN.copy(y[2:5], torch.zeros(3, 8))[:2],
}
WRITES = {
    "copy": lambda v: ATEN.copy(v, torch.ones(v.shape)),
    "slice_scatter": lambda v: torch.slice_scatter(v, torch.ones(v[:1].shape), 0, 0, 1),
    "select_scatter": lambda v: torch.select_scatter(v, torch.ones(v.shape[:1]), 1, 0),
    "diagonal_scatter": lambda v: torch.diagonal_scatter(v, torch.ones(v.diagonal().shape)),
    "as_strided_scatter": lambda v: torch.as_strided_scatter(
        v, torch.ones(min(1, v.numel())), (min(1, v.numel()),), (1,), v.storage_offset()
    ),
    "index_put": lambda v: torch.index_put(v, [torch.arange(min(1, len(v)))], torch.tensor(1.0)),
    "masked_fill": lambda v: v.masked_fill(v > 0, 2.0),
}


def check(module, inputs, graph):
    measured = measure_live_bytes(module, inputs)
    program = to_anf(graph)
    found = dict(zip(program.names, program.live_bytes().tolist(), strict=True))
    assert found == {name: measured.per_node[name] for name in found}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("write", WRITES)
def test_a_view_written_in_a_copy(write, view):
    """The copy is of the whole storage in which the view lies."""

    def function(x):
        return WRITES[write](VIEWS[view](x.exp())) * 2

    inputs = (torch.randn(6, 8),)
    module = make_fx(function)(*inputs)
    graph = read_torch(module)
    check(module, inputs, graph)


@pytest.mark.parametrize("write", WRITES)
def test_storage_of_an_empty_view_is_kept_by_torch_alone(write):
    """Tensors of zero bytes keep nothing alive in plans; torch keeps what an empty view is of."""
    inputs = (torch.randn(6, 8),)
    module = make_fx(lambda x: WRITES[write](x.exp()[6:]) * 2)(*inputs)
    measured = measure_live_bytes(module, inputs)
    program = to_anf(read_torch(module))
    found = dict(zip(program.names, program.live_bytes().tolist(), strict=True))
    assert found["exp"] == measured.per_node["exp"]
    assert all(live <= measured.per_node[name] for name, live in found.items())


def test_a_view_of_an_input_written_in_a_copy():
    module = make_fx(lambda x: ATEN.copy(x[1:3], torch.ones(2, 4)).exp())(torch.randn(5, 4))
    graph = read_torch(module)
    assert graph.tensor["copy"].nbytes == 5 * 4 * 4
    assert graph.tensor["exp"].nbytes == 2 * 4 * 4
    assert not graph.op["exp"].in_place
    check(module, (torch.randn(5, 4),), graph)


def test_functional_programs():
    """Writes into views of what the model computed, as torch makes them functional."""

    class Net(torch.nn.Module):
        def forward(self, x):
            y = x.exp()
            y[1:3].mul_(2)
            y[:, 0] = 1
            y.t()[2:].copy_(x.t()[2:])
            return y.sum(0), y[3:] + 1

    x = torch.randn(6, 8)
    program = export(Net(), (x,)).run_decompositions()
    ones = [value for value in program.constants.values() if isinstance(value, torch.Tensor)]
    planned = reorder_graph_module(program, [op.name for op in read_torch(program).ops])
    check(planned, (*ones, x), read_torch(program))


def test_symbolic_extents_give_symbolic_storages():
    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.slice_scatter(x.exp()[2:], torch.ones(1, 4), 0, 0, 1) * 2

    program = export(Net(), (torch.ones(6, 4),), dynamic_shapes=({0: Dim("n", min=4, max=32)},))
    graph = read_torch(program)
    [n] = graph.symbols.dims
    assert "slice_scatter" not in graph.symbols.lost
    assert graph.at({n: 9}).tensor["slice_scatter"].nbytes == 9 * 4 * 4
    assert graph.at({n: 9}).tensor["mul"].nbytes == 7 * 4 * 4


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "loss", ["mse_loss", "smooth_l1_loss", "soft_margin_loss", "binary_cross_entropy", "huber_loss"]
)
def test_losses_keep_what_they_add_up(loss, reduction):
    """The sum of some lies in the storage of all its terms."""

    def function(x, y):
        return getattr(functional, loss)(x, y, reduction=reduction) + 1

    inputs = torch.rand(3, 4), torch.rand(3, 4)
    module = make_fx(function)(*inputs)
    check(module, inputs, read_torch(module))
    traced = torch.fx.symbolic_trace(function)
    check(traced, inputs, read_torch(traced, example_inputs=inputs))


def test_terms_of_a_loss_are_broadcast():
    inputs = torch.rand(3, 1), torch.rand(4)
    module = make_fx(ATEN.mse_loss.default)(*inputs)
    graph = read_torch(module)
    assert graph.tensor[graph.ops[0].outputs[0]].nbytes == 3 * 4 * 4
    check(module, inputs, graph)
