"""ONNX models with dynamic dimensions, planned once at the bounds, run at sizes below them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import cpplan
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.errors import InputError

# Two branches that are concatenated along the channels, at the front of which lies the batch.
MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 3, H, W] x) => (float[N, 5] y)
<float[4, 3, 3, 3] w1, float[6, 3, 1, 1] w2, float[10, 5] w3>
{
    a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1)
    b = Relu (a)
    s = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)
    c = Conv (s, w2)
    d = Sigmoid (c)
    e = Concat <axis = 1> (b, d)
    p = GlobalAveragePool (e)
    f = Flatten (p)
    y = Gemm (f, w3)
}
"""
SIZES = (
    {"N": 1, "H": 8, "W": 8},
    {"N": 2, "H": 16, "W": 10},
    {"N": 3, "H": 9, "W": 31},
    {"N": 7, "H": 32, "W": 15},
    {"N": 8, "H": 32, "W": 32},
)
BOUNDS = {"N": (1, 8), "H": (8, 32), "W": (8, 32)}


def model() -> onnx.ModelProto:
    loaded = onnx.parser.parse_model(MODEL)
    random = np.random.default_rng(0)
    for name, shape in (("w1", (4, 3, 3, 3)), ("w2", (6, 3, 1, 1)), ("w3", (10, 5))):
        values = random.standard_normal(shape, np.float32)
        loaded.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    del loaded.graph.value_info[:]
    return loaded


@pytest.mark.parametrize(
    "options",
    [{}, {"in_place": True, "placement": True}, {"order": "search", "in_place": True}],
    ids=["plain", "shared", "searched"],
)
def test_five_sizes_in_the_arena_of_one_plan(options: dict[str, object]):
    loaded = model()
    graph = cpplan.load(loaded, dims=BOUNDS)
    plan = plan_from_dict(plan_to_dict(cpplan.solve(graph, time_limit=10, **options)))
    # At the bounds: x 8·3·32·32, and the halved maps 8·(4 + 6)·16·16 floats.
    assert graph.tensor["x"].nbytes == 4 * 8 * 3 * 32 * 32
    assert graph.tensor["e"].nbytes == 4 * 8 * 10 * 16 * 16
    seen = set()
    for size in SIZES:
        cpplan.verify(graph, plan, dims=size)
        cpplan.simulate(graph, plan, dims=size)
        done = cpplan.execute(loaded, plan, dims=size, seed=sum(size.values()))
        sized = plan.at(size)
        assert done.arena_bytes == sized.peak <= plan.peak
        assert done.outputs["y"].shape == (size["N"], 5)
        assert np.ptp(done.outputs["y"]) > 0
        height, width = -(-size["H"] // 2), -(-size["W"] // 2)
        assert sized.shape("e") == (size["N"], 10, height, width)
        seen.add(done.arena_bytes)
    assert len(seen) == len(SIZES)
    assert plan.at(SIZES[-1]).peak == plan.peak


def test_what_is_a_view_at_one_size_only_is_copied_as_planned():
    """One position of two heads is the same bytes, transposed or not."""
    loaded = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        heads (float[N, 2, 4] x) => (float[N, 2, 4] y)
        { a = Exp(x) t = Transpose<perm = [1, 0, 2]>(a) s = Softmax<axis = 0>(a)
          u = Transpose<perm = [1, 0, 2]>(t) y = Add(s, u) }"""
    )
    for options in ({}, {"in_place": True}, {"order": "search", "in_place": True}):
        plan = cpplan.solve(cpplan.load(loaded, dims={"N": (1, 8)}), **options)
        for size in (1, 2, 8):
            given = np.arange(8 * size, dtype=np.float32).reshape(size, 2, 4) / 64
            done = cpplan.execute(loaded, plan, dims={"N": size}, inputs={"x": given})
            value = np.exp(given)
            shares = np.exp(value) / np.exp(value).sum(axis=0)
            np.testing.assert_allclose(done.outputs["y"], shares + value, rtol=1e-5)


def test_views_into_an_arena_are_where_the_plan_says():
    graph = cpplan.load(model(), dims=BOUNDS)
    plan = cpplan.solve(graph, time_limit=10)
    sized = plan.at(SIZES[1])
    arena = np.zeros(plan.peak, np.uint8)
    view = sized.view(arena, "e")
    assert view.shape == (2, 10, 8, 5)
    view[:] = 1.0
    begin = sized.offset("e")
    assert not arena[:begin].any()
    assert not arena[begin + sized.nbytes("e") :].any()


def test_sizes_beyond_the_bound_need_grow():
    plan = cpplan.solve(cpplan.load(model(), dims=BOUNDS), time_limit=10)
    with pytest.raises(InputError, match="'N' is 9, above its bound 8: the plan holds"):
        plan.at(N=9, H=32, W=32)
    grown = plan.at(N=9, H=32, W=32, grow=True)
    assert grown.peak > plan.peak
    assert grown.shape("y") == (9, 5)
