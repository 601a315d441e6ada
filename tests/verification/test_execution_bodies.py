"""Branches and loops executed inside their op."""

from __future__ import annotations

import numpy as np
import pytest
from support.onnx_texts import model
from support.plan_verdicts import first_fit, moved

from cpplan.model.errors import VerificationError

onnx = pytest.importorskip("onnx")

from cpplan.io.execution import execute  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402

IF = """g (float[4] x, bool c) => (float[4] z) { t = Exp(x)
    y = If(c) <then_branch = a () => (float[4] p) { m = Neg(t) p = Abs(m) },
               else_branch = b () => (float[4] q) { q = Add(t, x) }>
    z = Add(y, t) }"""


@pytest.mark.parametrize("condition", [True, False])
def test_branches_run_inside_their_op(condition: bool) -> None:
    plan = first_fit(read_onnx(model(IF)))
    inputs = {"x": np.arange(4, dtype=np.float32), "c": np.array(condition)}
    t = np.exp(inputs["x"])
    expected = 2 * t if condition else t + inputs["x"] + t
    np.testing.assert_array_equal(execute(model(IF), plan, inputs=inputs).outputs["z"], expected)


def test_a_buffer_of_a_branch_over_what_the_op_needs_is_caught() -> None:
    plan = first_fit(read_onnx(model(IF)))
    assert plan.offset is not None
    at_t = int(plan.offset[plan.buffers.index("t")])
    with pytest.raises(VerificationError, match=r"op 'If_1' reads tensor 't'.*as 'm'"):
        execute(model(IF), moved(plan, {"If_1/0/m": at_t}))


def test_a_branch_may_write_less_than_the_larger_one() -> None:
    text = """g (float[4] x, bool c) => (float[K] y) {
        y = If(c) <then_branch = a () => (float[4] p) { p = Neg(x) },
                   else_branch = b () => (float[8] q) { q = Concat<axis = 0>(x, x) }> }"""
    plan = first_fit(read_onnx(model(text)))
    for condition, length in ((True, 4), (False, 8)):
        done = execute(model(text), plan, inputs={"c": np.array(condition)})
        assert done.outputs["y"].shape == (length,)


def test_a_loop_runs_inside_its_op() -> None:
    text = """g (float[N,4] x) => (float[A,4] y, float[R,P,4] s) <int64 n = {3}, bool go = {1}> {
        a = Relu(x) y, s = Loop(n, go, a) <body = b (int64 i, bool c, float[] v) =>
            (bool c, float[] w, float[] r) { w = Add(v, x) r = Neg(w) }> }"""
    plan = first_fit(read_onnx(model(text), {"N": 2}))
    x = np.ones((2, 4), np.float32)
    outputs = execute(model(text), plan, inputs={"x": x}, dims={"N": 2}).outputs
    np.testing.assert_array_equal(outputs["y"], 4 * x)
    np.testing.assert_array_equal(outputs["s"], np.stack([-2 * x, -3 * x, -4 * x]))
