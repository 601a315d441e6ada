"""Views of ONNX models: ops that move no bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.onnx_texts import kinds, read, views

from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

onnx = pytest.importorskip("onnx")

from cpplan.io.onnx.model import read_onnx  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.parametrize(
    ("node", "is_view"),
    [
        ("Reshape(t, shape)", True),
        ("Flatten(t)", True),
        ("Squeeze(t)", True),
        ("Unsqueeze(t, axes)", True),
        ("Identity(t)", True),
        ("Dropout(t)", True),
        ("Dropout(t, ratio, no)", True),
        ("Dropout(t, ratio, yes)", False),
        ("Dropout(t, ratio, unsure)", False),
        ("Cast<to = 1>(t)", True),
        ("Cast<to = 11>(t)", False),
        ("Transpose<perm = [1,0,2]>(t)", True),
        ("Transpose<perm = [0,2,1]>(t)", False),
        ("Transpose(t)", False),
        ("Relu(t)", False),
    ],
)
def test_only_what_moves_no_bytes_is_a_view(node: str, is_view: bool) -> None:
    # t is 1 x 2 x 3: only its first axis may move.
    result = "double" if "to = 11" in node else "float"
    graph = read(
        f"""g (float[1,2,3] x, bool unsure) => ({result} y)
        <int64[2] shape = {{3,2}}, int64[1] axes = {{0}}, float ratio = {{0.5}}, bool no = {{0}},
        bool yes = {{1}}>
        {{ t = Exp(x) v = {node} y = ReduceSum<keepdims=0>(v) }}"""
    )
    assert views(graph) == ({"v": "t"} if is_view else {})
    assert [op.kind for op in graph.ops] == ["Exp", node.split("(")[0].split("<")[0], "ReduceSum"]


@pytest.mark.parametrize(("attribute", "is_view"), [("<is_test = 1>", True), ("", False)])
def test_an_old_dropout_says_itself_that_it_is_a_test(attribute: str, is_view: bool) -> None:
    graph = read(
        f"g (float[4] x) => (float[4] y) {{ t = Exp(x) y = Dropout{attribute}(t) }}", opset=6
    )
    assert views(graph) == ({"y": "t"} if is_view else {})
    assert graph.op["Dropout_1"].recomputable is is_view


def test_the_mask_of_a_dropout_is_a_tensor_where_somebody_reads_it() -> None:
    graph = read("g (float[4] x) => (float[4] y, bool[4] m) { t = Exp(x) y, m = Dropout(t) }")
    assert graph.op["Dropout_1"].outputs == ("y", "m")
    assert (graph.tensor["m"].nbytes, views(graph)) == (4, {"y": "t"})


def test_two_outputs_may_share_their_bytes() -> None:
    graph = read(
        """g (float[4] x) => (float[4] y, float[2,2] z) <int64[2] s = {2,2}>
        { y = Exp(x) z = Reshape(y, s) }"""
    )
    assert (kinds(graph)["y"], kinds(graph)["z"]) == ("output", "output")
    problem = to_problem(to_anf(graph))
    assert list(problem.names) == ["x", "y"]


def test_a_view_of_a_graph_input() -> None:
    graph = read("g (float[4] x) => (float[4] y) { y = Identity(x) }")
    assert views(graph) == {"y": "x"}


def test_shufflenet_shuffles_with_transposes_that_move_bytes() -> None:
    graph = read_onnx(LIGHT / "light_shufflenet.onnx")
    outputs = {op.outputs[0]: op.kind for op in graph.ops}
    by_kind = [outputs[name] for name in views(graph) if name in outputs]
    assert set(by_kind) == {"Reshape"}
    assert len(by_kind) == 33
    assert sum(op.kind == "Transpose" for op in graph.ops) == 16
