"""The bound over every splitting, proved twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cpplan import Graph, Op, Tensor, solve
from cpplan.model.axes import Axis, Window
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.splitting.bounds import least_piece
from cpplan.splitting.problem import SplitProblem
from cpplan.verification import piece_bound
from tests.support.split_networks import Network


@given(
    rows=st.integers(1, 6),
    kinds=st.lists(
        st.sampled_from(["conv", "strided", "relu", "add", "dense", "relu_over", "fold", "turn"]),
        max_size=5,
    ),
    in_place=st.booleans(),
    inputs=st.sampled_from(["reuse", "keep", "outside"]),
    dtype=st.sampled_from(["int8", "float32"]),
)
def test_planner_and_checker_agree_on_the_least_piece(
    rows: int, kinds: list[str], in_place: bool, inputs: str, dtype: str
) -> None:
    net = Network(dtype)
    x = net.image(rows, 3, 2)
    for kind in kinds:
        if kind == "conv":
            x = net.conv(x, 4)
        elif kind == "strided":
            x = net.conv(x, 3, taps=1, stride=2)
        elif kind == "relu":
            x = net.relu(x)
        elif kind == "add":
            x = net.add(x, x)
        elif kind == "fold":
            x = net.fold(x, 3 if net.tensors[x].shape[1] % 3 == 0 else 1)
        elif kind in ("relu_over", "turn"):
            x = getattr(net, kind)(x)
        else:
            x = net.dense(x, 5)
    graph, residency = net.graph("net", x), Residency(inputs=inputs)
    sharing = frozenset({"in place", "placement"}) if in_place else frozenset()
    found = least_piece(SplitProblem(to_anf(graph), residency, sharing))
    assert found.bytes == piece_bound.least_piece(graph, residency, sharing)


def test_a_piece_of_padding_alone_may_run_first() -> None:
    """It reads nothing: beside the image, only what it writes itself is live at the first step."""
    graph = Graph(
        "padded",
        (
            Tensor("x", shape=(10, 4), dtype="int8", kind="input"),
            Tensor("t", shape=(10, 4), dtype="int8"),
            Tensor("y", shape=(12, 4), dtype="int8", kind="output"),
        ),
        (
            Op("relu", "relu", ("x",), ("t",), cost=40,
               axes=(Axis("rows", 10, (Window("x", 0), Window("t", 0))),)),
            Op("pad", "pad", ("t",), ("y",), cost=48,
               axes=(Axis("rows", 12, (Window("t", 0, 1, -1, 1), Window("y", 0))),)),
        ),
    )  # fmt: skip
    for outputs, bytes_ in (("keep", 48), ("outside", 40)):
        residency = Residency(outputs=outputs)
        problem = SplitProblem(to_anf(graph), residency, frozenset())
        assert piece_bound.least_piece(graph, residency, ()) == bytes_
        assert least_piece(problem).bytes == bytes_
        plan = solve(graph, split=True, outputs=outputs, time_limit=2)
        assert bytes_ <= plan.lower_bound <= plan.peak


def test_an_input_that_stays_may_lie_in_a_tensor_it_is_copied_to() -> None:
    """While ``read`` runs, ``t`` is live with ``x`` in it, and ``y``: 8 + 2 bytes, not 4 more."""
    graph = Graph(
        "copied",
        (
            Tensor("x", shape=(4,), dtype="int8", kind="input"),
            Tensor("t", shape=(8,), dtype="int8"),
            Tensor("y", shape=(2,), dtype="int8"),
            Tensor("z", shape=(2,), dtype="int8", kind="output"),
        ),
        (
            Op("copy", "concat", ("x",), ("t",), cost=8, placements=(("x", "t", 0),)),
            Op("read", "pool", ("t",), ("y",), cost=8),
            Op("relu", "relu", ("y",), ("z",), cost=2,
               axes=(Axis("rows", 2, (Window("y", 0), Window("z", 0))),)),
        ),
    )  # fmt: skip
    residency, sharing = Residency(inputs="keep"), frozenset({"placement"})
    assert piece_bound.least_piece(graph, residency, sharing) == 10
    assert least_piece(SplitProblem(to_anf(graph), residency, sharing)).bytes == 10
    plan = solve(graph, split=True, in_place=True, inputs="keep", time_limit=2)
    assert plan.lower_bound == plan.peak == 10
