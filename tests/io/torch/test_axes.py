"""Axes of ATen's operators: other values outside of a piece's windows change nothing in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from cpplan.io.pieces import piece_work, slices  # noqa: E402
from cpplan.io.torch import read_torch  # noqa: E402
from cpplan.model.graph import Graph  # noqa: E402
from cpplan.splitting.lines import find_lines  # noqa: E402
from cpplan.verification.piece_lines import cut_tensors  # noqa: E402


def _case(run: Callable[..., object], *shapes: tuple[int, ...]) -> tuple[object, ...]:
    return run, shapes


CASES = {
    "conv": _case(lambda x, w, b: F.conv2d(x, w, b, 2, 1, 2), (1, 4, 11, 9), (6, 4, 3, 3), (6,)),
    "groups": _case(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 4), (2, 4, 7, 7), (8, 1, 3, 3)),
    "same": _case(lambda x, w: F.conv2d(x, w, None, 1, "same", 2), (1, 2, 9, 8), (3, 2, 3, 4)),
    "valid": _case(lambda x, w: F.conv2d(x, w, None, 2, "valid"), (1, 2, 9, 8), (3, 2, 3, 4)),
    "transposed": _case(
        lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1), (1, 3, 5, 4), (3, 4, 3, 3)
    ),
    "max pool": _case(lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (1, 2, 8, 9)),
    "mean pool": _case(lambda x: F.avg_pool2d(x, 2, 2, count_include_pad=True), (1, 2, 8, 8)),
    "adaptive": _case(lambda x: F.adaptive_avg_pool2d(x, (3, 2)), (1, 2, 8, 7)),
    "batch norm": _case(lambda x, m, v: F.batch_norm(x, m, v), (2, 3, 4, 4), (3,), (3,)),
    "group norm": _case(lambda x, w, b: F.group_norm(x, 3, w, b), (2, 6, 4, 5), (6,), (6,)),
    "layer norm": _case(lambda x, w: F.layer_norm(x, (6,), w), (2, 5, 6), (6,)),
    "linear": _case(lambda x, w, b: F.linear(x, w, b), (2, 5, 6), (4, 6), (4,)),
    "addmm": _case(lambda b, x, w: torch.addmm(b, x, w), (4,), (5, 6), (6, 4)),
    "matmul": _case(lambda a, b: a @ b, (2, 3, 5, 4), (1, 3, 4, 6)),
    "softmax": _case(lambda x: x.softmax(1), (3, 4, 5)),
    "attention": _case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        (2, 3, 5, 4),
        (2, 3, 6, 4),
        (2, 3, 6, 4),
        (5, 6),
    ),
    "attention of windows": _case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        (1, 4, 2, 5, 3),
        (1, 4, 2, 6, 3),
        (1, 4, 2, 6, 3),
    ),
    "stack": _case(lambda a, b: torch.stack([a, b], 1), (2, 3, 4), (2, 3, 4)),
    "norm of columns": _case(lambda x: torch.linalg.vector_norm(x, dim=1), (3, 4, 2)),
    "cat": _case(lambda a, b: torch.cat([a, b], 1), (2, 3, 4), (2, 5, 4)),
    "broadcast": _case(lambda a, b: a * b, (3, 4, 5), (4, 1)),
    "mean": _case(lambda x: x.mean((1, 3), keepdim=True), (2, 3, 4, 5)),
    "sum": _case(lambda x: x.sum(2), (2, 3, 4, 5)),
    "pad": _case(lambda x: F.pad(x, (1, 2, 0, 3), value=4.0), (2, 3, 4, 5)),
    "nearest": _case(lambda x: F.interpolate(x, size=(7, 9)), (1, 2, 4, 5)),
    "bilinear": _case(lambda x: F.interpolate(x, size=(7, 3), mode="bilinear"), (1, 2, 4, 5)),
    "shuffle": _case(lambda x: F.pixel_shuffle(x, 2), (1, 8, 3, 4)),
    "gelu": _case(lambda x: F.gelu(x), (3, 4)),
    "permuted": _case(lambda x: x.permute(2, 0, 1) * 1, (2, 3, 4)),
    "reshaped": _case(lambda x: x.reshape(6, 2, 2) + 1, (2, 3, 4)),
    "expanded": _case(lambda x: x.expand(2, 3, 4) * 1, (3, 1)),
    "expanded alike": _case(lambda x, y: x.expand_as(y) * 1, (3, 1), (2, 3, 4)),
    "repeated": _case(lambda x: x.repeat(2, 1, 3), (3, 2)),
    "chosen": _case(lambda x: torch.where(x > 1, x, 0.5), (3, 4)),
    "flipped": _case(lambda x: x.flip(1), (3, 4)),
    "unbound": _case(lambda x: x.unbind(1)[0] * 1, (3, 4, 2)),
    "roll": _case(lambda x: x.roll(1, 1), (3, 4, 2)),
    "cumsum": _case(lambda x: x.cumsum(0), (3, 4)),
    "clone": _case(lambda x: x.permute(0, 2, 1).contiguous(), (2, 3, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_piece_depends_on_its_windows_only(name: str) -> None:
    run, shapes = CASES[name]

    class Module(torch.nn.Module):
        def forward(self, *args):  # type: ignore[no-untyped-def]
            return run(*args)

    rng = np.random.default_rng(1)
    values = [torch.tensor(rng.standard_normal(s), dtype=torch.float32).abs() for s in shapes]
    graph = read_torch(torch.export.export(Module(), tuple(values)))
    op = next(op for op in graph.ops if op.axes)
    inputs = [t.name for t in graph.tensors if t.kind == "input"]
    whole = run(*values)
    checked = 0
    for axis in (axis for axis in op.axes if not axis.accumulates):
        for start in range(axis.extent):
            work = piece_work(graph, op, (axis.name,), [(start, min(start + 2, axis.extent))])
            spoilt = []
            for tensor, value in zip(inputs, values, strict=True):
                other = torch.full_like(value, 1e6)
                if tensor not in op.inputs:
                    other = value  # another op reads it
                elif tensor in work.boxes:
                    other[slices(work.boxes[tensor])] = value[slices(work.boxes[tensor])]
                spoilt.append(other)
            box = slices(work.boxes[op.outputs[0]])
            torch.testing.assert_close(run(*spoilt)[box], whole[box], rtol=1e-4, atol=1e-4)
            checked += 1
    assert checked


def test_what_is_written_in_place_has_the_axes_of_its_operand() -> None:
    class Module(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return torch.relu_(x * 2)

    graph = read_torch(torch.export.export(Module(), (torch.ones(2, 3),)))
    assert all([axis.extent for axis in op.axes] == [2, 3] for op in graph.ops)
    assert find_lines(graph).grain["relu_"] == {0: 1, 1: 1}


def test_views_and_slices_take_axes_along() -> None:
    class Module(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            heads = (x * 2).view(6, 2, 4).transpose(0, 1)
            return heads.unsqueeze(0) + 1, (x + 1)[:, 2:5] * 3

    graph = read_torch(torch.export.export(Module(), (torch.ones(6, 8),)))
    lines = find_lines(graph)
    # A head is four columns.
    assert lines.grain["mul"] == {0: 1, 1: 4}
    assert lines.grain["unsqueeze"] == {2: 1, 1: 1}
    (part,) = (t.name for t in graph.tensors if t.view_of == ("add_1", 8))
    assert lines.shown[part] == {0: (0, 6), 1: (2, 5)}


def test_tokens_of_an_image_are_parts_of_its_rows() -> None:
    class Module(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return (x * 2).flatten(2).transpose(1, 2) + 1

    graph = read_torch(torch.export.export(Module(), (torch.ones(1, 8, 6, 5),)))
    # A row is five tokens; channels come last.
    assert find_lines(graph).grain["transpose"] == {1: 5, 2: 1}
    places = cut_tensors(graph).places["transpose"]
    assert {axis: place.pitch for axis, place in places.items()} == {1: 5, 2: 1}


def test_queries_keys_and_values_of_one_product_are_parts_of_it() -> None:
    class Module(torch.nn.Module):
        def forward(self, x, w):  # type: ignore[no-untyped-def]
            q, k, v = (x @ w).split(8, dim=-1)
            heads = [part.view(1, 6, 2, 4).transpose(1, 2) for part in (q, k, v)]
            stacked = (x + 1).view(3, 2, 8).unbind(0)
            return F.scaled_dot_product_attention(*heads), stacked[1] * 2, (x - 1)[:, 3] * 2

    args = torch.ones(1, 6, 8), torch.ones(8, 24)
    lines = find_lines(graph := read_torch(torch.export.export(Module(), args)))
    attention = next(op for op in graph.ops if "attention" in op.kind)
    # Rows of the product, and heads of its columns.
    assert [lines.shown[name] for name in attention.inputs] == [
        {1: (0, 6), 2: (first, first + 2)} for first in (0, 2, 4)
    ]
    # The second of three pairs of rows; a row, whose columns go on.
    (pair,) = (t.name for t in graph.tensors if t.view_of == ("add", 2 * 32))
    assert lines.shown[pair][1] == (1, 2)
    (row,) = (t.name for t in graph.tensors if t.view_of == ("sub", 3 * 32))
    assert lines.line[row] == {1: 2}


def test_the_loss_of_rows_is_added_up() -> None:
    class Module(torch.nn.Module):
        def forward(self, x, y):  # type: ignore[no-untyped-def]
            return F.cross_entropy(x, y)

    args = torch.ones(6, 8), torch.ones(6, dtype=torch.int64)
    graph = read_torch(torch.export.export(Module(), args))
    (axis,) = graph.ops[-1].axes
    assert axis.accumulates
    assert axis.extent == 6


class Computed(torch.nn.Module):
    """Slices, a pad and a roll by numbers that follow from the length of a sequence."""

    def forward(self, x):  # type: ignore[no-untyped-def]
        length = x.shape[1]
        late, early = x.relu()[:, 2 : length - 1], x[:, length - 3 :]
        filled = torch.nn.functional.pad(late, (0, 0, length - 4, 1))
        return early.exp(), filled.sin(), x.roll(length - 2, 1)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_sizes_that_follow_from_others_are_numbers_at_given_sizes() -> None:
    def axes(graph: Graph) -> list[list[tuple[object, ...]]]:
        return [
            [(axis.name, axis.extent, *(astuple(w)[1:] for w in axis.windows)) for axis in op.axes]
            for op in graph.ops
        ]

    model, dynamic = Computed(), [{0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}]
    whole = torch.export.export(model, (torch.zeros(2, 6, 4),), dynamic_shapes=dynamic)
    program = whole.run_decompositions()
    (given,) = program.graph.find_nodes(op="placeholder")
    batch, length = map(str, given.meta["val"].shape[:2])
    for size in (6, 9):
        fixed = torch.export.export(model, (torch.zeros(3, size, 4),)).run_decompositions()
        found = axes(read_torch(program, dims={batch: 3, length: size}))
        assert found == axes(read_torch(fixed))
        assert sum(map(bool, found)) >= 5
    for composed in (program, whole):
        symbolic = read_torch(composed, dims={batch: 3, length: (6, 9)})
        assert not any(axes(symbolic))
        fixed = read_torch(composed, dims={batch: 3, length: 8})
        sizes = {tensor.name: tensor.nbytes for tensor in symbolic.at({length: 8}).tensors}
        assert sizes == {tensor.name: tensor.nbytes for tensor in fixed.tensors}
