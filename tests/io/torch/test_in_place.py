"""In-place pairs of torch ops, and kernels that write in place with equal results."""

from __future__ import annotations

import operator

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from torch import nn  # noqa: E402
from torch.export import export  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional  # noqa: E402

import cpplan  # noqa: E402
from cpplan.io.torch import read_torch  # noqa: E402
from cpplan.io.torch.in_place import _OF_FIRST, _POINTWISE  # noqa: E402

ATEN = torch.ops.aten


def pairs(graph, kind):
    """In-place pairs of the last op of a kind."""
    return [op.in_place for op in graph.ops if kind in op.kind][-1]


class Normed(nn.Module):
    """A convolution, a batch norm with statistics unlike 0 and 1, and what follows it."""

    def __init__(self, then):
        super().__init__()
        self.conv, self.norm, self.then = nn.Conv2d(3, 4, 3, padding=2), nn.BatchNorm2d(4), then
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.then(self.norm(self.conv(x))) + 1


class Of(nn.Module):
    """A function of the exponential."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x.exp())


IMAGES = (torch.randn(2, 3, 6, 7),)


@pytest.mark.parametrize("decomposed", [False, True])
def test_batch_norms_of_given_statistics(decomposed):
    program = export(Normed(torch.relu).eval(), IMAGES)
    program = program.run_decompositions() if decomposed else program
    graph = read_torch(program)
    [norm] = [op for op in graph.ops if "batch_norm" in op.kind]
    assert norm.in_place == ((norm.outputs[0], norm.inputs[0]),)
    image, whole = 4 * 2 * 3 * 6 * 7, 4 * 2 * 4 * 8 * 9
    assert cpplan.solve(graph).peak == 2 * whole
    shared = cpplan.solve(graph, in_place=True)
    assert (shared.status, shared.peak) == ("optimal", image + whole)
    cpplan.verify(graph, shared)
    cpplan.simulate(graph, shared)


def test_batch_norms_as_modules_and_of_other_strides():
    module = Normed(nn.ReLU()).eval()
    graph = read_torch(torch.fx.symbolic_trace(module), example_inputs=IMAGES)
    assert [op.in_place for op in graph.ops] == [
        (),
        (("norm", "conv"),),
        (("then", "norm"),),
        (("add", "then"),),
    ]
    images = IMAGES[0].to(memory_format=torch.channels_last)
    program = export(module.to(memory_format=torch.channels_last), (images,))
    assert pairs(read_torch(program), "batch_norm")


def test_batch_norms_that_train_read_all_before_they_write():
    program = export(Normed(torch.relu).train(), IMAGES)
    assert pairs(read_torch(program), "batch_norm") == ()
    without = nn.BatchNorm2d(4, track_running_stats=False).eval()
    assert pairs(read_torch(export(without, (torch.randn(2, 4, 3, 3),))), "batch_norm") == ()


def test_a_batch_norm_does_not_write_over_its_weights():
    def function(x):
        y = x.exp()
        return torch.batch_norm(y, None, None, y[0], y[1], False, 0.1, 1e-5, False)

    assert pairs(read_torch(make_fx(function)(torch.randn(4, 4))), "batch_norm") == ()
    traced = torch.fx.symbolic_trace(function)
    graph = read_torch(traced, example_inputs=(torch.randn(4, 4),))
    assert pairs(graph, "batch_norm") == ()


def test_what_functions_and_modules_come_down_to():
    found = {}
    for name, function in {
        "add": lambda y: operator.add(y, 1.0),
        "subtract": lambda y: torch.subtract(y, 1),
        "hardswish": nn.Hardswish(),
        "silu": functional.silu,
        "prelu": lambda y: torch.prelu(y, torch.ones(1)),
        "dropout": lambda y: functional.dropout(y, 0.5, True),
        "softmax": lambda y: torch.softmax(y, 1),
        "less": lambda y: y < 1,
        "sum": lambda y: y.sum(0, keepdim=True),
    }.items():
        traced = torch.fx.symbolic_trace(Of(function))
        graph = read_torch(traced, example_inputs=(torch.randn(1, 4),))
        found[name] = [source for _, source in graph.ops[-1].in_place]
    assert {name for name, sources in found.items() if sources} == {
        *("add", "subtract", "hardswish", "silu"),
    }


def test_copies_with_a_part_written():
    """Over the first argument only, which nothing else that is read may lie in."""
    zero = torch.tensor([0])
    for function in (
        lambda y: torch.slice_scatter(y, y.new_ones(1, 3), 0, 0, 1),
        lambda y: torch.index_put(y, [zero], torch.ones(3)),
        lambda y: y.masked_fill(torch.ones(3, 3).bool(), torch.tensor(2.0)),
        lambda y: y.tril(),
    ):
        graph = read_torch(make_fx(Of(function))(torch.randn(3, 3)))
        assert graph.ops[-1].in_place == ((graph.ops[-1].outputs[0], "exp"),)
    for function in (
        lambda y: torch.slice_scatter(y, y[1:2], 0, 0, 1),
        lambda y: torch.index_put(y, [zero], y[2]),
        lambda y: torch.slice_scatter(y[1:], y.new_ones(1, 3), 0, 0, 1),
        lambda y: torch.slice_scatter(torch.ones(3, 1).expand(3, 3), y, 0, 0, 3),
        lambda y: torch.index_copy(torch.zeros(3, 3), 0, torch.arange(3), y),
    ):
        graph = read_torch(make_fx(Of(function))(torch.randn(3, 3)))
        assert "exp" not in [source.partition("_")[0] for _, source in graph.ops[-1].in_place]


def test_stacks_and_joined_parts():
    def function(x):
        y, z = x.exp(), x.sin()
        return torch.stack([y, z, y]), torch.concat((z.view(-1), z.view(9)))

    traced = torch.fx.symbolic_trace(function)
    for graph in (
        read_torch(make_fx(function)(torch.ones(3, 3))),
        read_torch(traced, example_inputs=(torch.ones(3, 3),)),
    ):
        [stack] = [op for op in graph.ops if "stack" in op.kind]
        assert stack.placements == (("sin", "stack", 36),)
        assert graph.ops[-1].placements == ()  # the same bytes twice, by two names


def over(op, args, kwargs, at):
    """The op's result written over argument ``at``, by its variants that write to a tensor."""
    schema, packet = op._schema.arguments, op._overloadpacket
    own = [*packet.overloads()]
    written = []
    for name in own:
        variant = getattr(packet, name)
        extra = [a for a in variant._schema.arguments if a.kwarg_only and a.alias_info]
        names = [(a.name, str(a.type)) for a in variant._schema.arguments if a not in extra]
        if len(extra) != 1 or names != [(a.name, str(a.type)) for a in schema]:
            continue
        target = args[at].clone()
        given = [target if k == at else arg for k, arg in enumerate(args)]
        variant(*given, **kwargs, **{extra[0].name: target})
        written.append(target)
    in_place = getattr(ATEN, f"{packet.__name__}_", None)
    if at == 0 and in_place is not None and op._overloadname in in_place.overloads():
        target = args[0].clone()
        getattr(in_place, op._overloadname)(target, *args[1:], **kwargs)
        written.append(target)
    return written


def rows(count=37, width=53):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(count + width))


X, Y, INDEX = rows(), rows(37, 54)[:, 1:].contiguous(), torch.arange(37).flip(0)
MASK, PART = X > 0.3, torch.full((3, 53), 7.0)
SAMPLES = {
    "copy": (X, Y),
    "diagonal_scatter": (X, torch.ones(37)),
    "elu_backward": (X, 1, 1, 1, False, Y),
    "fill": (X, 2.0),
    "floor_divide": (X, Y),
    "hardsigmoid_backward": (X, Y),
    "hardswish": (X,),
    "hardswish_backward": (X, Y),
    "hardtanh_backward": (X, Y, -1, 1),
    "huber_loss_backward": (X, Y, rows(37), 0, 1.0),
    "index_add": (X, 0, INDEX[:3], PART),
    "index_copy": (X, 0, INDEX[:3], PART),
    "index_fill": (X, 0, INDEX[:3], 2.0),
    "index_put": (X, [INDEX[:3]], PART, True),
    "leaky_relu_backward": (X, Y, 0.1, False),
    "masked_fill": (X, MASK, 2.0),
    "masked_scatter": (X, MASK, Y),
    "mse_loss_backward": (X, Y, rows(37), 0),
    "scatter": (X, 0, INDEX[:, None].expand(37, 53), Y),
    "scatter_add": (X, 0, INDEX[:, None].expand(37, 53), Y),
    "select_scatter": (X, PART[0], 0, 5),
    "slice_scatter": (X, PART, 0, 4, 7),
    "smooth_l1_loss_backward": (X, Y, rows(37), 0, 1.0),
    "softplus_backward": (X, Y, 1, 20),
    "tril": (X, -1),
    "triu": (X, 1),
}
VIEWED = {
    "diagonal_scatter": lambda y: y.diagonal(),
    "select_scatter": lambda y: y[5],
    "slice_scatter": lambda y: y[4:7],
}


def test_all_kinds_have_a_sample():
    assert set(SAMPLES) == _POINTWISE | _OF_FIRST


@pytest.mark.parametrize("kind", SAMPLES)
def test_kernels_write_over_their_arguments(kind):
    """Every pair is tried with the op's variants that write to a tensor given."""
    args = SAMPLES[kind]
    module = make_fx(lambda *given: getattr(ATEN, kind)(*given))(*args)
    graph = read_torch(module)
    [op] = graph.ops
    node = next(node for node in module.graph.nodes if node.name == op.name)
    result = node.target(*args)
    taken = [node.args.index(n) for n in node.args if str(n) in [s for _, s in op.in_place]]
    alike = [k for k, a in enumerate(args) if torch.is_tensor(a) and a.shape == X.shape]
    alike = [k for k in alike if args[k].dtype == X.dtype and args[k].is_contiguous()]
    assert taken == (alike if kind in _POINTWISE else [0])
    for at in taken:
        written = over(node.target, args, {}, at)
        if kind in VIEWED:
            target = args[0].clone()
            VIEWED[kind](target).copy_(args[1])
            written.append(target)
        assert written
        assert all(torch.equal(found, result) for found in written)


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_batch_norm_writes_over_its_input(channels_last):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 37, 19, 23, generator=generator)
    x = x.to(memory_format=torch.channels_last) if channels_last else x
    rest = [torch.rand(37, generator=generator) + 0.5 for _ in range(4)]
    target, empty = x.clone(), torch.empty(0)
    given = (*rest, False, 0.1, 1e-5)
    expected = ATEN.native_batch_norm.default(x, *given)[0]
    ATEN.native_batch_norm.out(target, *given, out=target, save_mean=empty, save_invstd=empty)
    assert torch.equal(target, expected)
    assert torch.equal(
        expected, ATEN._native_batch_norm_legit_no_training.default(x, *rest, 0.1, 1e-5)[0]
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_kernels_of_the_tag_write_over_their_arguments():
    """torch's own samples of all ops that it tags as point-wise."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._python_dispatch import TorchDispatchMode

    tried, wrong = set(), set()

    class Trying(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            result = op(*args, **(kwargs or {}))
            if torch.Tag.pointwise in op.tags and torch.is_tensor(result):
                for at, given in enumerate(args):
                    same = torch.is_tensor(given) and given.numel() and given.dtype == result.dtype
                    if same and (given.shape, given.stride()) == (result.shape, result.stride()):
                        for found in over(op, args, kwargs or {}, at):
                            tried.add((str(op), at))
                            if not torch.equal(found.nan_to_num(7), result.nan_to_num(7)):
                                wrong.add((str(op), at))
            return result

    elsewhere = ("jiterator", "linalg", "fft", "_refs")
    for info in op_db:
        if info.name.startswith(elsewhere) or not info.supports_dtype(torch.float32, "cpu"):
            continue
        for dtype in (torch.float32, torch.int32):
            supported = info.supports_dtype(dtype, "cpu")
            for sample in list(info.sample_inputs("cpu", dtype))[:3] if supported else ():
                with Trying():
                    info.op(sample.input, *sample.args, **sample.kwargs)
    assert not wrong
    assert len(tried) > 100
