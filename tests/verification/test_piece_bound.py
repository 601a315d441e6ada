"""The bound over every splitting, proved twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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
