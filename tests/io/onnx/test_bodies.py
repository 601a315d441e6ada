"""Functions, branches and loops of ONNX models: where their tensors lie, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from support.onnx_texts import kinds, model, read, refusal

import cpplan
from cpplan.io.execution import execute
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.reorder import reorder_onnx  # noqa: E402


def test_local_functions_are_inlined() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[4] x) => (float[4] y) { t = my.twice(x) y = my.twice(t) }
        <domain: "my", opset_import: ["" : 17]> twice (a) => (b) { c = Exp(a) b = Add(c, c) }"""
    graph = read_onnx(parser.parse_model(text))
    assert [op.kind for op in graph.ops] == ["Exp", "Add", "Exp", "Add"]


IF = """g (float[2,3] x, bool c) => (float[A,3] y) {{ t = Relu(x)
    y = If(c) <then_branch = a () => (float[2,3] p) {{ {then} }},
               else_branch = b () => (float[P,3] q) {{ {orelse} }}> }}"""


def test_branches_compute_into_the_output_of_their_if() -> None:
    graph = read(IF.format(then="m = Exp(t) p = Neg(m)", orelse="q = Add(t, x)"))
    op = graph.op["If_1"]
    assert (op.inputs, op.outputs) == (("c", "t", "x"), ("y",))
    then, orelse = op.bodies
    assert kinds(then) == {"t": "input", "m": "intermediate", "y": "output"}
    assert kinds(orelse) == {"t": "input", "x": "input", "y": "output"}
    # c, x, t, y and the m of one branch: nothing else is ever live.
    assert to_problem(to_anf(graph)).live_bytes().max() == 1 + 4 * 24


def test_a_branch_copies_into_the_output_what_it_only_renames() -> None:
    graph = read(IF.format(then="p = Identity(t)", orelse="q = Neg(t)"))
    then, _ = graph.op["If_1"].bodies
    assert then.tensor["y"].view_of is None
    assert [op.kind for op in then.ops] == ["Identity"]


def test_branches_of_different_sizes_need_the_larger() -> None:
    graph = read(IF.format(then="p = Neg(t)", orelse="q = Concat<axis=0>(t, t)"))
    then, orelse = graph.op["If_1"].bodies
    assert graph.tensor["y"].nbytes == 48
    assert orelse.tensor["y"].nbytes == 48
    assert then.tensor["p"].nbytes == 24  # too small to be y: it keeps its own name


def test_a_branch_that_returns_one_tensor_twice_keeps_it_apart() -> None:
    graph = read(
        """g (float[4] x, bool c) => (float[4] y, float[4] z) {
        y, z = If(c) <then_branch = a () => (float[4] p, float[4] p) { p = Neg(x) },
                      else_branch = b () => (float[4] q, float[4] r) { q = Exp(x) r = Abs(x) }> }"""
    )
    then, orelse = graph.op["If_0"].bodies
    assert set(then.tensor) == {"x", "p"}
    assert set(orelse.tensor) == {"x", "y", "z"}


def test_a_branch_that_returns_what_it_captured() -> None:
    graph = read(IF.format(then="m = Neg(t)", orelse="q = Exp(t)").replace("[2,3] p", "[2,3] t"))
    then, _ = graph.op["If_1"].bodies
    assert kinds(then) == {"t": "output", "m": "intermediate"}
    assert "t" in graph.op["If_1"].inputs


def test_captured_constants_stay_outside_the_arena() -> None:
    graph = read(
        """g (float[4] x, bool c) => (float[4] y) <float[4] w = {1,2,3,4}, int64[2] s = {2,2}> {
        y = If(c) <then_branch = a () => (float[4] p) { n = Neg(w) p = Add(x, n) },
                   else_branch = b () => (float[4] q) { q = Add(x, w) }> }"""
    )
    op = graph.op["If_0"]
    then, orelse = op.bodies
    assert op.inputs == ("c", "w", "x")
    assert (kinds(then)["n"], kinds(orelse)["w"]) == ("constant", "input")
    assert set(to_problem(to_anf(graph)).names) == {"x", "c", "y"}


def test_a_nested_branch_captures_through_both_of_its_ifs() -> None:
    graph = read(
        """g (float[4] x, bool c, bool d) => (float[4] y) {
        y = If(c) <then_branch = a () => (float[4] p) { p = If(d) <
            then_branch = e () => (float[4] r) { r = Neg(x) },
            else_branch = f () => (float[4] s) { s = Exp(x) }> },
            else_branch = b () => (float[4] q) { q = Abs(x) }> }"""
    )
    outer = graph.op["If_0"]
    assert outer.inputs == ("c", "d", "x")
    (inner,) = outer.bodies[0].ops
    assert (inner.inputs, inner.outputs) == (("d", "x"), ("y",))
    assert kinds(inner.bodies[0]) == {"x": "input", "y": "output"}
    # Both levels write straight into y.
    assert to_problem(to_anf(graph)).live_bytes().max() == 16 + 1 + 1 + 16


def test_an_if_that_draws_in_a_branch_is_not_recomputable() -> None:
    graph = read(IF.format(then="p = RandomNormalLike(t)", orelse="q = Exp(t)"))
    assert not graph.op["If_1"].recomputable


LOOP = """g (float[N,4] x) => (float[A,4] y, float[R,P,4] s)
    <int64 trips = {{3}}, bool go = {{1}}> {{ a = Relu(x)
    y, s = Loop({trips}, go, a) <body = b (int64 i, bool c, float[] v) =>
        (bool c, float[] w, float[] r) {{ {body} r = Neg(w) }}> }}"""


def test_a_loop_keeps_the_shape_it_carries_and_stacks_its_rows() -> None:
    graph = read(LOOP.format(trips="trips", body="w = Add(v, x)"), N=8)
    op = graph.op["Loop_1"]
    (body,) = op.bodies
    assert graph.tensor["y"].shape == (8, 4)
    assert graph.tensor["s"].shape == (3, 8, 4)
    assert op.inputs == ("trips", "go", "a", "x")
    roles = [("i", "input"), ("c", "output"), ("v", "input"), ("x", "input")]
    assert kinds(body) == dict(roles) | {"w": "output", "r": "output"}
    # Outside: x, a, y, s. Inside, of its own: i, c, v, w, r. A body's x is the x outside.
    assert to_problem(to_anf(graph)).live_bytes().max() == (128 * 3 + 384) + (8 + 1 + 128 * 3)


def test_a_loop_that_carries_a_growing_tensor_is_refused() -> None:
    message = refusal(LOOP.format(trips="trips", body="w = Concat<axis=0>(v, x)"), N=8)
    assert "tensor 'y': the loop 'Loop" in message
    assert "(8, 4) into a turn and as (16, 4) out of it" in message


def test_a_loop_without_a_known_trip_count_asks_for_its_turns() -> None:
    text = LOOP.format(trips="", body="w = Add(v, x)")
    message = refusal(text, N=8)
    assert "dimension 'Loop_1[turns]' is unbound" in message
    assert "--dim 'Loop_1[turns]=8'" in message
    graph = read(text, **{"N": 8, "Loop_1[turns]": 5})
    assert graph.tensor["s"].shape == (5, 8, 4)


def test_open_dimensions_and_turns_are_asked_for_at_once() -> None:
    message = refusal(LOOP.format(trips="", body="w = Add(v, x)"))
    assert "dimensions 'N', 'Loop_1[turns]' are unbound" in message
    assert "--dim N=1 --dim 'Loop_1[turns]=8'" in message


def test_turns_are_only_taken_where_they_are_not_known() -> None:
    text = LOOP.format(trips="trips", body="w = Add(v, x)")
    assert read(text, **{"N": 8, "Loop_1[turns]": 5}).tensor["s"].shape == (3, 8, 4)


def test_a_loop_with_a_trip_count_of_run_time_executes_at_its_bound() -> None:
    loaded = model(
        """g (float[4] x, int64 n) => (float[A] y, float[R,B] s) <bool go = {1}> {
        y, s = Loop(n, go, x) <body = b (int64 i, bool c, float[] v) =>
            (bool c, float[] w, float[] r) { w = Add(v, x) r = Neg(w) }> }"""
    )
    dims = {"Loop_0[turns]": 3}
    plan = cpplan.solve(read_onnx(loaded, dims))
    inputs = {"n": np.array(3), "x": np.arange(4, dtype=np.float32)}
    done = execute(loaded, plan, dims=dims, inputs=inputs)
    assert done.outputs["s"].tolist() == [[-k * v for v in range(4)] for k in (2, 3, 4)]


def test_a_pad_in_a_body_by_pads_from_outside_has_a_shape() -> None:
    loaded = model(
        """g (bool c, float[3,4] x) => (float[A,B] y) <int64[4] pads = {1, 0, 2, 1}> {
        y = If (c) <
            then_branch = t () => (float[D,E] p) { e = Exp(x) p = Pad(e, pads) },
            else_branch = e () => (float[F,G] q) { q = Pad(x, pads) }
        > }"""
    )
    graph = read_onnx(loaded)
    assert graph.tensor["y"].shape == (6, 5)
    plan = cpplan.solve(graph, in_place=True)
    for chosen in (False, True):
        execute(loaded, plan, inputs={"c": np.array(chosen)})
    written = reorder_onnx(loaded, list(graph.op))
    assert [node.op_type for node in written.graph.node] == ["If"]


def test_constants_from_outside_reach_bodies_within_bodies() -> None:
    graph = read(
        """g (bool c, float[3,4] x) => (float[A,B] y) <int64[2] to = {2, 6}> {
        y = If (c) <
            then_branch = t () => (float[D,E] p) {
                p = If (c) <
                    then_branch = tt () => (float[H,I] r) { n = Neg(x) r = Reshape(n, to) },
                    else_branch = te () => (float[J,K] s) { s = Reshape(x, to) }
                > },
            else_branch = e () => (float[F,G] q) { m = Exp(x) q = Reshape(m, to) }
        > }"""
    )
    assert graph.tensor["y"].shape == (2, 6)


@pytest.mark.parametrize(
    ("goes_on", "known"),
    [
        ("Identity(c)", True),
        ("Constant<value = bool {1}>()", True),
        ("Constant<value = bool {0}>()", False),
        ("Less(i, trips)", False),
    ],
)
def test_a_loop_that_may_end_early_asks_for_its_turns(goes_on: str, known: bool) -> None:
    text = LOOP.format(trips="trips", body=f"o = {goes_on} w = Add(v, x)")
    text = text.replace("(bool c, float[] w", "(bool o, float[] w")
    if known:
        assert read(text, N=8).tensor["s"].shape == (3, 8, 4)
    else:
        assert "dimension 'Loop_1[turns]' is unbound" in refusal(text, N=8)


def test_symbols_inside_a_loop_are_found_from_outside() -> None:
    text = LOOP.format(trips="trips", body="w = Add(v, x)").replace("float[] v", "float[B,4] v")
    assert read(text, N=8).tensor["y"].shape == (8, 4)


def test_a_loop_parameter_with_the_name_of_an_outer_tensor_has_its_own_storage() -> None:
    loaded = model(LOOP.format(trips="trips", body="w = Add(v, v)"))
    body = loaded.graph.node[1].attribute[0].g
    body.input[2].name = "a"
    body.node[0].input[:] = ["a", "a"]
    graph = read_onnx(loaded, {"N": 8})
    (inner,) = graph.op["Loop_1"].bodies
    assert "a" not in inner.tensor
    assert inner.op["Add_0"].inputs == ("a.1", "a.1")


def test_a_scan_slices_its_inputs() -> None:
    graph = read(
        """g (float[4] z, float[5,4] xs) => (float[4] last, float[5,4] ys) {
        last, ys = Scan(z, xs) <num_scan_inputs = 1, body = b (float[4] state, float[4] x) =>
            (float[4] next, float[4] y) { next = Add(state, x) y = Exp(next) }> }"""
    )
    (body,) = graph.op["Scan_0"].bodies
    assert set(body.tensor) == {"state", "x", "next", "y"}
    assert {tensor.nbytes for tensor in body.tensors} == {16}
    assert graph.tensor["ys"].nbytes == 80
