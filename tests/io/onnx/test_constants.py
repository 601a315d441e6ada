"""Constants of ONNX models: all that weights and known shapes alone determine."""

from __future__ import annotations

import numpy as np
import pytest
from support.onnx_texts import kinds, model, read, views

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402


def test_what_constants_alone_determine_is_constant() -> None:
    graph = read(
        """g (float[2,3] x) => (float[2,3] y) <float[3] w = {1,2,3}, int64[1] axes = {0}>
        { u = Unsqueeze(w, axes) n = Neg(u) c = Constant<value = float {2.0}>() m = Mul(n, c)
          y = Add(x, m) }"""
    )
    assert [op.name for op in graph.ops] == ["Add_4"]
    assert {name for name, kind in kinds(graph).items() if kind == "constant"} == {
        *("w", "axes", "u", "n", "c", "m")
    }
    assert views(graph) == {"u": "w"}


def test_an_initializer_listed_as_input_is_a_constant() -> None:
    loaded = model("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    loaded.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    assert kinds(read_onnx(loaded)) == {"w": "constant", "x": "input", "y": "output"}


def test_a_sparse_initializer_is_a_constant_of_its_dense_size() -> None:
    loaded = model("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    values = numpy_helper.from_array(np.array([7], np.float32), "w")
    indices = numpy_helper.from_array(np.array([2], np.int64))
    loaded.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    tensor = read_onnx(loaded).tensor["w"]
    assert (tensor.kind, tensor.nbytes) == ("constant", 16)


def test_a_large_mask_is_a_constant() -> None:
    loaded = model("g (float[80,80] x) => (float[80,80] y) { y = Where(mask, x, x) }")
    loaded.graph.initializer.append(numpy_helper.from_array(np.tri(80, dtype=bool), "mask"))
    tensor = read_onnx(loaded).tensor["mask"]
    assert (tensor.kind, tensor.nbytes) == ("constant", 80 * 80)


@pytest.mark.parametrize(
    "node",
    ["RandomNormal<shape=[4]>()", "RandomNormalLike(w)", "Bernoulli(w)", "Dropout(w, r, yes)"],
)
def test_random_ops_are_neither_constant_nor_recomputable(node: str) -> None:
    graph = read(
        f"""g (float[4] x) => (float[4] y)
        <float[4] w = {{1,2,3,4}}, float r = {{0.5}}, bool yes = {{1}}>
        {{ t = {node} y = Add(x, t) }}"""
    )
    assert [op.recomputable for op in graph.ops] == [False, True]
    assert kinds(graph)["t"] == "intermediate"


def test_random_ops_without_a_seed_keep_their_order() -> None:
    graph = read(
        """g (float[4] x, bool c) => (float[4] y) <float r = {0.5}, bool yes = {1}, bool no = {0}>
        { a = RandomNormalLike(x) b = RandomUniformLike<seed=1.0>(x) d = Dropout(x, r, yes)
          e = Dropout(x, r, no)
          f = If(c) <then_branch = t () => (float[4] p) { p = RandomNormalLike(x) },
                     else_branch = o () => (float[4] q) { q = RandomNormalLike<seed=2.0>(x) }>
          y = Sum(a, b, d, e, f) }"""
    )
    assert [op.sequence for op in graph.ops] == ["random", None, "random", None, "random", None]
    assert graph.predecessors[:5] == ((), (), (0,), (), (2,))
    assert [body.ops[0].sequence for body in graph.op["If_4"].bodies] == ["random", None]


def test_the_shape_of_a_known_tensor_is_constant_and_so_is_all_that_follows() -> None:
    graph = read(
        """g (float[N,3,4] x) => (float[A,B] y) <int64 zero = {0}, int64[1] minus = {-1},
        int64[1] axes = {0}>
        { s = Shape(x) n = Gather(s, zero) n1 = Unsqueeze(n, axes)
          target = Concat<axis=0>(n1, minus) y = Reshape(x, target) }""",
        N=5,
    )
    assert [op.kind for op in graph.ops] == ["Reshape"]
    assert graph.tensor["y"].shape == (5, 12)


def test_asking_for_a_shape_keeps_no_tensor_alive() -> None:
    graph = read(
        """g (float[2,3] x, bool c) => (int64[1] y, int64 z) { t = Exp(x) z = Size(t)
        y = If(c) <then_branch = a () => (int64[1] p) { p = Shape<start = 1>(t) },
                   else_branch = b () => (int64[1] q) { q = Shape<end = -1>(t) }> }"""
    )
    assert kinds(graph)["z"] == "constant"
    assert graph.op["If_2"].inputs == ("c",)


def test_shape_arithmetic_beyond_inference_is_computed() -> None:
    # What exporters write for expand(-1, 4): Where(Equal(shape, -1), ones, shape).
    graph = read(
        """g (float[N,1] x) => (float[A,B] y)
        <int64[2] wanted = {-1, 4}, int64[2] minus = {-1, -1}, int64[1] two = {2}>
        { ones = ConstantOfShape<value = int64[1] {1}>(two) same = Equal(wanted, minus)
          target = Where(same, ones, wanted) e = Expand(x, target) y = Neg(e) }""",
        N=6,
    )
    assert [op.kind for op in graph.ops] == ["Expand", "Neg"]
    assert graph.tensor["y"].shape == (6, 4)
