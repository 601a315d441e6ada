"""Plans of random graphs and of a real model hold at every size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples
from support.sized_graphs import plan

import cpplan
from cpplan.io.sizes_json import sizes_from_dict, sizes_to_dict
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.symbols import Symbols

EXTENTS = "1", "3", "n", "n + m", "2*n", "max(n - m, 0)", "6 - n", "m//2", "n*m"


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Ops that read some of what is there, make one or two tensors, and views of these."""
    known = {"t0": (draw(st.sampled_from(EXTENTS)),)}
    tensors = [Tensor("t0", shape=known["t0"], dtype="int8", kind="input")]
    ops = []
    for k in range(draw(st.integers(1, 5))):
        names = [t.name for t in tensors]
        read = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        made, pairs = [], []
        for _ in range(draw(st.integers(1, 2))):
            kind = draw(st.sampled_from(["intermediate", "output"]))
            shape = (draw(st.sampled_from(EXTENTS)),)
            align = draw(st.sampled_from([1, 1, 4]))
            name = f"t{len(tensors)}"
            tensors.append(Tensor(name, shape=shape, dtype="int8", kind=kind, alignment=align))
            made.append(name)
            pairs += [(name, r) for r in read if known[r] == shape]
            known[name] = shape
            if draw(st.integers(0, 4)) == 0:
                view = f"t{len(tensors)}"
                tensors.append(Tensor(view, shape=shape, dtype="int8", view_of=(name, 0)))
                known[view] = shape
        ops.append(Op(f"op{k}", "op", tuple(read), tuple(made), in_place=tuple(pairs)))
    return Graph("random", tuple(tensors), tuple(ops), Symbols({"n": (0, 6), "m": (0, None)}))


POINTS = st.fixed_dictionaries({"n": st.integers(0, 6), "m": st.integers(0, 6)})


@settings(max_examples=examples(20), derandomize=True)
@given(
    graphs(),
    st.lists(POINTS, min_size=1, max_size=3, unique_by=lambda p: (p["n"], p["m"])),
    POINTS,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["given", "search"]),
)
def test_offsets_hold_at_every_size(graph, sizes, other, stable, in_place, order):
    found = plan(graph, sizes, prefix_stable=stable, in_place=in_place, order=order)
    assert found.status == "optimal"
    cpplan.verify(graph, found.plan)
    for size in found.sizes:
        at = found.plan.at(size.values)
        assert at.peak == size.arena
        assert size.alone_bound <= size.alone <= size.arena
        assert size.lower_bound <= size.arena <= found.plan.peak
        assert cpplan.simulate(graph, found.plan, dims=size.values).arena_bytes == size.arena
        concrete = graph.at(size.values)
        assert at.plan_at.size.tolist() == [concrete.tensor[b].nbytes for b in at.plan_at.buffers]
    assert sizes_from_dict(sizes_to_dict(found)) == found
    concrete = graph.at(other)
    within = all(other[name] <= max(size[name] for size in sizes) for name in other)
    below = within and any(
        all(
            concrete.tensor[b].nbytes <= graph.at(size).tensor[b].nbytes for b in found.plan.buffers
        )
        for size in sizes
    )
    if below:
        cpplan.verify(graph, found.plan, dims=other)
        cpplan.simulate(graph, found.plan, dims=other)
    else:
        with pytest.raises(InputError, match=r"above its bound|not within any of the sizes"):
            found.plan.at(other)


def dynamic_model():
    """Two dense layers of a batch of N, with its mean in between."""
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in (("w", (8, 32)), ("v", (32, 4)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("ReduceMean", ["r"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["r", "mean"], ["q"]),
        helper.make_node("MatMul", ["q", "v"], ["y1"]),
        helper.make_node("MatMul", ["r", "v"], ["y2"]),
        helper.make_node("Add", ["y1", "y2"], ["y"]),
    ]
    ends = [
        [helper.make_tensor_value_info(name, floats, ["N", width])]
        for name, width in (("x", 8), ("y", 4))
    ]
    graph = helper.make_graph(nodes, "layers", *ends, weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_a_dynamic_batch_is_run_at_every_size():
    """r and q, of 128 N bytes each, are live with the mean of 128, and then with y1 of 16 N."""
    model = dynamic_model()
    graph = cpplan.load(model, dims={"N": (1, None)})
    found = plan(graph, [{"N": 1}, {"N": 8}, {"N": 32}], prefix_stable=True)
    assert found.status == "optimal"
    assert [size.alone for size in found.sizes] == [256 + 128, 2048 + 128, 8192 + 512]
    # One of r and q is on top of the other and y1, which have room for N = 32: 4096 + 512.
    assert [size.arena for size in found.sizes] == [4608 + 128 * n for n in (1, 8, 32)]
    for n, arena in ((1, 4736), (8, 5632), (32, 8704)):
        done = cpplan.execute(model, found.plan, dims={"N": n})
        assert done.arena_bytes == arena
        alone = cpplan.execute(model, cpplan.solve(graph.at(N=n)), dims={"N": n})
        assert np.array_equal(done.outputs["y"], alone.outputs["y"])
    assert cpplan.execute(model, found.plan, dims={"N": 5}).arena_bytes == 4608 + 128 * 5
