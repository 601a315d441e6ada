"""Ifs that are folded: written out as the branch that bound shapes choose."""

from __future__ import annotations

import numpy as np
import pytest
from support.onnx_texts import model, read

import cpplan
from cpplan.io.execution import execute

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.reorder import reorder_onnx  # noqa: E402
from cpplan.io.onnx.symbolic import read_symbolic_onnx  # noqa: E402

# torchscript's ``x.squeeze(1)``: nothing is squeezed where the axis has more than one element.
SQUEEZE = """g (float[N,C,4] x) => (float[] y) <int64 one = {1}, int64 axis = {1}> {
    s = Shape(x)
    c = Gather(s, axis)
    same = Equal(c, one)
    e = Exp(x)
    t = If (same) <
        then_branch = a () => (float[D,E] p) <int64[1] axes = {1}> { p = Squeeze(e, axes) },
        else_branch = b () => (float[F,G,H] q) { q = Identity(e) }
    >
    y = Neg(t)
}"""

# Twice the same branch, with inner names of its own, and a branch within the branch.
TWICE = """g (float[N,4] x) => (float[A,B] y) <int64 one = {1}, int64 zero = {0}> {
    s = Shape(x)
    n = Gather(s, zero)
    single = Equal(n, one)
    u = If (single) <
        then_branch = a () => (float[D,E] p) { h = Exp(x) p = Neg(h) },
        else_branch = b () => (float[F,G] q) { h = Abs(x) q = Neg(h) }
    >
    v = If (single) <
        then_branch = c () => (float[H,I] r) { h = Exp(u) r = Neg(h) },
        else_branch = d () => (float[J,K] w) {
            h = Abs(u)
            k = Add(h, x)
            w = If (single) <
                then_branch = e () => (float[L,M] o) { o = Exp(k) },
                else_branch = f () => (float[O,P] z) { j = Abs(k) z = Add(j, h) }
            >
        }
    >
    y = Relu(v)
}"""


@pytest.mark.parametrize(("channels", "shape"), [(1, (3, 4)), (2, (3, 2, 4))])
def test_a_squeeze_of_torchscript_is_the_branch_its_shape_chooses(
    channels: int, shape: tuple[int, ...]
) -> None:
    loaded, dims = model(SQUEEZE), {"N": 3, "C": channels}
    graph = read_onnx(loaded, dims)
    kept = ["Exp", "Squeeze" if channels == 1 else "Identity", "Neg"]
    assert [op.kind for op in graph.ops] == kept
    assert graph.tensor["y"].shape == shape
    assert graph.tensor["t"].view_of == ("e", 0)
    plan = cpplan.solve(graph, in_place=True)
    assert plan.peak == 3 * channels * 16  # everything in place
    execute(loaded, plan, dims=dims)


def test_branches_with_names_in_common_are_told_apart() -> None:
    loaded, dims = model(TWICE), {"N": 2}
    graph = read_onnx(loaded, dims)
    assert [op.kind for op in graph.ops] == ["Abs", "Neg", "Abs", "Add", "Abs", "Add", "Relu"]
    assert len(graph.tensor) == len({t.name for t in graph.tensors})
    execute(loaded, cpplan.solve(graph), dims=dims)
    assert [op.kind for op in read(TWICE, N=1).ops] == ["Exp", "Neg", "Exp", "Neg", "Relu"]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_model_written_in_another_order_has_the_branches_taken(rows: int) -> None:
    loaded, dims = model(TWICE), {"N": rows}
    graph = read_onnx(loaded, dims)
    plan = cpplan.solve(graph, order="search")
    assert plan.order is not None
    written = reorder_onnx(loaded, plan.order, dims)
    onnx.checker.check_model(written)
    assert all(node.op_type != "If" for node in written.graph.node)
    again = read_onnx(written)
    assert [op.name for op in again.ops] == list(plan.order)
    cpplan.verify(again, plan)
    x = np.linspace(-1, 1, rows * 4, dtype=np.float32).reshape(rows, 4)
    (theirs,) = ReferenceEvaluator(loaded).run(None, {"x": x})
    (ours,) = ReferenceEvaluator(written).run(None, {"x": x})
    assert np.array_equal(ours, theirs)


def test_an_if_within_a_body_is_folded_there() -> None:
    graph = read(
        """g (bool c, float[N,4] x) => (float[A,B] y) <int64 one = {1}, int64 zero = {0}> {
        s = Shape(x)
        n = Gather(s, zero)
        single = Equal(n, one)
        y = If (c) <
            then_branch = a () => (float[D,E] p) {
                p = If (single) <
                    then_branch = t () => (float[H,I] r) { r = Exp(x) },
                    else_branch = u () => (float[J,K] o) { o = Abs(x) }
                >
            },
            else_branch = b () => (float[F,G] q) { q = Relu(x) }
        > }""",
        N=3,
    )
    (op,) = graph.ops
    assert [[inner.kind for inner in body.ops] for body in op.bodies] == [["Abs"], ["Relu"]]


def test_a_branch_that_hands_on_what_it_captures_is_a_view_of_it() -> None:
    graph = read(
        """g (float[2,4] x) => (float[A,B] y) <bool yes = {1}> {
        t = Exp(x)
        u = If (yes) <
            then_branch = a () => (float[D,E] t) {},
            else_branch = b () => (float[F,G] q) { q = Relu(x) }
        >
        y = Neg(u) }"""
    )
    assert [op.kind for op in graph.ops] == ["Exp", "Identity", "Neg"]
    assert graph.tensor["u"].view_of == ("t", 0)


def test_an_if_that_sizes_decide_is_folded_only_where_all_sizes_agree() -> None:
    """Two channels decide the first model's branch for all N; the second's depends on N."""
    fixed = read_symbolic_onnx(model(SQUEEZE), {"N": (1, 5), "C": 2})
    assert [op.kind for op in fixed.ops] == ["Exp", "Identity", "Neg"]
    assert fixed.symbols is not None
    assert not fixed.symbols.lost
    assert str(fixed.symbols.shapes["y"][0]) == "N"
    varying = read_symbolic_onnx(model(TWICE), {"N": (1, 5)})
    assert [op.kind for op in varying.ops] == ["If", "If", "Relu"]


def test_an_if_of_run_time_stays() -> None:
    text = """g (float[4] x, bool c) => (float[A] y) { y = If (c) <
        then_branch = a () => (float[D] p) { p = Exp(x) },
        else_branch = b () => (float[F] q) { q = Relu(x) }> }"""
    assert [op.kind for op in read(text).ops] == ["If"]
