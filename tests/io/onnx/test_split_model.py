"""ONNX models written in pieces compute what the whole models do.

Bit for bit where sums are exact: of whole numbers, and in integers. Elsewhere runtimes add floats
in an order that depends on shapes, and a piece has another shape.
"""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import seeds, seeds_and_slow

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402
from support import onnx_texts  # noqa: E402
from support.onnx_networks import OnnxNetwork, random_network  # noqa: E402
from support.onnx_nodes import KINDS, Draw, Drawn  # noqa: E402
from support.split_plans import plan_in_pieces, random_pieces  # noqa: E402

import cpplan  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402
from cpplan.model.pieces import Pieces  # noqa: E402

Inputs = dict[str, Any]
needs_onnxruntime = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs onnxruntime")


def draw_inputs(model: onnx.ModelProto, seed: int = 0) -> Inputs:
    """Random inputs; of truth values, the first."""
    rng = np.random.default_rng(seed)
    found: Inputs = {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        found[value.name] = rng.standard_normal(shape).astype(dtype)
    return found


def outputs(model: onnx.ModelProto, runtime: str, given: Inputs) -> list[Any]:
    inputs = {value.name: given[value.name] for value in model.graph.input}
    names = [value.name for value in model.graph.output]
    if runtime == "reference":
        return list(ReferenceEvaluator(model).run(names, inputs))
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return list(session.run(names, inputs))


def written_in_pieces(model: onnx.ModelProto, plan: cpplan.Plan, folder: Path) -> onnx.ModelProto:
    """The model that the plan exports, which ONNX's checker takes."""
    plan.export(folder / "pieces.onnx", model)
    written = onnx.load(folder / "pieces.onnx")
    onnx.checker.check_model(written, full_check=True)
    return written


def assert_close(found: list[Any], expected: list[Any]) -> None:
    """The same integers, and floats up to the order of their sums."""
    for one, other in zip(found, expected, strict=True):
        if other.dtype == np.float32:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(one, other)


RUNTIMES = [
    "reference",
    pytest.param("onnxruntime", marks=needs_onnxruntime),
]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("seed", seeds(8))
def test_random_networks_in_pieces_are_valid_and_compute_the_same(
    seed: int, runtime: str, tmp_path: Path
) -> None:
    model = random_network(seed)
    graph = read_onnx(model)
    plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
    written = written_in_pieces(model, plan, tmp_path)
    nodes = [node.name for node in written.graph.node]
    # Pieces of nothing but padding, and what follows from these alone, are constants.
    ops = {op.name for op in read_onnx(written).ops}
    assert [name for name in nodes if name in plan.order and name in ops] == [
        name for name in plan.order if name in ops
    ]
    inputs = draw_inputs(model, seed)
    assert_close(outputs(written, runtime, inputs), outputs(model, runtime, inputs))


@needs_onnxruntime
@pytest.mark.parametrize("seed", seeds_and_slow(3, 120))
def test_plans_of_every_pair_of_options_run_in_onnxruntime(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    options: dict[str, Any] = {"order": rng.choice(["given", "search"])}
    options["in_place"] = rng.random() < 0.5
    limits = [{}, {"cost_limit": rng.choice([1.1, 1.5])}, {"memory_limit": "80%"}]
    options |= rng.choice(limits)
    options["remat"] = len(options) > 2 and rng.random() < 0.4
    model = random_network(seed)
    plan = cpplan.solve(
        read_onnx(model), split=True, time_limit=0.5, workers=1, deterministic=True, **options
    )
    if plan.offset is None:
        assert "memory_limit" in options
        return
    written, inputs = written_in_pieces(model, plan, tmp_path), draw_inputs(model, seed)
    expected = outputs(model, "onnxruntime", inputs)
    assert_close(outputs(written, "onnxruntime", inputs), expected)
    done = cpplan.execute(model, plan, inputs=inputs).outputs
    assert_close([done[value.name] for value in model.graph.output], expected)


def with_one_operand(drawn: Drawn) -> Drawn:
    """The node with one tensor for all inputs that are alike."""
    alike: dict[Any, str] = {}
    for k, name in enumerate(drawn.node.input):
        if name in drawn.values and name not in drawn.constants:
            value = drawn.values[name]
            drawn.node.input[k] = alike.setdefault((value.dtype, value.shape), name)
    drawn.values = {n: v for n, v in drawn.values.items() if n in drawn.node.input}
    return drawn


@needs_onnxruntime
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_every_kind_give_the_same_bits(kind: str, tmp_path: Path) -> None:
    """Values are whole numbers, so that sums are exact in any order."""
    from onnxruntime.capi import onnxruntime_pybind11_state as refused

    cases = [
        make(KINDS[kind](Draw(k))) for k in seeds(2) for make in (lambda n: n, with_one_operand)
    ]
    computed = 0
    for seed, drawn in enumerate(cases):
        model = onnx.shape_inference.infer_shapes(drawn.model())
        graph, inputs = read_onnx(model), dict(drawn.values)
        try:
            expected = outputs(model, "onnxruntime", inputs)
        except (refused.Fail, refused.InvalidArgument):
            continue  # it takes not all padding that ONNX allows
        if not any(op.axes for op in graph.ops):
            continue
        pieces = random_pieces(random.Random(seed), graph)
        try:
            written = written_in_pieces(model, plan_in_pieces(graph, pieces), tmp_path)
        except InputError as error:
            if kind in ("MaxPool", "Resize") and "no ONNX node computes" in str(error):
                continue
            raise
        for one, other in zip(outputs(written, "onnxruntime", inputs), expected, strict=True):
            if kind.startswith(("Resize", "Softmax")):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
            else:
                np.testing.assert_array_equal(one, other)
        computed += 1
    assert computed


IMAGE = "float[1,2,8,4]"
TEXTS = {
    "a body captures a cut tensor": f"""g ({IMAGE} x, bool c) => ({IMAGE} y) {{
        a = Relu(x)
        w = Neg(a)
        b, d = If (c) <
            then_branch = then () => ({IMAGE} p, {IMAGE} q) {{ p = Neg(a) q = Add(w, x) }},
            else_branch = else () => ({IMAGE} r, {IMAGE} s) {{ r = Mul(a, a) s = Identity(w) }}>
        y = Add(b, d) }}""",
    "an input is an output": f"""g ({IMAGE} x) => ({IMAGE} y, {IMAGE} x) {{
        a = Relu(x)
        y = Neg(a) }}""",
    "names of parts are taken": f"""g ({IMAGE} x) => ({IMAGE} y, {IMAGE} "Neg_3/b") {{
        a = Relu(x)
        b = Relu(a)
        "Relu_1/a" = Neg(b)
        "Neg_3/b" = Neg(b)
        "b/concat" = Add("Relu_1/a", b)
        y = Add("b/concat", "Neg_3/b") }}""",
    "a shape of a cut tensor": f"""g ({IMAGE} x) => ({IMAGE} y, int64[4] s) {{
        a = Relu(x)
        s = Shape(a)
        b = Neg(a)
        y = Reshape(b, s) }}""",
    "a view of a view in finer steps": f"""g ({IMAGE} x) => (float[1,1,2,32] y)
        <int64[3] flat = {{1, 2, 32}}, int64[1] first = {{1}}> {{
        a = Relu(x)
        r = Reshape(a, flat)
        u = Unsqueeze(r, first)
        y = Neg(u) }}""",
    "an empty tensor": f"""g ({IMAGE} x, float[1,0,8,4] e) => ({IMAGE} y, float[1,0,8,4] f) {{
        a = Relu(x)
        f = Relu(e)
        b = Concat<axis = 1>(a, e, f, e)
        y = Neg(b) }}""",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_special_models_in_pieces_give_the_same_bits(text: str, tmp_path: Path) -> None:
    model = onnx_texts.model(text)
    graph, inputs = read_onnx(model), draw_inputs(model)
    expected = outputs(model, "reference", inputs)
    for seed in seeds(3):
        plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
        found = outputs(written_in_pieces(model, plan, tmp_path), "reference", inputs)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


OLD = """g (float[1,2,8,6] x) => (float[1,4,5,6] y) {
    a = Pad<mode = "constant", pads = [0, 0, 1, 0, 0, 0, 4, 0], value = 0.5>(x)
    b, mask = Dropout(a)
    c = Slice<axes = [2], ends = [-1], starts = [2]>(b)
    d = Neg(c)
    e = Concat<axis = 1>(c, d)
    y = MaxPool<kernel_shape = [2, 1], strides = [2, 1]>(e) }"""


@pytest.mark.parametrize("opset", [8, 9])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_pieces_of_old_opsets_have_bounds_as_attributes(
    opset: int, runtime: str, tmp_path: Path
) -> None:
    """The mask of the Dropout in pieces is not read; a piece of the Pad is padding alone."""
    model = onnx.parser.parse_model(f'<ir_version: 4, opset_import: ["" : {opset}]> {OLD}')
    graph, inputs = read_onnx(model), draw_inputs(model)
    expected = outputs(model, runtime, inputs)
    for seed in seeds(8):
        plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
        found = outputs(written_in_pieces(model, plan, tmp_path), runtime, inputs)
        np.testing.assert_array_equal(found[0], expected[0])


def test_a_node_that_reads_a_tensor_twice_joins_its_bands_once(tmp_path: Path) -> None:
    net = OnnxNetwork(0)
    first = net.conv(net.image(1, 3, 12, 8), 4, pads=[1] * 4)
    model = net.model(net.op("Mul", [first, first]))
    plan = plan_in_pieces(read_onnx(model), [Pieces("conv0", ("rows",), ((4, 8),))])
    nodes = [node.name for node in written_in_pieces(model, plan, tmp_path).graph.node]
    assert nodes[-2:] == ["mul1/t0/concat", "mul1"]


def test_weights_of_an_old_model_stay_defaults_of_inputs(tmp_path: Path) -> None:
    model = random_network(3)
    for stored in model.graph.initializer:
        value = onnx.helper.make_tensor_value_info(stored.name, stored.data_type, stored.dims)
        model.graph.input.append(value)
    model.ir_version = 3
    graph = read_onnx(model)
    plan = plan_in_pieces(graph, random_pieces(random.Random(3), graph))
    plan.export(tmp_path / "pieces.onnx", model)
    written = onnx.load(tmp_path / "pieces.onnx")
    # What slices take is stored, but no input.
    assert written.ir_version == 4
    onnx.checker.check_model(written, full_check=True)
    assert len(written.graph.input) == len(model.graph.input)


def test_a_piece_reads_bands_through_a_concat_and_an_input_through_a_slice(tmp_path: Path) -> None:
    net = OnnxNetwork(0)
    x = net.image(1, 3, 12, 8)
    first = net.conv(x, 4, pads=[1] * 4)
    model = net.model(net.conv(first, 2, pads=[1] * 4))
    cut = [Pieces(name, ("rows",), ((4, 8),)) for name in ("conv0", "conv1")]
    plan = plan_in_pieces(read_onnx(model), cut)
    plan.export(tmp_path / "pieces.onnx", model)
    nodes = {node.name: node for node in onnx.load(tmp_path / "pieces.onnx").graph.node}
    assert nodes["conv0[0:4]/x/slice"].op_type == "Slice"
    assert nodes["conv1[4:8]/t0/concat"].op_type == "Concat"
    given = {a.name: onnx.helper.get_attribute_value(a) for a in nodes["conv1[0:4]"].attribute}
    assert given["pads"] == [1, 1, 0, 1]
    assert nodes["t1/concat"].output == ["t1"]


def test_pieces_that_no_node_computes_are_refused(tmp_path: Path) -> None:
    net = OnnxNetwork(0)
    model = net.model(net.resize(net.image(1, 3, 6, 6), "linear"))
    plan = plan_in_pieces(read_onnx(model), [Pieces("resize0", ("rows",), ((4,),))])
    message = r"op 'resize0' \(Resize\): no ONNX node computes its pieces along rows"
    with pytest.raises(InputError, match=message):
        plan.export(tmp_path / "pieces.onnx", model)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_pieces_of_a_pool_that_rounds_up_may_end_behind_the_image(
    runtime: str, tmp_path: Path
) -> None:
    net = OnnxNetwork(0)
    x = net.op("Relu", [net.image(1, 2, 3, 5)])
    # The third window of rows begins behind the image.
    given = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 0], "ceil_mode": 1}
    model = net.model(net.op("MaxPool", [x], **given))
    plan = plan_in_pieces(read_onnx(model), [Pieces("maxpool1", ("columns",), ((1,),))])
    written, inputs = written_in_pieces(model, plan, tmp_path), draw_inputs(model)
    found, expected = (outputs(each, runtime, inputs) for each in (written, model))
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("value", [None, 0.5])
def test_a_piece_of_nothing_but_padding_is_a_constant(
    value: float | None, runtime: str, tmp_path: Path
) -> None:
    net = OnnxNetwork(0)
    x = net.op("Relu", [net.image(1, 3, 6, 6)])
    model = net.model(net.op("Neg", [net.pad(x, value=value)]))
    # One row of padding is in front of the image.
    cut = [Pieces("pad1", ("rows",), ((1, 4),)), Pieces("neg2", ("rows",), ((1, 4),))]
    plan = plan_in_pieces(read_onnx(model), cut)
    plan.export(tmp_path / "pieces.onnx", model)
    written = onnx.load(tmp_path / "pieces.onnx")
    ops = {op.name for op in read_onnx(written).ops}
    assert "pad1[1:4]" in ops
    assert not {"pad1[0:1]", "neg2[0:1]"} & ops
    inputs = draw_inputs(model)
    for found, expected in zip(
        outputs(written, runtime, inputs), outputs(model, runtime, inputs), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
