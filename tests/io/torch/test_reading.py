"""Exported programs and graph modules as graphs, checked by hand."""

from __future__ import annotations

import io

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from support.torch_models import Transformer  # noqa: E402
from torch.export import Dim, export  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import cpplan  # noqa: E402
from cpplan.io.torch import (  # noqa: E402
    measure_live_bytes,
    read_torch,
    reorder_graph_module,
    training_graph,
)
from cpplan.model.errors import InputError  # noqa: E402
from cpplan.program.anf import to_anf  # noqa: E402


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def exported(function, *inputs, **options):
    return export(Function(function), inputs, **options)


def test_parameters_are_constants_and_results_outputs():
    class Net(torch.nn.Linear):
        def forward(self, x):
            return x, torch.relu(super().forward(x)).t()

    graph = cpplan.load(export(Net(3, 2), (torch.ones(4, 3),)))
    assert {t.name: (t.kind, t.nbytes) for t in graph.tensors} == {
        "p_weight": ("constant", 24),
        "p_bias": ("constant", 8),
        "x": ("output", 48),  # handed back as it came
        "linear": ("intermediate", 32),
        "relu": ("intermediate", 32),
        "t": ("output", 32),
    }
    assert graph.tensor["t"].view_of == ("relu", 0)
    assert [(op.kind, op.cost) for op in graph.ops] == [
        ("aten.linear.default", 2 * 4 * 3 * 2),
        ("aten.relu.default", 8),
        ("aten.t.default", 0),
    ]
    assert graph.op["relu"].in_place == (("relu", "linear"),)


@pytest.mark.parametrize(
    ("function", "view"),
    [
        (lambda y: y[1:, 2:], ("exp", 4 * (4 + 2), 4 * (4 + 2))),  # rows of 4, two left over
        (lambda y: y.split(1)[2], ("exp", 32, 16)),
        (lambda y: y.split(2, 1)[1].t(), ("exp", 8, 40)),
        (lambda y: y.chunk(2, 1)[1].unbind(1)[1].unsqueeze(0), ("exp", 12, 36)),
        (lambda y: y.select(1, 3), ("exp", 4 * 3, 4 * 9)),
        (lambda y: y.reshape(6, 2), ("exp", 0, 48)),
        (lambda y: y.t().reshape(-1), None),  # moves elements
        (lambda y: y.t().contiguous(), None),
        (lambda y: y.to(torch.float32), ("exp", 0, 48)),
        (lambda y: y.to(torch.float64), None),
        (lambda y: torch.dropout(y, 0.5, False), ("exp", 0, 48)),
        (lambda y: y.diagonal(), ("exp", 0, 4 * 11)),
        (lambda y: y.view(torch.int16)[2:3, 1:3], ("exp", 4 * 8 + 2, 4)),
        (lambda y: y[:1].expand(5, 4), ("exp", 0, 16)),
        (lambda y: y[..., None].repeat(1, 1, 2), None),
    ],
)
def test_views_keep_their_byte_offset(function, view):
    """``(base, byte offset, bytes)`` of the result within the 3 x 4 floats of ``exp``."""
    program = exported(lambda x: function(torch.exp(x)) + 0, torch.randn(3, 4))
    for loaded in (program, _saved(program)):
        graph = cpplan.load(loaded)
        read = graph.tensor[graph.ops[-1].inputs[0]]
        assert (None if read.view_of is None else (*read.view_of, read.nbytes)) == view


def _saved(program):
    """The program as torch reads it from a file, without the offsets of views."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def test_a_module_without_shapes_needs_inputs():
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()))
    with pytest.raises(InputError, match="Sequential: node 'input_1' has no shape: give example"):
        cpplan.load(traced)
    graph = read_torch(traced, example_inputs=(torch.ones(4, 3),))
    assert [(op.kind, op.inputs) for op in graph.ops] == [
        ("module 0", ("input_1", "0:weight", "0:bias")),
        ("module 1", ("_0",)),
    ]
    assert graph.ops[0].cost == 48


def test_numbers_handed_in_are_traced_away():
    module = make_fx(lambda x, k, flag: x.exp() * k if flag else x)(torch.ones(3), 2, True)
    graph = read_torch(module)
    assert [t.name for t in graph.tensors if t.kind == "input"] == ["x_1"]
    planned = reorder_graph_module(module, cpplan.solve(graph).order)
    assert torch.equal(planned(torch.ones(3), 2, True), torch.ones(3).exp() * 2)


def test_inputs_of_which_elements_share_bytes():
    row = torch.arange(4.0)
    module = make_fx(lambda x, y: (x + y).t() * 2)(row.expand(3, 4), torch.ones(3, 4))
    graph = read_torch(module)
    assert graph.tensor["x_1"].nbytes == 4 * 4
    found = measure_live_bytes(
        reorder_graph_module(module, cpplan.solve(graph).order), (row.expand(3, 4), row + 1)
    )
    assert next(iter(found.per_node.values())) == 16 + 16 + 48
    assert torch.equal(found.results, (row + row + 1).expand(3, 4).t() * 2)


def test_reading_changes_no_buffers():
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    graph = read_torch(torch.fx.symbolic_trace(module), example_inputs=(torch.randn(4, 3),))
    assert not graph.ops[0].recomputable
    assert all(torch.equal(module.state_dict()[name], value) for name, value in before.items())


def test_random_ops_are_a_sequence_and_run_once():
    def function(x):
        y = torch.dropout(x, 0.5, True) + torch.rand(3) + torch.dropout(x, 0.5, False)
        return torch.bernoulli(y.sigmoid())

    graph = cpplan.load(exported(function, torch.ones(3)))
    drawn = [op.kind for op in graph.ops if op.sequence == "random"]
    assert drawn == ["aten.dropout.default", "aten.rand.default", "aten.bernoulli.default"]
    assert all(op.recomputable == (op.sequence is None) for op in graph.ops)


def test_batch_norm_statistics_are_written_once():
    norm = torch.nn.BatchNorm1d(4)
    graph = cpplan.load(export(norm, (torch.ones(2, 4),)))
    assert not graph.op["batch_norm"].recomputable
    graph = cpplan.load(export(norm.eval(), (torch.ones(2, 4),)))
    assert graph.op["batch_norm"].recomputable


def test_new_statistics_are_outputs_of_training_graphs():
    class Loss(torch.nn.BatchNorm1d):
        def forward(self, x):
            return super().forward(x).square().mean()

    graph = training_graph(Loss(4), (torch.ones(2, 4),))
    [norm] = [op for op in graph.ops if "batch_norm_legit" in op.kind]
    assert norm.recomputable
    assert [graph.tensor[name].kind for name in norm.outputs].count("output") == 2


def test_what_writes_over_a_storage_keeps_its_place():
    def function(x):
        y = x * 2
        before = y + 1
        part = y.view(-1)[1:3]
        part.add_(1)
        return before, y * 3

    graph = read_torch(make_fx(function)(torch.ones(2, 2)))
    order = [op.name for op in graph.ops]
    write, after = graph.op["add_"], graph.op["mul_1"]
    assert "add" in write.after
    assert "add_" in after.after
    assert graph.tensor["add_"].view_of == ("mul", 4)
    assert not any(graph.op[name].recomputable for name in order)


def test_an_input_written_over_lives_to_the_end():
    graph = read_torch(make_fx(lambda x: x.add_(1).exp().sum())(torch.ones(4)))
    assert graph.tensor["x_1"].kind == "output"


def test_in_place_pairs_need_equal_layouts():
    x = torch.randn(3, 3)
    pairs = {
        "add": lambda y, z: y + z,
        "transposed": lambda y, z: y.t() + z,
        "itself transposed": lambda y, z: y + y.t(),
        "broadcast": lambda y, z: y + z[:1],
        "wider": lambda y, z: y > z,
        "constant": lambda y, z: y + torch.ones(3, 3),
    }
    found = {}
    for name, function in pairs.items():
        graph = read_torch(make_fx(function)(x.exp(), x.sin()))
        found[name] = [source for _, source in graph.ops[-1].in_place]
    assert found == {
        "add": ["y_1", "z_1"],
        "transposed": ["t"],
        "itself transposed": [],
        "broadcast": ["y_1"],
        "wider": [],
        "constant": ["y_1", "ones"],
    }


def test_concatenations_may_be_written_in_place():
    def function(x):
        parts = x.exp(), x.sin(), x.t().cos(), x.cos().double()
        return torch.cat([*parts[:2], parts[0]]), torch.cat(parts[:2], 1), torch.cat(parts)

    graph = read_torch(make_fx(function)(torch.ones(2, 2)))
    assert [op.placements for op in graph.ops if "cat" in op.kind] == [
        (("sin", "cat", 16),),  # exp is there twice
        (),  # rows alternate
        (("_to_copy", "cat_2", 96),),  # the others are made float64 on the way
    ]


def test_pt2_file_gives_the_same_graph_as_its_program(tmp_path):
    program = exported(lambda x: x.exp().t(), torch.ones(3, 4))
    torch.export.save(program, tmp_path / "small.pt2")
    graph = cpplan.load(tmp_path / "small.pt2")
    assert graph.name == "small"
    assert (graph.tensors, graph.ops) == (cpplan.load(program).tensors, cpplan.load(program).ops)


@pytest.mark.parametrize("kind", ["empty", "truncated", "other", "zip", "missing", "folder"])
def test_malformed_pt2_files_are_refused(tmp_path, kind):
    import zipfile

    path = tmp_path / "bad.pt2"
    if kind == "folder":
        path.mkdir()
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", "b")
    elif kind != "missing":
        torch.export.save(exported(torch.exp, torch.ones(3)), path)
        data = path.read_bytes()
        path.write_bytes({"empty": b"", "truncated": data[: len(data) // 2], "other": b"x"}[kind])
    with pytest.raises(InputError, match=r"bad\.pt2: ") as error:
        cpplan.load(path)
    assert "\n" not in str(error.value)
    assert str(error.value).count("bad.pt2") == 1


def test_what_is_not_understood():
    class Scan(torch.nn.Module):
        def forward(self, x):
            return torch._higher_order_ops.scan(
                lambda carry, x: (carry + x, carry.exp()), x[0], x, dim=0
            )

    with pytest.raises(InputError, match="'scan': the higher-order operator 'scan' is"):
        cpplan.load(export(Scan(), (torch.ones(4, 3),)))
    with pytest.raises(InputError, match=r"expected an exported program.* not Linear"):
        cpplan.load(torch.nn.Linear(2, 2))
    with pytest.raises(InputError, match="there is no dimension 'n': all sizes are fixed"):
        cpplan.load(exported(torch.exp, torch.ones(3)), dims={"n": 3})
    sparse = make_fx(lambda x: x.to_sparse())(torch.eye(3))
    with pytest.raises(InputError, match="expected a dense tensor"):
        cpplan.load(sparse)


def test_branches_and_settings():
    class Parts(torch.nn.Module):
        def forward(self, x):
            with torch.no_grad():
                flat, scaled = x.view(-1), (x * 2).exp()
            turned = torch.cond(
                x.sum() > 0, lambda x: (x.sin() + 1).cos() * 2, lambda x: x.clone(), (x,)
            )
            return flat + 1, scaled, turned

    program = export(Parts(), (torch.ones(3, 4),))
    graph = cpplan.load(program)
    part, branch = (op for op in graph.ops if op.workspaces)
    assert graph.tensor[part.outputs[0]].view_of == ("x", 0)
    assert graph.tensor[part.workspaces[0]].nbytes == 48  # x * 2; its exponential is handed back
    assert graph.tensor[branch.workspaces[0]].nbytes == 96
    assert branch.cost == 4 * 12
    planned = reorder_graph_module(program, [op.name for op in graph.ops])
    x = torch.randn(3, 4)
    for found, expected in zip(planned(x), program.module()(x), strict=True):
        assert torch.equal(found, expected)


def test_loops_carry_a_workspace():
    """A loop's workspace holds its carried values and the temporaries of its body."""

    class Loop(torch.nn.Module):
        def forward(self, x, w):
            _, y, z = torch._higher_order_ops.while_loop(
                lambda count, y, z: count < 3,
                lambda count, y, z: (count + 1, (y @ w).sin() * 2, z + y),
                (torch.zeros((), dtype=torch.int64), x.exp(), x),
            )
            return y + 1, z

    inputs = torch.randn(3, 3), torch.randn(3, 3)
    program = export(Loop(), inputs)
    graph = cpplan.load(program)
    loop = graph.op["while_loop"]
    [workspace] = loop.workspaces
    carried, product = 8 + 36 + 36, 36
    # The sine is computed while the product is live; what a pass returns are the loop's outputs.
    assert graph.tensor[workspace].nbytes == carried + 2 * product
    assert [graph.tensor[name].nbytes for name in loop.outputs] == [8, 36, 36]
    assert "w" in loop.inputs
    assert loop.in_place == ()
    assert loop.cost == 1 + 2 * 27 + 3 * 9  # of one pass
    planned = reorder_graph_module(program, cpplan.solve(graph, in_place=True).order)
    for found, expected in zip(planned(*inputs), program.module()(*inputs), strict=True):
        assert torch.equal(found, expected)


def test_a_loop_of_one_op_does_not_write_over_what_every_pass_reads():
    class Loop(torch.nn.Module):
        def forward(self, x, w):
            w = w.exp()
            _, y = torch._higher_order_ops.while_loop(
                lambda count, y: count < 3,
                lambda count, y: (count + 1, y * w),
                (torch.zeros((), dtype=torch.int64), x.exp()),
            )
            return y

    graph = cpplan.load(export(Loop(), (torch.ones(3), torch.ones(3))))
    assert graph.op["while_loop"].in_place == ()


def test_symbolic_sizes_hold_at_other_sizes():
    shapes = {"x": {0: Dim("b", min=1, max=8), 1: Dim("s", min=2, max=64)}}
    module = Transformer().eval()
    program = export(module, (torch.randn(2, 16, 32),), dynamic_shapes=shapes)
    graph = cpplan.load(program)
    assert [tuple(within) for within in graph.symbols.dims.values()] == [(1, 8), (2, 64)]
    assert not graph.symbols.lost
    x = [t.name for t in graph.tensors if t.kind == "input"]
    for batch, length in ((8, 64), (3, 7)):
        sizes = dict(zip(graph.symbols.dims, (batch, length), strict=True))
        fixed = cpplan.load(export(module, (torch.randn(batch, length, 32),)))
        there = graph.at(sizes)
        assert {t.name: (t.nbytes, t.view_of) for t in there.tensors} == {
            t.name: (t.nbytes, t.view_of) for t in fixed.tensors
        }
        assert there.tensor[x[0]].nbytes == 4 * batch * length * 32
    narrow = cpplan.load(program, dims={next(iter(graph.symbols.dims)): (1, 2)})
    assert narrow.tensor[x[0]].nbytes == 4 * 2 * 64 * 32


@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_of_symbolic_sizes(kind):
    layer = getattr(torch.nn, kind)(4, 5, 2, bidirectional=True).eval()
    sizes = ({1: Dim("b", min=2, max=8)},)
    program = export(layer, (torch.randn(6, 3, 4),), dynamic_shapes=sizes)
    graph = cpplan.load(program)
    there = graph.at(dict(zip(graph.symbols.dims, (5,), strict=True)))
    fixed = cpplan.load(export(layer, (torch.randn(6, 5, 4),)))
    assert {t.name: (t.nbytes, t.view_of) for t in there.tensors} == {
        t.name: (t.nbytes, t.view_of) for t in fixed.tensors
    }
    inputs = (torch.randn(6, 5, 4),)
    planned = reorder_graph_module(program, cpplan.solve(graph).order)
    given = [w.detach() for w in program.state_dict.values()]
    given += [c for c in program.constants.values() if isinstance(c, torch.Tensor)]
    found = measure_live_bytes(planned, (*given, *inputs))
    program_there = to_anf(there)
    at = dict(zip(program_there.names, program_there.live_bytes().tolist(), strict=True))
    assert at == {name: found.per_node[name] for name in at}


def test_reading_settles_no_sizes():
    """Some ops ask for a size as a number: their example's is not the program's."""

    def function(x, y):
        left, right = torch.nn.functional.linear(x, torch.ones(8, 8)).chunk(2, -1)
        joined = torch.cat([left, right * 2, y], -1)
        turned = (joined * 1).transpose(0, 1).contiguous()
        return joined.flatten(0, 1) + 1, turned.sum((0, 2)), torch.nn.functional.pad(joined, (1, 2))

    sizes = {0: Dim("b", min=2, max=9), 1: Dim("s", min=3, max=40)}
    shapes = ((sizes, sizes),)
    program = exported(function, torch.ones(4, 6, 8), torch.ones(4, 6, 4), dynamic_shapes=shapes)
    first, second = cpplan.load(program), cpplan.load(program)
    for graph in (first, second):
        assert [tuple(within) for within in graph.symbols.dims.values()] == [(2, 9), (3, 40)]
    assert first == second
    given = dict(zip(first.symbols.dims, (2, 3), strict=True))
    fixed = cpplan.load(exported(function, torch.ones(2, 3, 8), torch.ones(2, 3, 4)))
    assert [t.size for t in cpplan.load(program, dims=given).tensors] == [
        t.size for t in fixed.tensors
    ]


@pytest.mark.parametrize(
    ("within", "complaint"),
    [
        (-1, "must not be negative: it may be -1"),
        ((-3, 4), "must not be negative: it may be -3"),
        ((5, 1), "lower bound 5 is above upper bound 1"),
        ("8", r"must be an integer or \(lower, upper\), not '8'"),
    ],
)
def test_bad_bounds_are_named_with_the_file(within, complaint, tmp_path):
    sizes = ({0: Dim("n", min=2, max=32)},)
    program = exported(torch.exp, torch.ones(6, 4), dynamic_shapes=(sizes,))
    torch.export.save(program, tmp_path / "open.pt2")
    [name] = cpplan.load(program).symbols.dims
    with pytest.raises(InputError, match=rf"open\.pt2: dimension '{name}':? {complaint}$"):
        cpplan.load(tmp_path / "open.pt2", dims={name: within})


@pytest.mark.parametrize(
    ("within", "complaint"),
    [
        (33, "at most 32, not 33"),
        ((4, None), "at most 32, not more"),
        ((3, 8), "4 and more, not 3"),
        (0, "4 and more, not 0"),
    ],
)
def test_extents_beyond_those_of_the_export_are_refused(within, complaint):
    sizes = (({0: Dim("n", min=4, max=32)},),)
    program = exported(torch.exp, torch.ones(6), dynamic_shapes=sizes)
    [name] = cpplan.load(program).symbols.dims
    message = f"dimension '{name}': the program was exported for extents of {complaint}$"
    with pytest.raises(InputError, match=message):
        cpplan.load(program, dims={name: within})


def test_bounds_come_by_name():
    program = exported(torch.exp, torch.ones(6))
    open_below = exported(
        torch.exp, torch.ones(6), dynamic_shapes=(({0: Dim("n", min=2, max=9)},),)
    )
    [name] = cpplan.load(open_below).symbols.dims
    ranges = cpplan.load(open_below, dims={name: (None, 7)}).symbols.dims
    assert tuple(ranges[name]) == (0, 7)
    with pytest.raises(InputError, match=r"^dims=\[8\]: expected values by name"):
        cpplan.load(program, dims=[8])


def test_sizes_that_data_decide():
    program = exported(lambda x: x.nonzero().float() * 2, torch.ones(6))
    graph = cpplan.load(program)
    [found] = graph.symbols.dims
    assert tuple(graph.symbols.dims[found]) == (0, 6)
    assert graph.tensor["nonzero"].nbytes == 6 * 8


def test_numbers_carry_order_but_no_bytes():
    def function(x):
        y = x.exp()
        return torch.ones(y.size(0)) * 2, y

    program = exported(function, torch.ones(6), dynamic_shapes=(({0: Dim("n", max=64)},),))
    graph = cpplan.load(program)
    assert all("size" not in op.kind for op in graph.ops)


def test_measured_bytes_of_a_chain():
    traced = torch.fx.symbolic_trace(lambda x: torch.relu(torch.exp(x).t()[0]) + 1)
    found = measure_live_bytes(traced, (torch.ones(2, 3),))
    # x and exp; exp and its views; exp and relu; relu and add
    assert list(found.per_node.values()) == [48, 24, 24, 32, 16]
    assert found.peak == 48
