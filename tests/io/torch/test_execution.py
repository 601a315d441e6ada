"""Torch models run by torch's kernels inside the planned arena, training graphs too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from torch import nn  # noqa: E402
from torch.export import export, save  # noqa: E402
from torch.export.experimental import _export_forward_backward  # noqa: E402
from torch.fx import symbolic_trace  # noqa: E402

import cpplan  # noqa: E402
from cpplan.cli.main import main  # noqa: E402
from cpplan.io.torch import read_torch, training_module  # noqa: E402
from cpplan.model.errors import InputError, VerificationError  # noqa: E402
from cpplan.program.anf import to_anf  # noqa: E402


class Loss(nn.Module):
    """Views, dropout, a batch norm, transposed values, and a loss that adds up its terms."""

    def __init__(self):
        super().__init__()
        self.first, self.conv = nn.Linear(16, 16), nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        y = nn.functional.dropout(torch.relu(self.first(x)), 0.5, self.training)
        y = self.norm(self.conv(y.view(-1, 1, 4, 4)))
        return nn.functional.mse_loss(y.relu().transpose(1, 2).flatten(1), x.repeat(1, 4))


@pytest.fixture(scope="module")
def joint():
    torch.manual_seed(0)
    return training_module(Loss(), (torch.randn(8, 16),))


def test_schedule_with_repeated_ops_gives_every_byte_of_the_training_step(joint):
    graph = read_torch(joint)
    ops = [op.name for op in graph.ops]
    relu = next(name for name in ops if name.startswith("relu"))
    last = max(k for k, op in enumerate(graph.ops) if relu in op.inputs)
    plan = cpplan.solve(to_anf(graph, [*ops[:last], relu, *ops[last:]]))
    done = cpplan.execute(joint, plan)
    assert done.steps == len(ops) + 1
    assert len(done.outputs) == len([t for t in graph.tensors if t.kind == "output"])


def test_searched_order_in_place_gives_every_byte_of_the_training_step(joint):
    graph = read_torch(joint)
    plan = cpplan.solve(graph, order="search", in_place=True, time_limit=2)
    assert plan.relations
    assert cpplan.execute(joint, plan).arena_bytes == plan.peak


def test_overlapping_buffers_of_a_training_step_are_caught(joint):
    graph = read_torch(joint)
    plan = cpplan.solve(graph, time_limit=2)
    broken = replace(plan, offset=np.zeros_like(plan.offset))
    with pytest.raises(VerificationError, match="is not that of the unplanned run"):
        cpplan.execute(joint, broken)


def test_exported_program_computes_what_it_does_unplanned():
    torch.manual_seed(0)
    model, x = Loss().eval(), torch.randn(8, 16)
    program = export(model, (x,))
    plan = cpplan.solve(read_torch(program), time_limit=2)
    done = cpplan.execute(program, plan, inputs={"x": x.numpy()})
    [value] = done.outputs.values()
    assert torch.allclose(torch.from_numpy(value), model(x).detach())


class Mixed(nn.Module):
    """Tracing adds assertions about what ``to`` and ``float`` convert."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(16, 4).to(torch.bfloat16)

    def forward(self, x):
        torch.ops.aten._assert_async.msg(x.amax() < 100, "too large")
        return self.dense(x.to(torch.bfloat16)).float().log_softmax(-1)


def test_assertions_of_exported_programs_are_made_and_may_fail():
    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(8, 16)
    program = export(model, (x,))
    asserted = [str(node.target) for node in program.graph.nodes if "_assert" in node.name]
    assert {"aten._assert_async.msg", "aten._assert_tensor_metadata.default"} == set(asserted)
    plan = cpplan.solve(read_torch(program), time_limit=2)
    [value] = cpplan.execute(program, plan, inputs={"x": x.numpy()}).outputs.values()
    assert torch.allclose(torch.from_numpy(value), model(x).detach())
    with pytest.raises(InputError, match=r"op '_assert_async.*' does not run: .*too large"):
        cpplan.execute(program, plan, inputs={"x": 101 * np.ones((8, 16), np.float32)})


def test_command_executes_an_exported_training_step(tmp_path, capsys):
    path, plan = tmp_path / "step.pt2", tmp_path / "plan.json"
    save(_export_forward_backward(export(Loss(), (torch.randn(8, 16),))), path)
    page = tmp_path / "page.html"
    assert main(["plan", str(path), "-o", str(plan), "--report", str(page)]) == 0
    assert main(["verify", str(path), str(plan), "--execute"]) == 0
    assert "execution  ok: " in capsys.readouterr().out
    assert "<html" in page.read_text(encoding="utf-8")


class Squared(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).square().mean()


def test_step_whose_convolution_gives_no_gradient_of_its_input_is_executed(tmp_path):
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 1))
    path = tmp_path / "step.pt2"  # a file names all results of an op, also those that are not there
    save(_export_forward_backward(export(Squared(module), (torch.randn(4, 1, 6, 6),))), path)
    plan = cpplan.solve(read_torch(path))
    assert cpplan.execute(path, plan).arena_bytes == plan.peak


class Rewriting(nn.Module):
    """Ops that write over what they read: activations, a sum of branches, a slice of its own."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x):
        y = torch.relu_(self.norm(self.conv(x)))
        z = nn.functional.hardtanh(self.conv(x), -0.1, 0.2, inplace=True)
        z += y
        return torch.relu_(z.view(-1)).clamp_(max=0.5)


def test_ops_that_write_over_their_arguments_give_every_byte(tmp_path):
    torch.manual_seed(0)
    model, x = Rewriting().eval(), torch.randn(2, 3, 6, 6)
    program = export(model, (x,))
    assert any("relu_" in node.name for node in program.graph.nodes)
    plan = cpplan.solve(read_torch(program), order="search", in_place=True, time_limit=2)
    done = cpplan.execute(program, plan, inputs={"x": x.numpy()})
    [value] = done.outputs.values()
    assert torch.equal(torch.from_numpy(value), model(x).detach())
    broken = replace(plan, offset=np.zeros_like(plan.offset))
    with pytest.raises(VerificationError, match="is not that of the unplanned run"):
        cpplan.execute(program, broken)


def _older_name_read(x):
    y = torch.relu(x)
    torch.ops.aten.add_.Tensor(y, x)
    return torch.ops.aten.mul.Tensor(y, x)


def _part_written(x):
    y = torch.relu(x)
    part = torch.ops.aten.slice.Tensor(y, 0, 0, 2)
    torch.ops.aten.add_.Tensor(part, 1.0)
    return torch.ops.aten.neg.default(y)


def _older_view_handed_back(x):
    y = torch.relu(x)
    view = torch.ops.aten.view.default(y, [2, 2])
    return torch.ops.aten.add_.Tensor(y, x), view


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda x: torch.ops.aten.add_.Tensor(x, x),
            "overwrites 'x' without returning exactly these bytes",
        ),
        (_older_name_read, "op 'mul_tensor' reads 'relu' after op 'add__tensor' has overwritten"),
        (_part_written, "op 'neg_default' reads 'relu' after op 'add__tensor' has overwritten it"),
        (_older_view_handed_back, "the caller reads 'view_default' after op 'add__tensor' has"),
    ],
)
def test_bytes_read_by_an_older_name_after_they_were_written_over_are_refused(function, said):
    module, inputs = symbolic_trace(function), (torch.ones(4),)
    graph = read_torch(module, example_inputs=inputs)
    plan = cpplan.solve(graph)
    for node in module.graph.nodes:
        node.meta["val"] = torch.ones(2) if "slice" in node.name else torch.ones(4)
        if "view" in node.name:
            node.meta["val"] = torch.ones(2, 2)
        if node.op == "output":
            node.meta["val"] = None
    with pytest.raises(InputError, match=said):
        cpplan.execute(module, plan)


def test_weights_of_an_archive_are_used(tmp_path):
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    save(export(model, (x,)), tmp_path / "linear.pt2")
    plan = cpplan.solve(cpplan.load(tmp_path / "linear.pt2"))
    done = cpplan.execute(tmp_path / "linear.pt2", plan, inputs={"input": x.numpy()})
    assert torch.equal(torch.from_numpy(done.outputs["linear"]), model(x).detach())


def test_random_weights_are_drawn_for_an_exported_program():
    program = export(nn.Linear(3, 2), (torch.ones(4, 3),))
    plan = cpplan.solve(read_torch(program))
    model, drawn = (cpplan.execute(program, plan, weights=w) for w in ("model", "random"))
    [one], [other] = model.outputs.values(), drawn.outputs.values()
    assert not np.array_equal(one, other)


class Turned(nn.Module):
    """A branch, whose temporaries are a workspace."""

    def forward(self, x):
        chosen = torch.cond(x.sum() > 0, lambda x: (x.sin() + 1).cos() * 2, torch.clone, (x,))
        return chosen @ x.T


@pytest.mark.parametrize("kernels", [(), ("--kernels", "measured")], ids=["", "measured"])
def test_command_executes_ops_with_workspaces(kernels, tmp_path, capsys):
    path, plan = tmp_path / "turned.pt2", tmp_path / "plan.json"
    save(export(Turned(), (torch.ones(3, 4),)), path)
    assert main(["plan", str(path), "-q", "-o", str(plan), *kernels]) == 0
    assert any(name.endswith(".workspace") for name in cpplan.Plan.load(plan).buffers)
    assert main(["verify", str(path), str(plan), "--execute", *kernels]) == 0
    assert "execution  ok: " in capsys.readouterr().out


def test_branches_of_symbolic_sizes_run_at_their_values():
    rows = torch.export.Dim("rows", min=2, max=16)
    program = export(Turned(), (torch.ones(3, 4),), dynamic_shapes=({0: rows},))
    [name] = cpplan.load(program).symbols.dims
    graph = cpplan.load(program, dims={name: 5})
    assert [t.nbytes for t in graph.tensors if t.kind == "workspace"] == [2 * 4 * 5 * 4]
    assert cpplan.execute(program, cpplan.solve(graph), dims={name: 5}).steps == len(graph.ops)


def test_model_of_symbolic_sizes_runs_at_their_values():
    rows = torch.export.Dim("rows", min=2, max=16)
    program = export(Loss().eval(), (torch.randn(8, 16),), dynamic_shapes=({0: rows},))
    graph = cpplan.load(program)
    [name] = graph.symbols.dims
    plan = cpplan.solve(graph, in_place=True, time_limit=2)
    for count in (2, 5, 16):
        fixed = cpplan.load(program, dims={name: count})
        assert fixed.symbols is None
        assert fixed.tensor["x"].shape == (count, 16)
        for found in (plan, cpplan.solve(fixed, time_limit=2)):
            cpplan.execute(program, found, dims={name: count})
    with pytest.raises(InputError, match="give their values as dims"):
        cpplan.execute(program, cpplan.solve(fixed, time_limit=2))


class Permutation(nn.Module):
    """Memory that nothing has written, filled by index, and the part of no columns of a view."""

    def forward(self, x):
        inverse = torch.empty_like(x[:, 0])
        rest = x.reshape(4, 2, 3).transpose(0, 1)[..., 3:]
        return inverse.index_put((x[:, 0].argsort(),), x[:, 1]), torch.cat([rest + 1, rest], -1)


def test_unwritten_memory_and_views_of_no_elements_give_the_bytes_of_the_unplanned_run():
    model, x = Permutation(), torch.randn(4, 6)
    for program in (export(model, (x,)), export(model, (x,)).run_decompositions()):
        plan = cpplan.solve(read_torch(program), order="search", in_place=True, time_limit=2)
        done = cpplan.execute(program, plan, inputs={"x": x.numpy()})
        for value, wanted in zip(done.outputs.values(), model(x), strict=True):
            assert torch.equal(torch.from_numpy(value), wanted)


def test_views_of_no_elements_have_no_bytes_at_any_size():
    class Rotary(nn.Module):
        def forward(self, x):
            turned, rest = x.relu().transpose(1, 2)[..., :3], x.relu().transpose(1, 2)[..., 3:]
            return torch.cat([turned * 2, rest], -1)

    dynamic = [{0: torch.export.Dim.DYNAMIC}]
    program = export(Rotary(), (torch.randn(2, 5, 2, 3),), dynamic_shapes=dynamic)
    (given,) = program.graph.find_nodes(op="placeholder")
    batch = str(given.meta["val"].shape[0])
    graph = read_torch(program, dims={batch: (2, 6)})
    plan = cpplan.solve(graph, in_place=True, time_limit=2)
    for size in (2, 5):
        assert graph.at({batch: size}).empty == read_torch(program, dims={batch: size}).empty
        cpplan.verify(graph, plan, dims={batch: size})
        assert cpplan.execute(program, plan, dims={batch: size}).steps == len(graph.ops)
