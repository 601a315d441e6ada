"""Batch normalization by given statistics, in every opset."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402
from support.split_plans import plan_in_pieces  # noqa: E402

import cpplan  # noqa: E402
from cpplan.io.onnx.kernels import make_kernel  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.own_kernels import own_kernel  # noqa: E402
from cpplan.model.pieces import Pieces  # noqa: E402

OPSETS = [7, 8, 9, 13, 14, 15]


def norm_node(*outputs: str, **given: object) -> onnx.NodeProto:
    """A normalization of ``x`` by ``s``, ``b``, ``m`` and ``v``."""
    return helper.make_node("BatchNormalization", list("xsbmv"), ["y", *outputs], **given)


def operands() -> dict[str, np.ndarray]:
    """An image of three channels, and their vectors."""
    rng = np.random.default_rng(0)
    image = rng.standard_normal((2, 3, 8, 4)).astype(np.float32)
    vectors = {name: (rng.random(3) + 0.5).astype(np.float32) for name in "sbmv"}
    return {"x": image, **vectors}


@pytest.mark.parametrize("opset", OPSETS)
def test_given_statistics_are_used(opset: int) -> None:
    given = operands()
    s, b, m, v = (given[name].reshape(3, 1, 1) for name in "sbmv")
    expected = s * (given["x"] - m) / np.sqrt(v + 0.01) + b
    found = make_kernel(norm_node(epsilon=0.01), {}, {"": opset})(given)["y"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", OPSETS)
def test_pieces_compute_the_same_bits(opset: int) -> None:
    given = operands()
    info = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, given["x"].shape)
        for name in "xy"
    ]
    stored = [onnx.numpy_helper.from_array(given[name], name) for name in "sbmv"]
    graph = helper.make_graph([norm_node()], "norm", info[:1], info[1:], stored)
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    cut = [Pieces("BatchNormalization_0", ("rows", "channels"), ((3,), (1,)))]
    plan = plan_in_pieces(read_onnx(model), cut)
    assert cpplan.execute(model, plan, inputs={"x": given["x"]}).steps == 4


def test_statistics_of_the_image_are_left_to_the_reference_kernels() -> None:
    assert own_kernel(norm_node(), 9) is not None
    assert own_kernel(norm_node("mean", "var"), 9) is None
    assert own_kernel(norm_node(), 6) is None
    assert own_kernel(norm_node(is_test=1), 6) is not None
    assert own_kernel(norm_node(training_mode=1), 14) is None
    assert own_kernel(helper.make_node("Relu", ["x"], ["y"]), 9) is None
