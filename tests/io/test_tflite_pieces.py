"""TFLite models in pieces: equal bytes in LiteRT and TFLite Micro."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")
from ai_edge_litert import schema_py_generated as schema
from support.cases import seeds
from support.split_plans import plan_in_pieces, random_pieces
from support.tflite_net import FLOAT32, INT8, new_net
from support.tflite_runtimes import draw_inputs, equal, run_litert, run_micro

from cpplan.io.tflite import micro_arena, planned_tflite, read_carried_plan, read_tflite
from cpplan.model.errors import InputError
from cpplan.model.pieces import Pieces


def image_network(seed: int, dtype: int) -> bytes:
    """Two to five convolutions, pools and sums."""
    rng = random.Random(seed)
    model, net = new_net("net", dtype)
    x = net.input("x", [1, rng.choice([8, 16]), rng.choice([8, 12, 16]), rng.randint(1, 4)])
    ends = [x]
    for k in range(rng.randint(2, 5)):
        x = ends[-1]
        kind = rng.choice(["conv", "conv", "depthwise", "pool", "add"])
        if kind == "add" and len(ends) > 1 and net.shape(ends[-2]) == net.shape(x):
            ends.append(net.add(f"add{k}", x, ends[-2]))
        elif kind == "depthwise":
            ends.append(net.depthwise(f"depthwise{k}", x))
        elif kind == "pool" and not any(extent % 2 for extent in net.shape(x)[1:3]):
            ends.append(net.pool(f"pool{k}", x))
        else:
            ends.append(
                net.conv(f"conv{k}", x, rng.randint(2, 6), rng.choice([1, 3]), rng.choice([1, 2]))
            )
    net.output(ends[-1])
    return model.pack()


@pytest.mark.parametrize("dtype", [INT8, FLOAT32])
@pytest.mark.parametrize("seed", seeds(10))
def test_models_in_pieces_compute_the_same(seed: int, dtype: int) -> None:
    data = image_network(seed, dtype)
    graph = read_tflite(data)
    plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
    written = planned_tflite(data, plan)
    carried = read_carried_plan(written).plan
    assert micro_arena(data, plan) == micro_arena(written, carried)
    runs = draw_inputs(data)
    whole, pieces = (run_litert(each, runs, delegates=False) for each in (data, written))
    micro = run_micro(written, runs, 1 << 18)
    if dtype == INT8:
        assert equal(whole, pieces)
        assert equal(run_micro(data, runs, 1 << 18), micro)
    else:
        for one, other in zip(whole, pieces, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_pool_whose_pieces_no_operator_pads_is_refused() -> None:
    model, net = new_net("net", INT8)
    x = net.input("x", [1, 8, 8, 2])
    options = schema.Pool2DOptionsT()
    options.padding, options.strideH, options.strideW = 0, 1, 1
    options.filterHeight = options.filterWidth = 3
    net.output(net.run("AVERAGE_POOL_2D", "pool", [x], (1, 8, 8, 2), options))
    data = model.pack()
    plan = plan_in_pieces(read_tflite(data), [Pieces("pool", ("rows",), ((4,),))])
    with pytest.raises(InputError, match=r"op 'pool' \(AVERAGE_POOL_2D\): no TFLite operator pads"):
        planned_tflite(data, plan)
