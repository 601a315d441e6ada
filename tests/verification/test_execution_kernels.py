"""Inputs and reference kernels of executed plans: drawn, compared, and blamed by name."""

from __future__ import annotations

import numpy as np
import pytest
from support.onnx_texts import CHAIN, model
from support.plan_verdicts import first_fit

import cpplan
from cpplan.model.errors import InputError, VerificationError

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

from cpplan.io.execution import execute  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402


def test_a_kernel_that_writes_more_than_declared_is_refused() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[2] y)
        { t = NonZero(x) u = Cast<to = 1>(t) y = ReduceSum<keepdims = 0>(u) }"""
    loaded = parser.parse_model(text.replace("=> (float[2] y)", "=> (float y) <int64[1,2] t>"))
    plan = first_fit(read_onnx(loaded))
    inputs = {"x": np.ones(4, np.float32)}
    with pytest.raises(VerificationError, match=r"'NonZero_0'.*tensor 't'.*\[1, 4\].*\[1, 2\]"):
        execute(loaded, plan, inputs=inputs)


def test_a_random_op_draws_once() -> None:
    text = "g (float[9] x) => (float[9] y) { r = RandomNormalLike(x) y = Add(x, r) }"
    assert execute(model(text), first_fit(read_onnx(model(text)))).steps == 2


def test_the_seed_decides_the_inputs() -> None:
    plan = first_fit(read_onnx(model(CHAIN)))
    text = CHAIN.replace("z = Add(t, y)", "z = Sub(t, y)")

    def run(seed: int) -> list[float]:
        return (
            execute(model(text), first_fit(read_onnx(model(text))), seed=seed).outputs["z"].tolist()
        )

    assert run(1) == run(1) != run(2)
    assert execute(model(CHAIN), plan).outputs["z"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"y": np.zeros(4, np.float32)}, "the model has no input 'y': it has x"),
        ({"x": np.zeros(5, np.float32)}, r"input 'x' is float32\[5\]: expected float32\[4\]"),
        ({"x": np.zeros(4)}, r"input 'x' is float64\[4\]: expected float32\[4\]"),
    ],
)
def test_inputs_that_do_not_match_are_refused(inputs: dict[str, np.ndarray], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        execute(model(CHAIN), first_fit(read_onnx(model(CHAIN))), inputs=inputs)


def test_an_op_without_reference_kernel_is_named() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[2] x) => (float[2] y) <float[2] t> { t = my.Odd(x) y = Exp(t) }"""
    loaded = parser.parse_model(text)
    with pytest.raises(
        InputError, match=r"op 'Odd_0': the reference kernel of my\.Odd, opset 1, cannot"
    ):
        execute(loaded, first_fit(read_onnx(loaded)))


def test_a_kernel_that_fails_is_named_with_its_model_and_kind() -> None:
    text = "g (float[4] x, int64 i) => (float y) { y = Gather(x, i) }"
    with pytest.raises(InputError) as caught:
        execute(model(text), first_fit(read_onnx(model(text))), inputs={"i": np.array(9)})
    message = str(caught.value)
    assert message.startswith("ONNX model 'g': op 'Gather_0': the reference kernel of Gather, ")
    assert "\n" not in message


@pytest.mark.parametrize("result", [np.zeros(4), np.zeros(2), np.zeros(4, np.int32)])
def test_a_result_of_another_type_is_caught(
    result: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cpplan.io.onnx import run

    plan = first_fit(read_onnx(model(CHAIN)))
    monkeypatch.setattr(run, "make_kernel", lambda *_, **__: lambda _: {"t": result})
    with pytest.raises(InputError, match=r"the kernel is wrong, and the model cannot be executed"):
        execute(model(CHAIN), plan)


@pytest.mark.parametrize("axes", [[8], [3, 4], [2, 3, 2]])
def test_global_pooling_runs_at_any_number_of_axes(axes: list[int]) -> None:
    shape = ",".join(map(str, [2, 3, *axes]))
    for kind in ("GlobalMaxPool", "GlobalAveragePool"):
        text = f"g (float[{shape}] x) => (float[2,3{',1' * len(axes)}] y)"
        loaded = model(f"{text} {{ t = Neg(x) u = {kind}(t) y = Exp(u) }}")
        done = execute(loaded, cpplan.solve(read_onnx(loaded), in_place=True))
        assert done.outputs["y"].shape == (2, 3, *[1] * len(axes))


def test_a_kernel_that_gives_another_shape_in_fewer_bytes_does_not_fail_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cpplan.io.onnx import own_kernels

    # What the reference kernel gives for images of one axis: float32[2, 1], not [2, 3, 1].
    monkeypatch.setattr(
        own_kernels, "make_pooling", lambda _: lambda x: [x[0].max(axis=(1, 2))[:, None]]
    )
    text = "g (float[2,3,8] x) => (float[2,3,1] y) { y = GlobalMaxPool(x) }"
    done = execute(model(text), cpplan.solve(read_onnx(model(text))))
    assert done.outputs["y"].shape == (2, 1)


def test_a_kernel_that_gives_more_bytes_than_its_definition_is_blamed_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cpplan.io.onnx import own_kernels

    monkeypatch.setattr(own_kernels, "make_pooling", lambda _: lambda x: [x[0]])
    text = "g (float[2,3,8] x) => (float[2,3,1] y) { y = GlobalMaxPool(x) }"
    with pytest.raises(InputError, match=r"kernel of GlobalMaxPool.*\[2, 3, 8\].*\[2, 3, 1\]"):
        execute(model(text), cpplan.solve(read_onnx(model(text))))


def test_an_op_whose_planned_run_gives_another_shape_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cpplan.io.onnx import own_kernels

    shapes = iter([(2, 3, 1), (2, 1, 3)])
    monkeypatch.setattr(
        own_kernels, "make_pooling", lambda _: lambda x: [np.ones(next(shapes), np.float32)]
    )
    text = "g (float[2,3,8] x) => (float[2,3,1] y) { y = GlobalMaxPool(x) }"
    with pytest.raises(VerificationError, match="other bytes for 'y' than in the unplanned run"):
        execute(model(text), cpplan.solve(read_onnx(model(text))))
