"""The ONNX reader: dimensions, constants, views, names and types, and what is refused of them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from support.onnx_texts import kinds, model, read, refusal, views

import cpplan
from cpplan.cli.options import parse_dims
from cpplan.io.execution import execute
from cpplan.model.errors import InputError
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.names import unique_names  # noqa: E402
from cpplan.io.onnx.reorder import reorder_onnx  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


# --- dimensions ----------------------------------------------------------------------------------


def test_a_bound_dimension_reaches_what_inference_would_lose() -> None:
    graph = read(
        """g (float[N,3,H,8] x, float[2,3,3,3] w) => (float[N,2,unknown,6] y)
        { c = Conv(x, w) y = Relu(c) }""",
        N=8,
        H=10,
    )
    assert graph.tensor["c"].shape == graph.tensor["y"].shape == (8, 2, 8, 6)


def test_a_stale_symbolic_shape_of_an_inner_tensor_is_found_again() -> None:
    loaded = model("g (float[N] x) => (float[M] y) { t = Relu(x) y = Concat<axis=0>(t, t) }")
    loaded.graph.value_info.append(
        helper.make_tensor_value_info("t", TensorProto.FLOAT, ["something"])
    )
    graph = read_onnx(loaded, {"N": 5})
    assert graph.tensor["t"].shape == (5,)
    assert graph.tensor["y"].shape == (10,)


def test_unbound_dimensions_are_named_at_once_with_options_that_bind_them() -> None:
    text = "g (float[N,3,H] x, float[N,a] z) => (float[A,B,C] y) { y = Relu(x) }"
    loaded = model(text)
    loaded.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "my size"
    message = refusal(loaded)
    assert "dimensions 'N', 'H', 'my size' are unbound" in message
    assert "--dim N=1 --dim H=64 --dim 'my size=64'" in message
    assert "dims={'N': 1, 'H': 64, 'my size': 64}" in message
    assert "--dim N=1..128" in message
    assert "dimensions 'N', 'my size' are unbound" in refusal(loaded, H=5)


@pytest.mark.parametrize(
    ("body", "extent"),
    [
        ("y = Conv<kernel_shape = [100]>(x, w)", 128),
        ("y = MaxPool<kernel_shape = [200]>(x)", 256),
        ("y = MaxPool<kernel_shape = [40], dilations = [20]>(x)", 1024),
        ("y = MaxPool<kernel_shape = [99999]>(x)", 64),
    ],
)
def test_suggested_extents_have_room_for_windows(body: str, extent: int) -> None:
    message = refusal(f"g (float[N,1,T] x, float[2,1,100] w) => (float[A,B,C] y) {{ {body} }}")
    assert f"--dim N=1 --dim T={extent} (dims=" in message


def test_the_options_of_the_error_line_bind_the_model() -> None:
    loaded = model(
        """g (float[N,T] x, int64 n) => (float[A] y, float[R,B] s)
        <bool go = {1}, int64[1] one = {1}, int64[1] axis = {1}> {
        z = Unsqueeze(x, one)
        p = MaxPool<kernel_shape = [90], strides = [90]>(z)
        q = Squeeze(p, axis)
        y, s = Loop(n, go, q) <body = b (int64 i, bool c, float[] v) =>
            (bool c, float[] w, float[] r) { w = Exp(v) r = Neg(w) }> }"""
    )
    loaded.graph.output[0].type.tensor_type.ClearField("shape")
    loaded.graph.output[1].type.tensor_type.ClearField("shape")
    loaded.graph.input[0].type.tensor_type.shape.dim[1].ClearField("dim_param")
    line = re.search(r"e\.g\. (--dim .*?) \(dims=", refusal(loaded))
    assert line is not None
    dims = parse_dims(tuple(word for word in shlex.split(line[1]) if word != "--dim"))
    assert dims == {"N": 1, "x[1]": 128, "Loop_3[turns]": 8}
    graph = read_onnx(loaded, dims)  # type: ignore[arg-type]
    inputs = {"n": np.array(8)}
    execute(loaded, cpplan.solve(graph), dims=dims, inputs=inputs)  # type: ignore[arg-type]


def test_a_window_larger_than_its_input_is_refused() -> None:
    text = "g (float[1,1,T] x) => (float[A,B,C] y) { y = MaxPool<kernel_shape = [9]>(x) }"
    message = refusal(text, T=8)
    assert "op 'MaxPool_0' (MaxPool): its window of 9 along axis 2 does not fit into" in message
    assert read(text, T=9).tensor["y"].shape == (1, 1, 1)
    branch = """g (bool c, float[1,1,T] x) => (float[A,B,C] y) { y = If (c) <
        then_branch = t () => (float[D,E,F] p) { p = MaxPool<kernel_shape = [9]>(x) },
        else_branch = e () => (float[G,H,I] q) { q = Relu(x) }> }"""
    read(branch, T=8)  # whether it ever slides is only known at run time


@pytest.mark.parametrize("stored", [None, -1, "?"])
def test_axes_without_a_name_are_bound_by_input_and_axis(stored: object) -> None:
    loaded = model("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    for value in (*loaded.graph.input, *loaded.graph.output):
        dim = value.type.tensor_type.shape.dim[1]
        dim.ClearField("dim_value")
        if isinstance(stored, int):
            dim.dim_value = stored
        elif stored is not None:
            dim.dim_param = str(stored)
    assert "--dim 'x[1]=64'" in refusal(loaded)
    graph = read_onnx(loaded, {"x[1]": 3})
    assert graph.tensor["y"].shape == (2, 3)
    symbolic = cpplan.load(loaded, dims={"x[1]": (1, 5)})
    assert symbolic.symbols is not None
    assert str(symbolic.symbols.shapes["y"][1]) == "`x[1]`"
    written = reorder_onnx(loaded, ["Relu_0"], {"x[1]": 3})
    assert written.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 3


def test_an_axis_stored_as_zero_can_be_bound() -> None:
    loaded = model("g (float[0,3] x) => (float[M,3] y) { y = Relu(x) }")
    assert read_onnx(loaded).tensor["y"].shape == (0, 3)
    assert read_onnx(loaded, {"x[0]": 2}).tensor["y"].shape == (2, 3)


def test_an_input_of_one_integer_can_be_given_its_value() -> None:
    """The rate decides which branch runs; the other has no room for its window."""
    loaded = model(
        """g (float[1,1,8] x, int64 rate) => (float[A,B,C] y) <int64 high = {16}> {
        fast = Equal(rate, high)
        y = If (fast) <
            then_branch = t () => (float[D,E,F] p) { p = MaxPool<kernel_shape = [9]>(x) },
            else_branch = e () => (float[G,H,I] q) { q = MaxPool<kernel_shape = [3]>(x) }> }"""
    )
    graph = read_onnx(loaded, {"rate": 8})
    assert [op.kind for op in graph.ops] == ["MaxPool"]
    assert graph.tensor["y"].shape == (1, 1, 6)
    execute(loaded, cpplan.solve(graph), dims={"rate": 8})
    with pytest.raises(InputError, match="its window of 9"):
        read_onnx(loaded, {"rate": 16})


def test_names_that_outputs_repeat_are_labels() -> None:
    """Exporters call a row of scores by the batch's name; runtimes do not mind."""
    text = "g (float[N,3] x) => (float[N] y) <int64[1] axis = {0}> { y = ReduceSum<keepdims=0>"
    graph = read(text + "(x, axis) }", N=1)
    assert graph.tensor["y"].shape == (3,)


def test_a_dimension_that_the_model_lacks_is_refused_with_those_it_has() -> None:
    text = "g (float[N,S] x) => (float[N,S] y) { y = Relu(x) }"
    assert "no symbolic dimension 'B': it has N, S" in refusal(text, N=1, S=2, B=3)
    fixed = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    assert "no symbolic dimension 'B': it has none" in refusal(fixed, B=3)


@pytest.mark.parametrize("extent", [-1, 2.5, True, "8"])
def test_an_extent_that_is_no_count_is_refused(extent: object) -> None:
    loaded = model("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    with pytest.raises(InputError, match="dimension 'N' must be a non-negative integer"):
        read_onnx(loaded, {"N": extent})  # type: ignore[dict-item]


def test_an_input_without_a_shape_is_named() -> None:
    loaded = model("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    loaded.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(InputError, match="input 'x' has no shape"):
        read_onnx(loaded)


def test_a_shape_that_depends_on_values_names_tensor_and_op() -> None:
    message = refusal("g (float[4] x) => (int64[1,K] y) { t = Relu(x) y = NonZero(t) }")
    assert "tensor 'y' written by op 'NonZero_1' has an unknown shape" in message


# --- constants -----------------------------------------------------------------------------------


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


# --- views ---------------------------------------------------------------------------------------


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


# --- boundary and names --------------------------------------------------------------------------


def test_an_input_handed_back_is_an_output_without_producer() -> None:
    graph = read("g (float[4] x) => (float[4] x, float[4] y) { y = Exp(x) }")
    assert kinds(graph) == {"x": "output", "y": "output"}


def test_a_constant_handed_back_stays_a_constant() -> None:
    graph = read(
        "g (float[2] x) => (float[2] y, float[2] w) <float[2] w = {1,2}> { y = Add(x, w) }"
    )
    assert kinds(graph)["w"] == "constant"


def test_optional_inputs_and_unnamed_outputs_are_left_out() -> None:
    nodes = [
        helper.make_node("Clip", ["x", "", "high"], ["c"]),
        helper.make_node("Split", ["c"], ["", "b"], axis=0),
    ]
    values = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [values("x", TensorProto.FLOAT, [4])],
        [values("b", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.float32(6), "high")],
    )
    read_back = read_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))
    assert [(op.inputs, op.outputs) for op in read_back.ops] == [
        (("x", "high"), ("c",)),
        (("c",), ("b",)),
    ]


def test_all_outputs_of_an_op_are_kept() -> None:
    graph = read(
        "g (float[4] x) => (float[2] a) { a, b = Split<axis=0>(x) }",
        opset=13,
    )
    assert graph.op["Split_0"].outputs == ("a", "b")
    assert (kinds(graph)["a"], kinds(graph)["b"]) == ("output", "intermediate")


def test_names_of_ops_are_unique_and_deterministic() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Exp", ["a"], ["b"], name="Relu_0"),
        helper.make_node("Exp", ["b"], ["c"], name="n"),
        helper.make_node("Exp", ["c"], ["d"], name="n"),
        helper.make_node("Exp", ["d"], ["e"], name="n_1"),
        helper.make_node("Exp", ["e"], ["f"], name="n"),
        helper.make_node("Neg", ["f"], ["y"]),
    ]
    names = ["Relu_0_1", "Relu_0", "n", "n_2", "n_1", "n_3", "Neg_6"]
    assert unique_names(nodes) == names


def test_a_tensor_read_before_it_is_written_is_named() -> None:
    message = refusal("g (float[4] x) => (float[4] y) { y = Relu(t) t = Exp(x) }")
    assert "tensor 't': op 'Relu_0' reads it before anything defines it" in message


def test_a_tensor_written_twice_is_named() -> None:
    loaded = model("g (float[4] x) => (float[4] y) { y = Relu(x) z = Exp(x) }")
    loaded.graph.node[1].output[0] = "y"
    with pytest.raises(InputError, match="'y'"):
        read_onnx(loaded)


# --- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "nbytes"),
    [
        (TensorProto.FLOAT, 20),
        (TensorProto.DOUBLE, 40),
        (TensorProto.FLOAT16, 10),
        (TensorProto.BFLOAT16, 10),
        (TensorProto.FLOAT8E4M3FN, 5),
        (TensorProto.FLOAT8E5M2FNUZ, 5),
        (TensorProto.INT4, 3),
        (TensorProto.UINT4, 3),
        (TensorProto.FLOAT4E2M1, 3),
        (TensorProto.BOOL, 5),
        (TensorProto.INT64, 40),
        (TensorProto.COMPLEX64, 40),
    ],
)
def test_five_elements_of_each_type(element: int, nbytes: int) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [value("x", element, [5])],
        [value("y", element, [5])],
    )
    opset = [helper.make_opsetid("", 23)]
    assert read_onnx(helper.make_model(graph, opset_imports=opset)).tensor["x"].nbytes == nbytes


def test_strings_are_refused_unless_constant() -> None:
    assert "tensor 'x' holds strings" in refusal(
        "g (string[2] x) => (string[2] y) { y = Identity(x) }"
    )
    graph = read(
        """g (float[2] x) => (float[2] y)
        { s = Constant<value = string[1] {"note"}>() y = my.Tagged(x, s) }""".replace(
            "my.Tagged(x, s)", "Exp(x)"
        )
    )
    assert set(graph.tensor) == {"x", "y"}


@pytest.mark.parametrize(
    ("declaration", "word"), [("seq(float[2])", "sequence"), ("optional(float[2])", "optional")]
)
def test_sequences_and_optionals_are_refused(declaration: str, word: str) -> None:
    message = refusal(f"g ({declaration} x) => ({declaration} y) {{ y = Identity(x) }}")
    assert f"tensor 'x' holds a {word}" in message


def test_an_empty_sequence_is_refused_as_one() -> None:
    # The kernel's empty list must not be folded into an empty constant.
    message = refusal(
        """g (float[2] x) => (float[2] y) { s = SequenceEmpty() t = SequenceInsert(s, x)
        y = ConcatFromSequence<axis = 0>(t) }"""
    )
    assert "tensor 's' written by op 'SequenceEmpty_0' holds a sequence" in message


def test_an_unknown_operator_is_named_with_its_tensor() -> None:
    message = refusal("g (float[2] x) => (float[2] y) { t = my.Odd(x) y = Exp(t) }")
    assert "tensor 't' written by op 'Odd_0'" in message


def test_an_unknown_operator_is_fine_where_the_model_declares_its_shapes() -> None:
    graph = read("g (float[2] x) => (float[2] y) <float[2] t> { t = my.Odd(x) y = Exp(t) }")
    assert [op.kind for op in graph.ops] == ["Odd", "Exp"]


# --- real models ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ops", "peak"),
    [
        # AlexNet's first convolution: its output and the Relu's, 96 x 54 x 54 floats each.
        ("light_bvlc_alexnet", 24, 2 * 96 * 54 * 54 * 4),
        ("light_vgg19", 46, 2 * 64 * 224 * 224 * 4),
        # The residual add after the first stage: two operands and the sum, 256 x 56 x 56 floats.
        ("light_resnet50", 176, 3 * 256 * 56 * 56 * 4),
    ],
)
def test_live_bytes_of_light_models(name: str, ops: int, peak: int) -> None:
    graph = read_onnx(LIGHT / f"{name}.onnx")
    assert len(graph.ops) == ops
    assert to_problem(to_anf(graph)).live_bytes().max() == peak
