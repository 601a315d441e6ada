"""Pooling against the reference kernels, and what is left to them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
from onnx.helper import make_graph, make_node, make_tensor_value_info  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from support.cases import examples  # noqa: E402

from cpplan.io.onnx.kernels import make_kernel  # noqa: E402
from cpplan.io.onnx.pooling import make_pooling  # noqa: E402


def reference(node: onnx.NodeProto, images: np.ndarray) -> np.ndarray:
    """The output of ONNX's reference kernel."""
    x = make_tensor_value_info("x", onnx.TensorProto.FLOAT, images.shape)
    y = make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    evaluator = ReferenceEvaluator(make_graph([node], "pool", [x], [y]), opsets={"": 12})
    return evaluator.run(None, {"x": images})[0]


def only(found: list[np.ndarray] | None) -> np.ndarray:
    """The result of a kernel that has one."""
    assert found is not None
    [result] = found
    return result


def one_by_one(node: onnx.NodeProto, images: np.ndarray) -> np.ndarray:
    """The output that the ONNX specification defines, computed element by element."""
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    window = given["kernel_shape"]
    axes = range(len(window))
    strides, pads = given.get("strides", [1] * len(window)), given.get("pads", [0] * 4)
    before, after = pads[: len(window)], pads[len(window) :]
    places = [
        (images.shape[2 + k] + before[k] + after[k] - window[k]) / strides[k] + 1 for k in axes
    ]
    if given.get("ceil_mode"):
        places = [math.ceil(count) for count in places]
        starts = [(places[k] - 1) * strides[k] for k in axes]
        places = [places[k] - (starts[k] >= images.shape[2 + k] + before[k]) for k in axes]
    places = [math.floor(count) for count in places]
    found = np.zeros((*images.shape[:2], *places), images.dtype)
    for place in np.ndindex(*found.shape):
        under = []
        for corner in np.ndindex(*window):
            at = [place[2 + k] * strides[k] + corner[k] - before[k] for k in axes]
            if all(0 <= at[k] < images.shape[2 + k] for k in axes):
                under.append(float(images[(*place[:2], *at)]))
        count = np.prod(window) if given.get("count_include_pad") else len(under)
        found[place] = max(under) if node.op_type == "MaxPool" else sum(under) / count
    return found


@st.composite
def nodes(draw: st.DrawFn) -> tuple[onnx.NodeProto, np.ndarray]:
    """A plain pooling of one or two axes, and images larger than its window."""
    window = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    attributes = {"kernel_shape": window}
    if draw(st.booleans()):
        sides = [draw(st.integers(0, width - 1)) for width in window * 2]
        attributes["pads"] = sides
    if draw(st.booleans()):
        attributes["strides"] = [draw(st.integers(1, 3)) for _ in window]
    kind = draw(st.sampled_from(["MaxPool", "AveragePool"]))
    if kind == "AveragePool":
        attributes["count_include_pad"] = draw(st.integers(0, 1))
    else:
        attributes["ceil_mode"] = draw(st.integers(0, 1))
    extents = [draw(st.integers(3, 7)) for _ in window]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    images = rng.standard_normal((2, 2, *extents)).astype(np.float32)
    return make_node(kind, ["x"], ["y"], **attributes), images


@settings(max_examples=examples(40))
@given(nodes())
def test_plain_pooling_is_what_onnx_says(case: tuple[onnx.NodeProto, np.ndarray]) -> None:
    node, images = case
    pool = make_pooling(node)
    assert pool is not None
    found, expected = only(pool([images])), one_by_one(node, images)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("extents", [(7, 6), (8, 9), (6, 4)])
@pytest.mark.parametrize("pads", [[0] * 4, [1] * 4, [1, 0, 0, 1]])
def test_pooling_rounded_up_is_that_of_the_reference_kernel(pads, extents) -> None:
    shape = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": pads, "ceil_mode": 1}
    node = make_node("MaxPool", ["x"], ["y"], **shape)
    images = np.random.default_rng(0).standard_normal((2, 3, *extents)).astype(np.float32)
    pool = make_pooling(node)
    assert pool is not None
    np.testing.assert_array_equal(only(pool([images])), reference(node, images))


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_plain_pooling_is_that_of_the_reference_kernels(kind: str, strides: int) -> None:
    # The same padding on all sides: else the reference MaxPool with strides of 1 is wrong.
    shape = {"kernel_shape": [3, 2], "strides": [strides] * 2, "pads": [1] * 4}
    node = make_node(kind, ["x"], ["y"], **shape)
    images = np.random.default_rng(0).standard_normal((2, 3, 7, 6)).astype(np.float32)
    pool = make_pooling(node)
    assert pool is not None
    found, expected = only(pool([images])), reference(node, images)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_average_counts_padding_only_if_asked() -> None:
    # 6 and 9 under the window's first two places, with one number of padding before.
    for count_include_pad, expected in ((0, [6.0, 7.5]), (1, [3.0, 7.5])):
        node = make_node(
            "AveragePool",
            ["x"],
            ["y"],
            kernel_shape=[2],
            pads=[1, 0],
            count_include_pad=count_include_pad,
        )
        pool = make_pooling(node)
        assert pool is not None
        assert only(pool([np.array([[[6.0, 9.0]]])])).tolist() == [[expected]]


@pytest.mark.parametrize("attributes", [{"pads": [2, 0, 0, 0]}, {"strides": [1]}])
def test_windows_that_do_not_fit_are_left_to_the_reference_kernels(
    attributes: dict[str, object],
) -> None:
    images = np.zeros((1, 1, 3, 3), np.float32)
    for more, is_left in (({}, False), (attributes, True)):
        pool = make_pooling(make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], **more))
        assert pool is not None
        assert (pool([images]) is None) == is_left


def test_other_nodes_are_left_to_the_reference_kernels() -> None:
    assert make_pooling(make_node("Relu", ["x"], ["y"])) is None
    assert make_pooling(make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], domain="mine")) is None


def test_other_images_are_left_to_the_reference_kernels() -> None:
    pool = make_pooling(make_node("MaxPool", ["x"], ["y"], kernel_shape=[2]))
    assert pool is not None
    for dtype in (np.float32, np.float16, np.int8):
        assert pool([np.zeros((1, 1, 3), dtype)]) is not None
    assert pool([np.zeros((1, 1, 3, 3), np.float32)]) is None
    assert pool([np.zeros((1, 1, 1), np.float32)]) is None
    up = make_pooling(make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], ceil_mode=1))
    assert up is not None
    assert up([np.zeros((1, 1, 1), np.float32)]) is None
    mean = make_pooling(make_node("AveragePool", ["x"], ["y"], kernel_shape=[2]))
    assert mean is not None
    assert mean([np.zeros((1, 1, 3), np.float16)]) is None
    up = make_pooling(make_node("AveragePool", ["x"], ["y"], kernel_shape=[2], ceil_mode=1))
    assert up is not None
    assert up([np.zeros((1, 1, 3), np.float32)]) is None


@pytest.mark.parametrize("by_column", [0, 1])
def test_places_are_those_of_the_greatest_in_the_whole_tensor(by_column: int) -> None:
    # Padding is never the greatest, even of the least numbers.
    images = np.array([[[[-128, 3], [3, 1]], [[-128, -128], [-128, 7]]]], np.int8)
    node = make_node(
        "MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], pads=[1, 1, 0, 0],
        storage_order=by_column,
    )  # fmt: skip
    pool = make_pooling(node)
    assert pool is not None
    found = pool([images])
    assert found is not None
    values, places = found
    assert values.tolist() == [[[[-128, 3], [3, 3]], [[-128, -128], [-128, 7]]]]
    rows = [[[[0, 1], [2, 1]], [[4, 4], [4, 7]]]]
    columns = [[[[0, 2], [1, 2]], [[4, 4], [4, 7]]]]
    assert places.tolist() == (columns if by_column else rows)


def test_a_node_that_pools_runs_by_it() -> None:
    # The reference kernel fails here.
    node = make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[1, 0])
    kernel = make_kernel(node, {}, {"": 12})
    assert kernel({"x": np.array([[[3.0, 1.0, 2.0]]], np.float32)})["y"].tolist() == [[[3, 3, 2]]]
