"""The graph of pieces, on instances that can be checked by hand."""

from __future__ import annotations

import pytest

import cpplan
from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.pieces import Pieces
from cpplan.splitting.piece_graph import split_graph
from tests.support.split_networks import Network


def two_convs() -> Graph:
    """Two 3x3 convolutions of 8 rows, and a rectifier between them."""
    net = Network()
    net.conv(net.relu(net.conv(net.image(8, 4, 2), 4)), 2)
    return net.graph()


def test_a_tensor_is_cut_where_windows_of_readers_and_pieces_of_its_writer_end() -> None:
    cut = [Pieces("conv0", ("rows",), ((3,),)), Pieces("relu1", ("rows",), ((4,),))]
    found = split_graph(two_convs(), cut)
    # The first convolution's pieces [0, 3) and [3, 8) read rows [0, 4) and [2, 8).
    assert [band.name for band in found.bands["x"]] == ["x[0:2]", "x[2:4]", "x[4:8]"]
    # In-place pairs: the rectifier's input and output have the cuts of both.
    assert [band.name for band in found.bands["t1"]] == ["t1[0:3]", "t1[3:4]", "t1[4:8]"]
    assert [band.name for band in found.bands["t2"]] == ["t2[0:3]", "t2[3:4]", "t2[4:8]"]
    ops = found.graph.op
    assert ops["conv0[3:8]"].inputs == ("x[2:4]", "x[4:8]")
    assert ops["relu1[0:4]"].in_place == (("t2[0:3]", "t1[0:3]"), ("t2[3:4]", "t1[3:4]"))
    assert ops["conv2"].inputs == ("t2[0:3]", "t2[3:4]", "t2[4:8]")


def test_tiles_are_products_of_intervals() -> None:
    found = split_graph(two_convs(), [Pieces("conv2", ("rows", "columns"), ((4,), (2,)))])
    assert list(found.pieces["conv2"].values()) == [
        "conv2[0:4,0:2]",
        "conv2[0:4,2:4]",
        "conv2[4:8,0:2]",
        "conv2[4:8,2:4]",
    ]
    # Rows [0, 5) and [3, 8), columns [0, 3) and [1, 4).
    assert len(found.bands["t2"]) == 9
    assert found.graph.op["conv2[0:4,0:2]"].inputs == (
        "t2[0:3,0:1]",
        "t2[0:3,1:3]",
        "t2[3:5,0:1]",
        "t2[3:5,1:3]",
    )


@pytest.mark.parametrize("cuts", [(1,), (3, 4), (1, 2, 3, 4, 5, 6, 7)])
def test_costs_of_pieces_add_up_to_the_cost_of_the_op(cuts: tuple[int, ...]) -> None:
    graph = two_convs()
    found = split_graph(graph, [Pieces("conv0", ("rows",), (cuts,))])
    parts = [op.cost for op in found.graph.ops if found.source[op.name] == "conv0"]
    assert sum(parts) == graph.op["conv0"].cost
    assert all(isinstance(cost, int) for cost in parts)


def test_sums_over_channel_slices_lie_in_one_storage() -> None:
    net = Network("float32")
    net.conv(net.image(2, 2, 4), 3, taps=1)
    found = split_graph(net.graph(), [Pieces("conv0", ("terms",), ((1, 3),))]).graph
    assert [op.outputs for op in found.ops] == [("t1+1",), ("t1+3",), ("t1",)]
    assert found.tensor["t1+3"].view_of == found.tensor["t1"].view_of == ("t1+1", 0)
    assert found.tensor["t1"].kind == "output"
    # The image's 64 B and the sum's 48 B; slices that were added are free.
    plan = cpplan.solve(found)
    assert plan.peak == 112
    cpplan.simulate(found, plan)


def test_placements_carry_over_to_bands() -> None:
    shapes = {"a": (1, 4, 2), "b": (3, 4, 2), "y": (4, 4, 2)}
    tensors = [
        Tensor(name, shape=shape, dtype="int16", kind="input") for name, shape in shapes.items()
    ]
    tensors[2] = Tensor("y", shape=shapes["y"], dtype="int16", kind="output")
    rows = Axis("rows", 4, tuple(Window(name, 1) for name in shapes))
    op = Op(
        "cat", "Concat", ("a", "b"), ("y",), axes=(rows,),
        placements=(Placement("a", "y", 0), Placement("b", "y", 16)),
    )  # fmt: skip
    found = split_graph(Graph("g", tuple(tensors), (op,)), [Pieces("cat", ("rows",), ((1,),))])
    # One row of one channel has 4 B.
    assert found.graph.op["cat[0:1]"].placements == (
        ("a[0:1]", "y[0:1]", 0),
        ("b[0:1]", "y[0:1]", 4),
    )
    assert found.graph.op["cat[1:4]"].placements[1] == ("b[1:4]", "y[1:4]", 12)


def test_bands_of_a_slice_lie_in_the_bands_of_its_storage() -> None:
    net = Network()
    y = net.conv(net.image(4, 6, 1), 2, taps=1)
    parts = [net.part(y, 1, 0, 2), net.part(y, 1, 2, 6)]
    graph = net.graph()
    cut = [Pieces("conv0", ("rows",), ((3,),)), Pieces("slice2", ("rows",), ((3,),))]
    found = split_graph(graph, cut)
    tensor = found.graph.tensor
    # A row of the storage has 12 B, of which the slices show 4 and 8.
    assert tensor[f"{parts[0]}[0:3]"].view_of == ("t1[0:3]", 0)
    assert tensor[f"{parts[1]}[0:3]"].view_of == ("t1[0:3]", 4)
    assert [tensor[f"{name}[0:3]"].nbytes for name in parts] == [2 * 12 + 4, 2 * 12 + 8]
    assert found.graph.op["slice2[3:4]"].inputs == ("t1[3:4]",)
    # Cut along the columns as well, a slice has whole bands of its own.
    both = [*cut[:1], Pieces("slice2", ("rows", "columns"), ((3,), (1,)))]
    tensor = split_graph(graph, both).graph.tensor
    assert tensor[f"{parts[1]}[3:4,1:4]"].view_of == ("t1[3:4,3:6]", 0)
    assert tensor[f"{parts[0]}[3:4]"].view_of == ("t1[3:4,0:2]", 0)
    assert tensor[f"{parts[1]}[3:4,0:1]"].nbytes == 2


@pytest.mark.parametrize(
    ("op", "axis", "cuts", "message"),
    [
        ("conv9", "rows", (3,), "the graph has no such op"),
        ("conv0", "depth", (3,), "the op has no axis 'depth'"),
        ("conv0", "rows", (8,), "position 8 is not within its 8 steps"),
        ("conv0", "rows", (), "expected at least one cut"),
        ("conv0", "rows", (3, 3), "no piece has size 0"),
        ("conv0", "rows", (0, 3), "no piece has size 0"),
    ],
)
def test_a_wrong_cut_is_named(op: str, axis: str, cuts: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split_graph(two_convs(), [Pieces(op, (axis,), (cuts,))])
