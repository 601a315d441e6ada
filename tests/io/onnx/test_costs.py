"""Costs and marks of ONNX nodes, by hand and against published figures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpplan.io.onnx.costs import einsum_operations
from cpplan.model.graph import Graph

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
DATASETS = Path(__file__).resolve().parents[3] / "datasets"


def read(text: str, *, opset: int = 17) -> Graph:
    domains = f'"" : {opset}, "my" : 1, "ai.onnx.preview.training" : 1'
    return read_onnx(parser.parse_model(f"<ir_version: 8, opset_import: [{domains}]> {text}"))


def costs(text: str, *, opset: int = 17) -> list[int | float]:
    """Costs of all ops, in the order of the file."""
    return [op.cost for op in read(text, opset=opset).ops]


def cost(text: str, *, opset: int = 17) -> int | float:
    (only,) = costs(text, opset=opset)
    return only


# --- convolutions --------------------------------------------------------------------------------


def test_a_convolution_with_groups_strides_dilation_and_padding() -> None:
    # The window reaches over 2 * (3 - 1) + 1 = 5, of 9 + 2 * 1: (11 - 5) // 2 + 1 = 4 places along
    # each axis. Each of the 6 * 4 * 4 results is a sum over 4 / 2 channels of 3 x 3.
    text = """g (float[1, 4, 9, 9] x, float[6, 2, 3, 3] w, float[6] b) => (float[1, 6, 4, 4] y) {
        y = Conv <group = 2, strides = [2, 2], dilations = [2, 2], pads = [1, 1, 1, 1]> (x, w, b)
    }"""
    assert cost(text) == 2 * (6 * 4 * 4) * (2 * 3 * 3) == 3456


def test_a_bias_is_where_the_sum_begins() -> None:
    with_bias = "g (float[1, 1, 3] x, float[1, 1, 2] w, float[1] b) => (float[1, 1, 2] y)"
    without = "g (float[1, 1, 3] x, float[1, 1, 2] w) => (float[1, 1, 2] y)"
    assert cost(f"{with_bias} {{ y = Conv(x, w, b) }}") == 8
    assert cost(f"{without} {{ y = Conv(x, w) }}") == 8


def test_a_depthwise_convolution() -> None:
    text = """g (float[2, 8, 6] x, float[8, 1, 3] w) => (float[2, 8, 4] y)
        { y = Conv <group = 8> (x, w) }"""
    assert cost(text) == 2 * (2 * 8 * 4) * 3


def test_a_transposed_convolution_spreads_each_element_of_its_input() -> None:
    # 3 * 4 elements of 2 channels meet 5 / 1 channels of 2 x 2 taps, whatever the strides.
    text = """g (float[1, 2, 3, 4] x, float[2, 5, 2, 2] w) => (float[1, 5, 6, 8] y)
        { y = ConvTranspose <strides = [2, 2]> (x, w) }"""
    assert cost(text) == 2 * (2 * 3 * 4) * (5 * 2 * 2)


def test_quantised_convolutions_count_like_others() -> None:
    shapes = "uint8[1, 3, 5, 5] x, uint8[4, 3, 2, 2] w"
    plain = f"g ({shapes}) => (int32[1, 4, 4, 4] y) {{ y = ConvInteger(x, w) }}"
    linear = f"""g ({shapes}, float s, uint8 z) => (uint8[1, 4, 4, 4] y)
        {{ y = QLinearConv(x, s, z, w, s, z, s, z) }}"""
    assert cost(plain) == cost(linear) == 2 * (4 * 4 * 4) * (3 * 2 * 2)


# --- matrix products -----------------------------------------------------------------------------


@pytest.mark.parametrize("a", ["[2, 5] a", "[5, 2] a"])
@pytest.mark.parametrize("b", ["[5, 3] b", "[3, 5] b"])
def test_gemm_with_transposes(a: str, b: str) -> None:
    turned = f"transA = {int(a == '[5, 2] a')}, transB = {int(b == '[3, 5] b')}"
    text = f"g (float{a}, float{b}, float[3] c) => (float[2, 3] y)"
    assert cost(f"{text} {{ y = Gemm <{turned}> (a, b, c) }}") == 2 * (2 * 3) * 5


@pytest.mark.parametrize(
    ("a", "b", "y", "expected"),
    [
        ("[2, 5]", "[5, 3]", "[2, 3]", 2 * 6 * 5),
        ("[4, 1, 2, 5]", "[7, 5, 3]", "[4, 7, 2, 3]", 2 * (4 * 7 * 6) * 5),
        ("[5]", "[5, 3]", "[3]", 2 * 3 * 5),
        ("[2, 5]", "[5]", "[2]", 2 * 2 * 5),
        ("[5]", "[5]", "", 2 * 5),
        ("[2, 0]", "[0, 3]", "[2, 3]", 0),
    ],
)
def test_matrix_products_are_batched_and_broadcast(a: str, b: str, y: str, expected: int) -> None:
    text = f"g (float{a} a, float{b} b) => (float{y} y) {{ y = MatMul(a, b) }}"
    assert cost(text) == expected


def test_quantised_matrix_products() -> None:
    text = """g (uint8[2, 5] a, uint8[5, 3] b, float s, uint8 z) => (int32[2, 3] y, uint8[2, 3] q)
        { y = MatMulInteger(a, b)  q = QLinearMatMul(a, s, z, b, s, z, s, z) }"""
    assert costs(text) == [60, 60]


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)], 2 * 30),
        ("ij,jk", [(2, 3), (3, 5)], 2 * 30),
        ("bij, bjk -> bik", [(4, 2, 3), (4, 3, 5)], 2 * 120),
        ("...ij,...jk->...ik", [(4, 1, 2, 3), (7, 3, 5)], 2 * 4 * 7 * 30),
        ("...ij,...jk", [(4, 2, 3), (4, 3, 5)], 2 * 120),
        ("...i->i", [(4, 2, 3)], 24),
        ("i,j->ij", [(2,), (3,)], 6),
        ("ij->ji", [(2, 3)], 6),
        ("ii->i", [(3, 3)], 3),
        ("ii", [(3, 3)], 3),
        ("ij,ij->", [(2, 3), (1, 3)], 2 * 6),
        ("i,i,i->", [(4,), (4,), (4,)], 3 * 4),
        ("a,b,c->abc", [(2,), (3,), (4,)], 2 * 24),
    ],
)
def test_einsum_counts_its_operations(
    equation: str, shapes: list[tuple[int, ...]], expected: int
) -> None:
    assert einsum_operations(equation, shapes) == expected


def test_einsum_in_a_model() -> None:
    text = """g (float[2, 3] a, float[3, 5] b) => (float[2, 5] y)
        { y = Einsum <equation = "ij,jk->ik"> (a, b) }"""
    assert cost(text) == 60


@given(st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_an_einsum_that_is_a_matrix_product_costs_as_much(extents: list[int]) -> None:
    i, j, k = extents
    text = f"g (float[{i}, {j}] a, float[{j}, {k}] b) => (float[{i}, {k}] y, float[{i}, {k}] z)"
    product = '{ y = MatMul(a, b)  z = Einsum <equation = "ij,jk->ik"> (a, b) }'
    first, second = costs(f"{text} {product}")
    assert first == second == 2 * i * j * k


# --- attention, recurrence -----------------------------------------------------------------------

# 2 sentences of 3 tokens, 4 heads of 5 elements; keys and values for 6 tokens, values of 7: scores
# are sums of 5, softmax 5 for each, results are sums of 6.
SCORES = 2 * 4 * 3 * 6
ATTENTION = SCORES * (2 * 5 + 5) + 2 * (2 * 4 * 3 * 7) * 6


def test_attention_with_an_axis_of_heads() -> None:
    text = """g (float[2, 4, 3, 5] q, float[2, 4, 6, 5] k, float[2, 4, 6, 7] v)
        => (float[2, 4, 3, 7] y) { y = Attention(q, k, v) }"""
    assert cost(text, opset=23) == ATTENTION


def test_attention_with_heads_and_their_elements_on_one_axis() -> None:
    text = """g (float[2, 3, 20] q, float[2, 6, 20] k, float[2, 6, 28] v) => (float[2, 3, 28] y)
        { y = Attention <q_num_heads = 4, kv_num_heads = 4> (q, k, v) }"""
    assert cost(text, opset=23) == ATTENTION


def test_attention_to_what_is_cached() -> None:
    text = """g (float[2, 4, 3, 5] q, float[2, 4, 2, 5] k, float[2, 4, 2, 7] v,
               float[2, 4, 4, 5] pk, float[2, 4, 4, 7] pv)
        => (float[2, 4, 3, 7] y, float[2, 4, 6, 5] ck, float[2, 4, 6, 7] cv)
        { y, ck, cv = Attention(q, k, v, , pk, pv) }"""
    assert cost(text, opset=23) == ATTENTION


@pytest.mark.parametrize(("kind", "gates", "work"), [("RNN", 1, 1), ("GRU", 3, 8), ("LSTM", 4, 9)])
def test_recurrence_in_both_directions(kind: str, gates: int, work: int) -> None:
    # 7 steps, batch 2, 3 inputs, 5 hidden elements, 2 directions. For each step, sentence and
    # direction: gates x 5 sums over 3 + 5 products, and the gates' work on 5 elements.
    text = f"""g (float[7, 2, 3] x, float[2, {gates * 5}, 3] w, float[2, {gates * 5}, 5] r)
        => (float[2, 2, 5] h)
        {{ _, h = {kind} <hidden_size = 5, direction = "bidirectional"> (x, w, r) }}"""
    text = text.replace("_, h", "y, h")
    assert cost(text) == 7 * 2 * 2 * (2 * gates * 5 * (3 + 5) + work * 5)


def test_peepholes_multiply_the_cell_into_three_gates() -> None:
    text = """g (float[1, 1, 3] x, float[1, 20, 3] w, float[1, 20, 5] r, float[1, 40] b,
               int32[1] n, float[1, 1, 5] h, float[1, 1, 5] c, float[1, 15] p)
        => (float[1, 1, 1, 5] y) { y = LSTM <hidden_size = 5> (x, w, r, b, n, h, c, p) }"""
    assert cost(text) == 2 * 20 * (3 + 5) + (9 + 6) * 5


# --- what is counted by the element --------------------------------------------------------------


def test_pools_take_the_window_for_each_result() -> None:
    text = """g (float[1, 2, 7, 7] x) => (float[1, 2, 3, 3] a, float[1, 2, 3, 3] m,
                                          float[1, 2, 3, 3] l, float[1, 2, 1, 1] s)
        { a = AveragePool <kernel_shape = [3, 2], strides = [2, 2], pads = [0, 0, 0, 0]> (x)
          m, i = MaxPool <kernel_shape = [3, 2], strides = [2, 2]> (x)
          l = LpPool <kernel_shape = [3, 2], strides = [2, 2]> (x)
          s = GlobalAveragePool (x) }"""
    results = 2 * 3 * 3
    assert costs(text) == [6 * results, 6 * results, 12 * results, 2 * 7 * 7]


def test_local_response_normalisation() -> None:
    text = "g (float[1, 8, 3, 3] x) => (float[1, 8, 3, 3] y) { y = LRN <size = 5> (x) }"
    assert cost(text) == (2 * 5 + 4) * 72


@pytest.mark.parametrize(
    ("node", "work"),
    [
        ("y = Softmax(x)", 5),
        ("y = LogSoftmax(x)", 5),
        ("y = LayerNormalization(x, s, s)", 7),
        ("y = InstanceNormalization(x, c, c)", 7),
        ("y = MeanVarianceNormalization <axes = [0, 2]> (x)", 5),
        ("y = LpNormalization(x)", 3),
        ("y = BatchNormalization(x, c, c, c, c)", 2),
        ("y, m, v = BatchNormalization <training_mode = 1> (x, c, c, c, c)", 7),
        ("y = Relu(x)", 1),
        ("y = Erf(x)", 1),
        ("y = Add(x, s)", 1),
        ("y = Sum(x)", 1),
        ("y = Max(x, x, s, x)", 3),
        ("y = my.Unheard(x)", 1),
    ],
)
def test_work_for_each_element(node: str, work: int) -> None:
    text = "g (float[2, 3, 4] x, float[4] s, float[3] c) => (float[2, 3, 4] y)"
    assert cost(f"{text} {{ {node} }}") == work * 24


def test_reductions_read_what_they_reduce() -> None:
    text = """g (float[2, 3, 4] x) => (float[1, 1, 4] a, float[1, 1, 4] b, int64[1, 3, 4] c)
        { a = ReduceMax <axes = [0, 1]> (x)
          b = ReduceL2 <axes = [0, 1]> (x)
          c = ArgMax (x) }"""
    assert costs(text) == [24, 48, 24]


def test_a_copy_costs_its_elements_and_a_view_nothing() -> None:
    text = """g (float[2, 3] x) => (float[3, 2] t, float[4, 3] c, float[6] v, float[2, 1] a)
        <int64[1] shape = {6}, int64[2] parts = {1, 2}>
        { t = Transpose(x)  c = Concat <axis = 0> (x, x)  v = Reshape(x, shape)
          a, b = Split <axis = 1> (x, parts) }"""
    assert costs(text) == [6, 12, 0, 6]


# --- control flow --------------------------------------------------------------------------------


def test_an_if_costs_its_dearer_branch() -> None:
    text = """g (bool c, float[4, 4] x) => (float[4, 4] y) {
        y = If (c) <
            then_branch = a () => (float[4, 4] p) { p = MatMul(x, x) },
            else_branch = b () => (float[4, 4] q) { t = Exp(x) q = Neg(t) }> }"""
    graph = read(text)
    assert [[op.cost for op in body.ops] for body in graph.ops[0].bodies] == [[128], [16, 16]]
    assert graph.ops[0].cost == 128


LOOP = """g (float[4] x, int64 m) => (float[4] y)
    <int64 n = {{{trips}}}, bool go = {{{go}}}> {{
    y = Loop ({count}, go, x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t)
        {{ d = {condition}  u = Exp(s)  t = Neg(u) }}> }}"""


@pytest.mark.parametrize(
    ("trips", "go", "count", "condition", "turns"),
    [
        (5, 1, "n", "Identity(c)", 5),
        (5, 0, "n", "Identity(c)", 0),
        (5, 1, "n", "Not(c)", 1),  # it may end earlier: nobody knows when
        (5, 1, "m", "Identity(c)", 1),
    ],
)
def test_a_loop_costs_its_body_as_often_as_it_runs(
    trips: int, go: int, count: str, condition: str, turns: int
) -> None:
    text = LOOP.format(trips=trips, go=go, count=count, condition=condition)
    body = 8 + (condition == "Not(c)")
    assert cost(text) == turns * body


SCAN = """g (float[4] z, {xs}) => (float[4] last, {ys}) {{
    last, ys = Scan(z, xs) <num_scan_inputs = 1{axes}, body = b (float[4] s, float[4] x) =>
        (float[4] t, float[4] y) {{ t = Add(s, x) y = Exp(t) }}> }}"""


def test_a_scan_costs_its_body_once_for_each_element_of_the_axis() -> None:
    first = SCAN.format(xs="float[5, 4] xs", ys="float[5, 4] ys", axes="")
    last = SCAN.format(xs="float[4, 6] xs", ys="float[6, 4] ys", axes=", scan_input_axes = [-1]")
    assert (cost(first), cost(last)) == (5 * 8, 6 * 8)


def test_a_scan_before_opset_9_runs_for_each_sequence_of_a_batch() -> None:
    text = """g (float[3, 4] z, float[3, 5, 4] xs) => (float[3, 4] last, float[3, 5, 4] ys) {
        last, ys = Scan( , z, xs) <num_scan_inputs = 1, body = b (float[4] s, float[4] x) =>
            (float[4] t, float[4] y) { t = Add(s, x) y = Exp(t) }> }"""
    assert cost(text, opset=8) == 3 * 5 * 8


# --- what may run again --------------------------------------------------------------------------


def recomputable(text: str, *, opset: int) -> list[bool]:
    return [op.recomputable for op in read(text, opset=opset).ops]


NORMALISE = """g (float[1, 3, 2, 2] x, float[3] s, float[3] m, float[3] v)
    => (float[1, 3, 2, 2] y, float[3] n, float[3] w)"""


def test_running_statistics_are_outputs_of_their_own() -> None:
    for opset, saved, mode in ((9, ", p, q", ""), (15, "", "<training_mode = 1>")):
        text = f"{NORMALISE} {{ y, n, w{saved} = BatchNormalization {mode} (x, s, s, m, v) }}"
        assert recomputable(text, opset=opset) == [True]
        assert cost(text, opset=opset) == 7 * 12


def test_before_opset_7_running_statistics_are_updated_in_place() -> None:
    text = f"{NORMALISE} {{ y, n, w, p, q = BatchNormalization(x, s, s, m, v) }}"
    assert recomputable(text, opset=6) == [False]
    at_inference = NORMALISE.replace(", float[3] n, float[3] w", "")
    text = f"{at_inference} {{ y = BatchNormalization <is_test = 1> (x, s, s, m, v) }}"
    assert recomputable(text, opset=6) == [True]


def test_random_ops_never_run_again_not_with_a_seed_either() -> None:
    text = """g (float[4] x, bool train) => (float[4] a, float[4] b, float[4] c)
        <float r = {0.5}> {
        a = Dropout <seed = 7> (x, r, train)
        b = RandomNormalLike <seed = 1.0> (x)
        t = Dropout (x)
        c = Exp (t) }"""
    assert recomputable(text, opset=13) == [False, False, True, True]


def test_optimizers_give_new_weights_and_leave_the_old_ones() -> None:
    text = """g (float r, int64 t, float[8] x, float[8] d, float[8] v)
        => (float[8] x1, float[8] v1) {
        x1, v1 = ai.onnx.preview.training.Momentum
            <alpha = 0.9, beta = 1.0, norm_coefficient = 0.0, mode = "standard"> (r, t, x, d, v)
        }"""
    assert recomputable(text, opset=17) == [True]
    assert cost(text) == 16


# --- whole models --------------------------------------------------------------------------------


def multiply_adds(path: Path) -> float:
    work: Counter[str] = Counter()
    for op in read_onnx(path).ops:
        assert isinstance(op.cost, int)
        work[op.kind] += op.cost
    return (work["Conv"] + work["Gemm"] + work["MatMul"]) / 2


@pytest.mark.parametrize(
    ("file", "billions"),
    # "GFLOPS" in the documentation of torchvision's weights: multiply-adds of convolutions and
    # linear layers, cut or rounded to two digits.
    [
        ("densenet121", 2.83),
        ("inception_v3", 5.71),
        ("mobilenet_v2", 0.30),
        ("resnet50", 4.09),
        ("shufflenet_v2_x1_0", 0.14),
        ("squeezenet1_1", 0.35),
    ],
)
def test_multiply_adds_are_those_that_torchvision_states(file: str, billions: float) -> None:
    counted = multiply_adds(DATASETS / "onnx" / f"{file}.onnx") / 1e9
    assert counted == pytest.approx(billions, abs=0.005)


@pytest.mark.parametrize(
    ("file", "billions", "tolerance"),
    [
        # torchvision, as above.
        ("light_resnet50", 4.09, 0.01),
        # He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016), section 3.3.
        ("light_vgg19", 19.6, 0.01),
        # Sze et al., "Efficient Processing of Deep Neural Networks" (Proc. IEEE 2017), table II:
        # AlexNet at 227 x 227, so that its layers are 55, 27 and 13 wide, not 54, 26 and 12.
        ("light_inception_v1", 1.43, 0.01),
        ("light_bvlc_alexnet", 0.724, 0.1),
    ],
)
def test_multiply_adds_of_light_models(file: str, billions: float, tolerance: float) -> None:
    counted = multiply_adds(LIGHT / f"{file}.onnx") / 1e9
    assert counted == pytest.approx(billions, rel=tolerance)


def test_alexnet_layer_by_layer() -> None:
    graph = read_onnx(LIGHT / "light_bvlc_alexnet.onnx")
    layers = [op.cost for op in graph.ops if op.kind in ("Conv", "Gemm")]
    assert layers == [
        2 * (96 * 54 * 54) * (3 * 11 * 11),
        2 * (256 * 26 * 26) * (48 * 5 * 5),
        2 * (384 * 12 * 12) * (256 * 3 * 3),
        2 * (384 * 12 * 12) * (192 * 3 * 3),
        2 * (256 * 12 * 12) * (192 * 3 * 3),
        2 * 4096 * (256 * 6 * 6),
        2 * 4096 * 4096,
        2 * 1000 * 4096,
    ]


def test_costs_do_not_depend_on_the_weights() -> None:
    made = """g (float[2, 3] x) => (float[2, 4] y) <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1,
        2, 3}> { y = MatMul(x, w) }"""
    assert cost(made) == int(2 * np.prod([2, 3, 4]))
