"""ONNX models written in pieces compute what the whole models do."""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import seeds

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402
from support.onnx_networks import OnnxNetwork, random_network  # noqa: E402
from support.split_plans import plan_in_pieces, random_pieces  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402
from cpplan.model.pieces import Pieces  # noqa: E402


def outputs(model: onnx.ModelProto, runtime: str, seed: int = 0) -> list[Any]:
    """Outputs on random inputs; float kernels may add up in other orders for other shapes."""
    rng = np.random.default_rng(seed)
    inputs = {
        value.name: rng.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
    }
    names = [value.name for value in model.graph.output]
    if runtime == "reference":
        return list(ReferenceEvaluator(model).run(names, inputs))
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString())
    return list(session.run(names, inputs))


RUNTIMES = [
    "reference",
    pytest.param(
        "onnxruntime",
        marks=pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs onnxruntime"),
    ),
]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("seed", seeds(20))
def test_random_networks_in_pieces_are_valid_and_compute_the_same(
    seed: int, runtime: str, tmp_path: Path
) -> None:
    model = random_network(seed)
    graph = read_onnx(model)
    plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
    plan.export(tmp_path / "pieces.onnx", model)
    written = onnx.load(tmp_path / "pieces.onnx")
    onnx.checker.check_model(written, full_check=True)
    nodes = [node.name for node in written.graph.node]
    # Pieces of nothing but padding, and what follows from these alone, are constants.
    ops = {op.name for op in read_onnx(written).ops}
    assert [name for name in nodes if name in plan.order and name in ops] == [
        name for name in plan.order if name in ops
    ]
    for found, expected in zip(outputs(written, runtime), outputs(model, runtime), strict=True):
        if expected.dtype == np.float32:
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(found, expected)


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
    plan.export(tmp_path / "pieces.onnx", model)
    written = onnx.load(tmp_path / "pieces.onnx")
    for found, expected in zip(outputs(written, runtime), outputs(model, runtime), strict=True):
        np.testing.assert_array_equal(found, expected)


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
    for found, expected in zip(outputs(written, runtime), outputs(model, runtime), strict=True):
        np.testing.assert_array_equal(found, expected)
