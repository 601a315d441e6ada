"""Level 3: the real model inside the arena; sound plans pass, broken ones are caught at the op."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.plan_verdicts import moved

import cpplan
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, parser  # noqa: E402

from cpplan.io.execution import execute  # noqa: E402
from cpplan.io.onnx.bytes import numpy_dtype  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.verification.tensor_bytes import from_bytes, to_bytes  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def model(text: str, *, opset: int = 17) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


def first_fit(
    graph: Graph, order: Iterable[str] | None = None, residency: Residency | None = None
) -> Plan:
    """A sound plan: the largest buffer first, each at the lowest free offset."""
    program = to_anf(graph, order)
    problem = to_problem(program, residency)
    offset = np.zeros(len(problem), np.int64)
    placed: list[int] = []
    for row in np.argsort(-problem.size, kind="stable").tolist():
        for other in sorted(placed, key=lambda other: int(offset[other])):
            meets = (
                problem.lower[row] < problem.upper[other]
                and problem.lower[other] < problem.upper[row]
            )
            if meets and offset[row] + problem.size[row] > offset[other]:
                offset[row] = max(offset[row], offset[other] + problem.size[other])
        placed.append(row)
    return Plan(
        graph.name,
        "feasible",
        tuple(problem.names),
        problem.size,
        problem.lower,
        problem.upper,
        offset,
        peak=int(np.max(offset + problem.size, initial=0)),
        order=program.names,
        residency=residency or Residency(),
    )


CHAIN = "chain (float[4] x) => (float[4] z) { t = Exp(x) y = Neg(t) z = Add(t, y) }"


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
        "light_shufflenet",
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
    plan = first_fit(read_onnx(path))
    constant = execute(path, plan).outputs["gpu_0/softmax_1"]
    assert np.unique(constant).size == 1  # what constant weights hide
    random = execute(path, plan, weights="random").outputs["gpu_0/softmax_1"]
    assert np.isfinite(random).all()
    assert random.min() < random.max()


# --- broken plans --------------------------------------------------------------------------------


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


# --- what a plan may do --------------------------------------------------------------------------


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


def test_weights_in_another_file_are_read(tmp_path: Path) -> None:
    loaded = model("g (float[4] x) => (float[4] y) { y = Mul(x, w) }")
    weight = onnx.numpy_helper.from_array(np.array([1, 2, 3, 4], np.float32), "w")
    loaded.graph.initializer.append(weight)
    path = tmp_path / "m.onnx"
    onnx.save(loaded, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    plan = first_fit(read_onnx(path))
    done = execute(path, plan, inputs={"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(done.outputs["y"], [1, 2, 3, 4])
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(InputError, match=r"m\.onnx: its weights cannot be read"):
        execute(path, plan)


# --- inputs --------------------------------------------------------------------------------------


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
    with pytest.raises(InputError, match="op 'Odd_0': the reference kernel of Odd cannot run it"):
        execute(loaded, first_fit(read_onnx(loaded)))


def test_a_kernel_that_fails_is_named_with_its_model_and_kind() -> None:
    text = "g (float[4] x, int64 i) => (float y) { y = Gather(x, i) }"
    with pytest.raises(InputError) as caught:
        execute(model(text), first_fit(read_onnx(model(text))), inputs={"i": np.array(9)})
    message = str(caught.value)
    assert message.startswith("ONNX model 'g': op 'Gather_0': the reference kernel of Gather ")
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
    from cpplan.io.onnx import kernels

    # What the reference kernel gives for images of one axis: float32[2, 1], not [2, 3, 1].
    monkeypatch.setattr(kernels, "make_pooling", lambda _: lambda x: x.max(axis=(1, 2))[:, None])
    text = "g (float[2,3,8] x) => (float[2,3,1] y) { y = GlobalMaxPool(x) }"
    done = execute(model(text), cpplan.solve(read_onnx(model(text))))
    assert done.outputs["y"].shape == (2, 1)


def test_a_kernel_that_gives_more_bytes_than_its_definition_is_blamed_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cpplan.io.onnx import kernels

    monkeypatch.setattr(kernels, "make_pooling", lambda _: lambda x: x)
    text = "g (float[2,3,8] x) => (float[2,3,1] y) { y = GlobalMaxPool(x) }"
    with pytest.raises(InputError, match=r"kernel of GlobalMaxPool.*\[2, 3, 8\].*\[2, 3, 1\]"):
        execute(model(text), cpplan.solve(read_onnx(model(text))))


def test_an_op_whose_planned_run_gives_another_shape_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cpplan.io.onnx import kernels

    shapes = iter([(2, 3, 1), (2, 1, 3)])
    monkeypatch.setattr(
        kernels, "make_pooling", lambda _: lambda x: np.ones(next(shapes), np.float32)
    )
    text = "g (float[2,3,8] x) => (float[2,3,1] y) { y = GlobalMaxPool(x) }"
    with pytest.raises(VerificationError, match="other bytes for 'y' than in the unplanned run"):
        execute(model(text), cpplan.solve(read_onnx(model(text))))


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


@pytest.mark.parametrize("location", ["../secret", "{outside}", "link"])
def test_weights_outside_the_models_folder_are_refused(tmp_path, location):
    outside, folder = tmp_path / "secret", tmp_path / "model"
    folder.mkdir()
    outside.write_bytes(bytes(16))
    (folder / "link").symlink_to(outside)
    weights = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=1)
    weights.external_data.add(key="location", value=location.format(outside=outside))
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph(
        [node], "g", [value("x", 1, [4])], [value("y", 1, [4])], initializer=[weights]
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    path = folder / "m.onnx"
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    plan = cpplan.solve(cpplan.load(path))
    with pytest.raises(InputError, match=r"m\.onnx: its weights cannot be read"):
        cpplan.execute(path, plan)
