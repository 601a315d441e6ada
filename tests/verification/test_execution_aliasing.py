"""Level 3 where tensors share bytes: real kernels, in place and within one another, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.plan_verdicts import moved

import cpplan
from cpplan.model.errors import VerificationError
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Relation

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

from cpplan.io.execution import execute  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402

# x is halved as two views, one half is overwritten, and both are put together again: 32 B in all.
HALVES = """
halves (float[1, 8] x) => (float[1, 8] y) {
    p, q = Split <axis = 1> (x, sizes)
    r = Relu(p)
    y = Concat <axis = 1> (r, q)
}"""
# a and b are computed where y wants them, and x in its place: y and the smaller inputs are all.
JOINED = """
joined (float[1, 4] x, float[1, 4] z) => (float[1, 8] y) {
    a = Relu(x)
    b = Exp(z)
    c = Concat <axis = 1> (a, b)
    y = Neg(c)
}"""


def model(text: str) -> onnx.ModelProto:
    found = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    if "sizes" in text:
        sizes = np.array([4, 4], np.int64)
        found.graph.initializer.append(onnx.numpy_helper.from_array(sizes, "sizes"))
    return found


def planned(text: str, **options) -> Plan:
    options = {"in_place": True, "workers": 1, **options}
    return cpplan.solve(read_onnx(model(text)), **options)


@pytest.mark.parametrize(("text", "shared", "plain"), [(HALVES, 32, 64), (JOINED, 32, 64)])
def test_runs_in_half_the_bytes(text, shared, plain):
    """HALVES: at its last step r, q and y, else 16 + 16 + 32; JOINED: y over c over its parts."""
    assert planned(text, in_place=False).peak == plain
    plan = planned(text)
    assert (plan.status, plan.peak) == ("optimal", shared)
    done = execute(model(text), plan)
    assert done.arena_bytes == shared
    assert done.bytes_checked > 0
    without = execute(model(text), planned(text, in_place=False))
    for name, value in without.outputs.items():
        np.testing.assert_array_equal(done.outputs[name], value)


def test_the_relations_are_those_of_the_ops():
    plan = planned(HALVES)
    assert {(r.kind, r.tensor, r.other) for r in plan.relations} == {
        ("placement", "p", "x"),
        ("placement", "q", "x"),
        ("in place", "r", "p"),
        ("placement", "r", "y"),
        ("placement", "q", "y"),
    }
    x = np.array([[-1, 2, -3, 4, -5, 6, -7, 8]], np.float32)
    done = execute(model(HALVES), plan, inputs={"x": x})
    assert done.outputs["y"].tolist() == [[0, 2, 0, 4, -5, 6, -7, 8]]


@pytest.mark.parametrize("switch", [{"placement": False}, {"in_place": False, "placement": True}])
@pytest.mark.parametrize("text", [HALVES, JOINED])
def test_one_kind_of_sharing_alone_runs(text, switch):
    plan = planned(text, **switch)
    assert len({relation.kind for relation in plan.relations}) <= 1
    assert execute(model(text), plan).arena_bytes == plan.peak


@pytest.mark.parametrize("inputs", ["reuse", "keep", "outside"])
@pytest.mark.parametrize("outputs", ["keep", "outside"])
@pytest.mark.parametrize("text", [HALVES, JOINED])
def test_shared_arenas_run_under_every_residency(text, inputs, outputs):
    plan = planned(text, inputs=inputs, outputs=outputs)
    assert execute(model(text), plan).arena_bytes == plan.peak


def test_a_placed_input_that_another_overwrites_is_named_with_the_writer():
    """b half over a, which lies in c."""
    plan = planned(JOINED, in_place=False, placement=True)
    at = {name: int(k) for name, k in zip(plan.buffers, plan.offset, strict=True)}
    assert (at["a"], at["b"]) == (at["c"], at["c"] + 16)
    broken = moved(plan, {"b": at["c"] + 8})
    with pytest.raises(VerificationError, match=r"step 2: op 'Concat_2' reads tensor 'a'.*'Exp_1'"):
        execute(model(JOINED), broken)


def test_a_view_of_a_split_that_is_overwritten_too_early_is_named():
    """r over q, which the concatenation reads."""
    plan = planned(HALVES)
    at = {name: int(k) for name, k in zip(plan.buffers, plan.offset, strict=True)}
    broken = moved(plan, {"r": at["q"]})
    with pytest.raises(
        VerificationError, match=r"op 'Concat_2' reads tensor 'q' at .*'Relu_1' at step 1 as 'r'"
    ):
        execute(model(HALVES), broken)


def test_an_in_place_result_without_its_relation_is_caught_at_the_op():
    """The kernel may write while it reads: only what the plan says is excused."""
    plan = planned(JOINED)
    assert Relation("in place", "a", "x") in plan.relations
    silent = replace(plan, relations=tuple(r for r in plan.relations if r.tensor != "a"))
    with pytest.raises(VerificationError, match=r"op 'Relu_0'.*tensor 'x'.*'Relu_0'"):
        execute(model(JOINED), silent)


def test_a_result_a_little_beside_its_input_is_not_in_place():
    """a one float above x, as the plan claims it were in place."""
    plan = planned(JOINED, placement=False)
    row = {name: k for k, name in enumerate(plan.buffers)}
    assert plan.offset[row["a"]] == plan.offset[row["x"]]
    broken = moved(plan, {"a": int(plan.offset[row["x"]]) + 4})
    with pytest.raises(VerificationError, match=r"op 'Relu_0' reads tensor 'x'.*byte 4 .*as 'a'"):
        execute(model(JOINED), broken)


def test_a_reshaped_input_read_twice():
    """Add(t, v), v a view of t: what the plan does with it runs, whatever may be written over."""
    text = """
    twice (float[4] x) => (float[4] y) {
        t = Neg(x)
        v = Identity(t)
        y = Add(t, v)
    }"""
    plan = planned(text)
    assert (
        execute(model(text), plan, inputs={"x": np.ones(4, np.float32)}).outputs["y"].tolist()
        == [-2] * 4
    )


# a is written over t, which the sum needs too: computed again, it need not be kept.
AGAIN = """
again (float[4] x) => (float[4] y) {
    t = Exp(x)
    a = Neg(t)
    s = ReduceSum <keepdims = 1> (a)
    y = Add(t, s)
}"""


def repeated(**options) -> Plan:
    program = cpplan.to_anf(
        read_onnx(model(AGAIN)), ["Exp_0", "Neg_1", "ReduceSum_2", "Exp_0", "Add_3"]
    )
    return cpplan.solve(program, in_place=True, workers=1, **options)


def test_a_copy_is_computed_again_where_another_was_overwritten():
    """x is kept, 16 B, beside t with a over it, 16 B, and s, 4 B; at the end y lies over t~1."""
    plan = repeated()
    assert (plan.status, plan.peak) == ("optimal", 36)
    assert {(r.tensor, r.other) for r in plan.relations} >= {("a", "t"), ("y", "t~1")}
    x = np.array([0, 1, 2, 3], np.float32)
    done = execute(model(AGAIN), plan, inputs={"x": x})
    assert done.steps == 5
    np.testing.assert_allclose(done.outputs["y"], np.exp(x) - np.exp(x).sum(), rtol=1e-6)


def test_without_its_second_run_the_overwritten_copy_is_read():
    plan = repeated()
    once = replace(plan, order=("Exp_0", "Neg_1", "ReduceSum_2", "Add_3"))
    with pytest.raises(VerificationError, match=r"op 'Add_3' reads tensor 't' .*'Neg_1' at step 1"):
        execute(model(AGAIN), once)


def test_a_copy_beside_its_place_is_named():
    """t~1 over s, which the sum reads."""
    plan = repeated()
    with pytest.raises(VerificationError, match=r"op 'Add_3' reads tensor 's' .*'Exp_0' at step 3"):
        execute(model(AGAIN), moved(plan, {"s": 36, "t~1": 36}))
