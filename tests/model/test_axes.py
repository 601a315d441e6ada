"""Axes of ops: windows and what graphs refuse."""

import pickle
import re
from dataclasses import fields

import pytest

from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor


def one_op(axis: Axis) -> Graph:
    """A pool of stride 2 over rows of ``x``, shape (1, 8, 4), to ``y``, shape (1, 4, 4)."""
    tensors = (
        Tensor("x", shape=(1, 8, 4), dtype="int8", kind="input"),
        Tensor("y", shape=(1, 4, 4), dtype="int8", kind="output"),
        Tensor("z", 16, kind="output"),
    )
    return Graph("pool", tensors, (Op("pool", "Pool", ("x",), ("y",), axes=(axis,)),))


def test_window_of_a_padded_convolution_is_clipped() -> None:
    window = Window("x", 1, stride=1, offset=-1, size=3)
    assert [window.interval(a, a + 1, 4) for a in range(4)] == [(0, 2), (0, 3), (1, 4), (2, 4)]


def test_window_of_a_concatenated_part_may_be_empty() -> None:
    assert Window("b", 0, offset=-5).interval(0, 4, 3) == (0, 0)


def test_window_with_a_table_reads_from_its_first_entry_to_its_last() -> None:
    window = Window("x", 1, table=((0, 1), (0, 2), (1, 2), (1, 2)))
    assert window.interval(1, 3, 2) == (0, 2)


def test_graph_takes_an_axis_that_fits() -> None:
    graph = one_op(Axis("rows", 4, (Window("x", 1, 2, 0, 2), Window("y", 1))))
    assert graph.ops[0].axes[0].window["x"].interval(1, 3, 8) == (2, 6)


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (Axis("rows", 4, (Window("x", 1, 2, 0, 2),)), "has no window of output 'y'"),
        (Axis("rows", 4, (Window("y", 3),)), "'y' has no axis 3: its shape is [1, 4, 4]"),
        (Axis("rows", 4, (Window("q", 1), Window("y", 1))), "'q' is no input or output of the op"),
        (Axis("rows", 5, (Window("y", 1),)), "its 5 steps must write each of the 4 positions"),
        (Axis("rows", 4, (Window("y", 1, 1, 0, 2),)), "its 4 steps must write each of the 4"),
        (
            Axis("rows", 2, (Window("y", 1, table=((0, 2), (1, 4))),)),
            "its 2 steps must write each of the 4 positions of 'y' along axis 1 just once",
        ),
        (Axis("rows", 8, (Window("x", 1), Window("y", 1)), accumulates=True), "accumulates, but"),
    ],
)
def test_graph_refuses_an_axis_that_contradicts_the_shapes(axis: Axis, message: str) -> None:
    with pytest.raises(InputError, match=f"op 'pool': axis 'rows': .*{re.escape(message)}"):
        one_op(axis)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Axis("rows", 0, ()), "axis 'rows': extent must be an integer >= 1, not 0"),
        (lambda: Axis("rows", 2, (Window("y", 0), Window("y", 1))), "has more than one window"),
        (
            lambda: Op("pool", outputs=("y",), axes=(Axis("rows", 2, (Window("y", 0),)),) * 2),
            "op 'pool': two axes are named 'rows'",
        ),
        (lambda: Window("y", -1), "window of 'y': axis must be an integer >= 0, not -1"),
        (lambda: Window("y", 0, offset=0.5), "offset must be an integer, not 0.5"),  # type: ignore[arg-type]
        (lambda: Window("y", 0, stride=2**62), "stride must be an integer >= 0 and below 2**62"),
        (lambda: Window("y", 0, table=((2, 1),)), "intervals in ascending order"),
        (lambda: Axis("rows", 2, (Window("y", 0, table=((0, 1),)),)), "has 1 entries, expected 2"),
    ],
)
def test_malformed_axes_are_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=re.escape(message)):
        make()


def test_windows_by_tensor_are_made_once_and_are_no_part_of_an_axis() -> None:
    axis = Axis("rows", 4, (Window("x", 0), Window("y", 0)))
    assert axis.window is axis.window
    other = pickle.loads(pickle.dumps(axis))
    assert other == axis == Axis("rows", 4, axis.windows)
    assert (hash(other), other.window) == (hash(axis), axis.window)
    assert [field.name for field in fields(axis)] == ["name", "extent", "windows", "accumulates"]
