"""Executed plans that are broken: each is caught at the op that shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.onnx_texts import CHAIN, model
from support.plan_verdicts import first_fit, moved

from cpplan.model.errors import VerificationError
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

onnx = pytest.importorskip("onnx")

from cpplan.io.execution import execute  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402


def test_an_overlap_is_caught_where_it_hurts() -> None:
    # y at 8 destroys the upper half of t while add still needs it.
    plan = moved(first_fit(read_onnx(model(CHAIN))), {"x": 48, "t": 0, "y": 8, "z": 24})
    with pytest.raises(VerificationError) as caught:
        execute(model(CHAIN), plan)
    message = str(caught.value)
    for part in ("step 1", "op 'Neg_1'", "tensor 't'", "bytes [0, 16)", "byte 8", "as 'y'"):
        assert part in message


def test_an_output_over_a_dying_input_of_the_same_op_is_caught() -> None:
    # The reference kernel computes all of y before a byte is written: only a kernel that writes
    # while it reads would go wrong, and must be able to.
    text = "g (float[4] x) => (float[4] y) { y = Neg(x) }"
    plan = moved(first_fit(read_onnx(model(text))), {"x": 0, "y": 4})
    with pytest.raises(VerificationError, match="op 'Neg_0' reads tensor 'x'"):
        execute(model(text), plan)


def test_two_outputs_of_one_op_that_overlap_are_caught() -> None:
    text = "g (float[4] x) => (float[2] y, float[2] z) { y, z = Split<axis = 0>(x) }"
    plan = moved(first_fit(read_onnx(model(text, opset=13))), {"x": 16, "y": 0, "z": 4})
    with pytest.raises(VerificationError, match="op 'Split_0' wrote tensor 'y'"):
        execute(model(text, opset=13), plan)


def test_a_plan_whose_final_outputs_are_right_by_luck_is_caught() -> None:
    # t is destroyed, but only its shape matters: the output is all zeros whatever t holds.
    text = """g (float[4] x) => (float[4] z) <float zero = {0}>
        { t = Exp(x) y = Abs(x) s = Mul(t, zero) z = Add(s, s) }"""
    plan = moved(first_fit(read_onnx(model(text))), {"x": 0, "t": 16, "y": 16, "s": 32, "z": 48})
    with pytest.raises(VerificationError, match="op 'Mul_2' reads tensor 't'"):
        execute(model(text), plan)


def test_every_single_move_into_a_live_neighbour_is_caught() -> None:
    text = """g (float[8] x) => (float[8] z)
        { a = Exp(x) b = Neg(a) c = Abs(x) d = Add(a, b) e = Mul(c, d) z = Add(e, a) }"""
    graph = read_onnx(model(text))
    plan = first_fit(graph)
    problem = to_problem(to_anf(graph))
    broken = 0
    for mover, name in enumerate(plan.buffers):
        for other in range(len(plan.buffers)):
            meets = mover != other and (
                problem.lower[mover] < problem.upper[other]
                and problem.lower[other] < problem.upper[mover]
            )
            if meets:
                assert plan.offset is not None
                broken += 1
                with pytest.raises(VerificationError):
                    execute(model(text), moved(plan, {name: int(plan.offset[other]) + 4}))
    assert broken > 15


def test_an_output_destroyed_at_the_end_is_caught() -> None:
    text = "g (float[4] x) => (float[4] y, float[4] z) { y = Exp(x) z = Neg(x) }"
    plan = moved(first_fit(read_onnx(model(text))), {"x": 0, "y": 16, "z": 16})
    with pytest.raises(VerificationError, match=r"tensor 'y'.*last written by 'Neg_1'"):
        execute(model(text), plan)


def test_an_arena_that_is_too_small_is_named() -> None:
    plan = replace(first_fit(read_onnx(model(CHAIN))), peak=44)
    with pytest.raises(VerificationError, match="lies outside the arena of 44 B"):
        execute(model(CHAIN), plan)


def test_a_missing_buffer_and_missing_offsets_are_named() -> None:
    plan = first_fit(read_onnx(model(CHAIN)))
    assert plan.offset is not None
    keep = [k for k, name in enumerate(plan.buffers) if name != "t"]
    short = replace(
        plan,
        buffers=tuple(plan.buffers[k] for k in keep),
        **{c: getattr(plan, c)[keep] for c in ("size", "lower", "upper", "offset", "pool")},
    )
    with pytest.raises(VerificationError, match="the plan places no buffer 't'"):
        execute(model(CHAIN), short)
    with pytest.raises(VerificationError, match="holds no offsets"):
        execute(model(CHAIN), replace(plan, offset=None, peak=None))


def test_a_plan_for_another_model_is_refused() -> None:
    plan = first_fit(read_onnx(model("other (float[4] x) => (float[4] y) { y = Tanh(x) }")))
    with pytest.raises(VerificationError, match="unknown op 'Tanh_0'"):
        execute(model(CHAIN), plan)
