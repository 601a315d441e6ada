"""Level 3: the real model inside the arena, in every order, residency and pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.onnx_texts import CHAIN, model
from support.plan_verdicts import first_fit, moved

import cpplan
from cpplan.model.errors import VerificationError
from cpplan.model.residency import Residency

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from cpplan.io.execution import execute  # noqa: E402
from cpplan.io.onnx.bytes import numpy_dtype  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.verification.tensor_bytes import from_bytes, to_bytes  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def test_the_arena_has_the_planned_size_and_the_outputs_come_from_it() -> None:
    plan = first_fit(read_onnx(model(CHAIN)))
    x = np.array([0, 1, 2, 3], np.float32)
    done = execute(model(CHAIN), plan, inputs={"x": x})
    assert (done.steps, done.arena_bytes) == (3, plan.peak)
    assert plan.peak == 48  # t, y, z
    assert done.bytes_checked > 0
    np.testing.assert_array_equal(done.outputs["z"], np.zeros(4, np.float32))


def test_solve_and_execute_meet(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    path.write_bytes(model(CHAIN).SerializeToString())
    plan = cpplan.solve(read_onnx(path))
    assert cpplan.execute(path, plan).arena_bytes == plan.peak == plan.lower_bound


@pytest.mark.parametrize(
    "name",
    [
        # Hundreds of megabytes of weights, and nothing that the others do not have.
        pytest.param("light_bvlc_alexnet", marks=pytest.mark.slow),
        pytest.param("light_resnet50", marks=pytest.mark.slow),
        "light_squeezenet",
    ],
)
def test_light_models_run_in_the_arena(name: str) -> None:
    path = LIGHT / f"{name}.onnx"
    graph = read_onnx(path)
    done = execute(path, first_fit(graph), weights="random")
    assert done.steps == len(graph.ops)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "light_densenet121",
        "light_inception_v1",
        "light_inception_v2",
        "light_vgg19",
        "light_zfnet512",
    ],
)
def test_the_other_light_models_run_in_the_arena(name: str) -> None:
    path = LIGHT / f"{name}.onnx"
    graph = read_onnx(path)
    assert execute(path, first_fit(graph), weights="random").steps == len(graph.ops)


def test_random_weights_make_the_output_depend_on_the_input() -> None:
    path = LIGHT / "light_shufflenet.onnx"
    graph = read_onnx(path)
    plan = first_fit(graph)
    constant = execute(path, plan).outputs["gpu_0/softmax_1"]
    assert np.unique(constant).size == 1  # what constant weights hide
    done = execute(path, plan, weights="random")
    assert done.steps == len(graph.ops)
    random = done.outputs["gpu_0/softmax_1"]
    assert np.isfinite(random).all()
    assert random.min() < random.max()


def test_a_recomputed_tensor_has_a_copy_of_its_own() -> None:
    text = """g (float[4] x) => (float[4] z)
        { a = Exp(x) b = Neg(x) c = Abs(a) d = Add(b, c) z = Mul(d, a) }"""
    graph = read_onnx(model(text))
    order = ("Exp_0", "Neg_1", "Abs_2", "Add_3", "Exp_0", "Mul_4")
    plan = first_fit(graph, order)
    assert "a~1" in plan.buffers
    assert execute(model(text), plan).steps == 6
    # The copy over what the last op reads beside it:
    assert plan.offset is not None
    at_d = int(plan.offset[plan.buffers.index("d")])
    with pytest.raises(VerificationError, match=r"tensor 'd'.*as 'a'"):
        execute(model(text), moved(plan, {"a~1": at_d}))


def test_another_order_than_the_files() -> None:
    text = "g (float[4] x) => (float[4] z) { a = Exp(x) b = Neg(x) z = Add(a, b) }"
    plan = first_fit(read_onnx(model(text)), ("Neg_1", "Exp_0", "Add_2"))
    assert execute(model(text), plan).steps == 3


def test_views_share_bytes_and_are_checked() -> None:
    text = """g (float[2,3] x) => (float[6] f) <int64[2] s = {3,2}>
        { t = Exp(x) r = Reshape(t, s) m = Transpose(r) f = Flatten<axis = 0>(m) }"""
    loaded = model(text.replace("float[6] f", "float[1,6] f"))
    graph = read_onnx(loaded)
    plan = first_fit(graph)
    assert set(plan.buffers) == {"x", "t", "m"}
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs = execute(loaded, plan, inputs={"x": x}).outputs
    np.testing.assert_array_equal(outputs["f"][0], np.exp(x).reshape(3, 2).T.reshape(-1))


@pytest.mark.parametrize("inputs", ["reuse", "keep", "outside"])
@pytest.mark.parametrize("outputs", ["keep", "outside"])
@pytest.mark.parametrize("constants", ["outside", "keep"])
def test_models_run_under_every_residency(inputs: str, outputs: str, constants: str) -> None:
    text = """g (float[4] x) => (float[4] z, float[4] x, float[2,2] w2) <float[4] w = {1,2,3,4},
        int64[2] s = {2,2}> { w2 = Reshape(w, s) t = Add(x, w) z = Exp(t) }"""
    residency = Residency(inputs, outputs, constants)
    plan = first_fit(read_onnx(model(text)), residency=residency)
    done = execute(model(text), plan, inputs={"x": np.ones(4, np.float32)}, weights="random")
    assert set(done.outputs) == {"z", "x", "w2"}
    assert done.outputs["w2"].shape == (2, 2)


def test_constants_of_bodies_keep_their_bytes() -> None:
    text = """g (bool c, float[4] x) => (float[4] y) { t = Exp(x) y = If (c) <
        then_branch = a () => (float[4] p) <float[4] w = {1,2,3,4}> { p = Add(t, w) },
        else_branch = b () => (float[4] q) { q = Neg(t) }> }"""
    proto = model(text)
    plan = first_fit(read_onnx(proto), residency=Residency(constants="keep"))
    inner = "If_1/0/w"
    assert inner in plan.buffers
    assert execute(proto, plan).steps == 2
    places = {name: int(plan.offset[plan.row[name]]) for name in plan.buffers}
    with pytest.raises(VerificationError, match=r"'w' at bytes .*: last written by 'Exp_0'"):
        execute(proto, moved(plan, {**places, "t": places[inner]}))


def test_addresses_that_suit_no_element_type() -> None:
    text = """g (bool[3] p, float[3] x, double[5] d) => (float[3] y, double e)
        { q = Not(p) f = Cast<to = 1>(q) y = Add(x, f) e = ReduceSum<keepdims = 0>(d) }"""
    graph = read_onnx(model(text))
    plan = first_fit(graph)
    odd = {name: 1 + 64 * k for k, name in enumerate(plan.buffers)}
    assert execute(model(text), moved(plan, odd)).steps == 4


def test_empty_tensors_are_executed() -> None:
    text = "g (float[0,4] x, float[4] y) => (float[K,4] z) { t = Exp(x) z = Add(t, y) }"
    done = execute(model(text), first_fit(read_onnx(model(text))))
    assert (done.outputs["z"].shape, done.arena_bytes) == ((0, 4), 16)


def test_elements_narrower_than_a_byte_are_packed() -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Identity", ["x"], ["t"]),
            helper.make_node("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
        ],
        "g",
        [value("x", TensorProto.INT4, [5])],
        [value("y", TensorProto.FLOAT, [5])],
    )
    loaded = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    plan = first_fit(read_onnx(loaded))
    assert dict(zip(plan.buffers, plan.size.tolist(), strict=True)) == {"x": 3, "y": 20}
    x = np.array([-8, 7, 0, -1, 3]).astype(numpy_dtype("int4"))
    outputs = execute(loaded, plan, inputs={"x": x}).outputs
    np.testing.assert_array_equal(outputs["y"], [-8, 7, 0, -1, 3])


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4e2m1", "bfloat16", "float8e4m3fn"])
def test_values_survive_conversion_to_bytes(dtype: str) -> None:
    values = np.array([0, 1, 2, 3, 4, 6, 1], np.float32).astype(numpy_dtype(dtype))
    raw = to_bytes(values, dtype)
    assert to_bytes(from_bytes(raw, dtype, values), dtype).tolist() == raw.tolist()
    np.testing.assert_array_equal(from_bytes(raw, dtype, values), values)


def test_two_pools_are_two_stretches_of_the_arena():
    # a (16 B) and t (16 B) are live at once: 20 B of SRAM hold one of them.
    proto = model("two (float[4] a) => (float[4] y) { t = Exp(a) u = Add(t, a) y = Neg(u) }")
    pools = cpplan.Pool("sram", capacity=20), cpplan.Pool("dram")
    plan = cpplan.solve(read_onnx(proto), pools=pools)
    assert plan.pool_peaks is not None
    assert min(plan.pool_peaks.values()) > 0
    done = execute(proto, plan)
    assert done.arena_bytes == sum(plan.pool_peaks.values())
    # Both at the start of their pools, but not at one address.
    row = plan.row["t"]
    broken = replace(
        plan, pool=np.where(np.arange(len(plan.pool)) == row, 1 - plan.pool, plan.pool)
    )
    with pytest.raises(VerificationError, match="is not that of the unplanned run"):
        execute(proto, replace(broken, peak=sum((broken.pool_peaks or {}).values())))
