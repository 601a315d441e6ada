"""TFLite models in pieces: equal bytes in LiteRT and TFLite Micro."""

from __future__ import annotations

import random
from importlib.util import find_spec
from typing import Any

import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")
from ai_edge_litert import schema_py_generated as schema
from support.cases import seeds_and_slow
from support.split_plans import plan_in_pieces, random_pieces
from support.tflite_net import FLOAT32, INT8, new_net
from support.tflite_runtimes import draw_inputs, equal, run_litert, run_micro

import cpplan
from cpplan.io.axes import _REGISTERED, element_wise
from cpplan.io.tflite import micro_arena, planned_tflite, read_carried_plan, read_tflite
from cpplan.model.errors import InputError
from cpplan.model.pieces import Pieces


def image_network(seed: int, dtype: int) -> bytes:
    """Two to seven layers, with branches, views and results that nothing reads.

    A layer may read one tensor twice, and have several outputs. Outputs of the model may be read,
    too.
    """
    rng = random.Random(seed)
    model, net = new_net("net", dtype)
    x = net.input("x", [1, rng.choice([8, 16]), rng.choice([8, 12, 16]), rng.randint(1, 4)])
    ends, others, read = [x], [], set()
    for k in range(rng.randint(2, 7)):
        x = ends[-1 if rng.random() < 0.7 else -min(2, len(ends))]
        shape = net.shape(x)
        other = rng.choice([y for y in ends if net.shape(y) == shape])
        kind = rng.choice(["conv"] * 4 + ["depthwise", "pool", "add", "concat", "split", "view"])
        read |= {x, other}
        if kind == "add":
            ends.append(net.combine(rng.choice(["ADD", "MUL", "MAXIMUM"]), f"sum{k}", x, other))
        elif kind == "concat":
            parts = [x, other, x][: rng.randint(2, 3)]
            ends.append(net.concatenate(f"concat{k}", parts, rng.randint(1, 3)))
        elif kind == "split" and shape[1] % 2 == 0:
            made = net.split(f"split{k}", x, 2, 1)
            ends.append(made[rng.randint(0, 1)])
            others += made
        elif kind == "view":
            ends.append(net.reshape(f"view{k}", x, (1, shape[1], shape[2] * shape[3], 1)))
        elif kind == "depthwise":
            ends.append(net.depthwise(f"depthwise{k}", x))
        elif kind == "pool" and not any(extent % 2 for extent in shape[1:3]):
            ends.append(net.pool(f"pool{k}", x, rng.choice(["MAX", "AVERAGE"])))
        else:
            ends.append(
                net.conv(f"conv{k}", x, rng.randint(2, 6), rng.choice([1, 3]), rng.choice([1, 2]))
            )
    loose = [y for y in dict.fromkeys([*ends[1:-1], *others]) if y != ends[-1]]
    net.output(ends[-1], *(y for y in loose if rng.random() < (0.2 if y in read else 0.5)))
    return model.pack()


def assert_equal_in_both_runtimes(data: bytes, written: bytes) -> None:
    """Bit for bit in reference kernels; LiteRT's other kernels round by shape."""
    runs = draw_inputs(data)
    whole, pieces = (run_litert(each, runs, reference=True) for each in (data, written))
    assert equal(whole, pieces)
    if find_spec("tflite_micro") is not None:
        assert equal(run_micro(data, runs, 1 << 18), run_micro(written, runs, 1 << 18))


@pytest.mark.parametrize("dtype", [INT8, FLOAT32])
@pytest.mark.parametrize("seed", seeds_and_slow(4, 60))
def test_models_in_pieces_compute_the_same(seed: int, dtype: int) -> None:
    data = image_network(seed, dtype)
    graph = read_tflite(data)
    if not any(op.axes for op in graph.ops):
        return
    plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
    written = planned_tflite(data, plan)
    assert_equal_in_both_runtimes(data, written)
    assert micro_arena(data, plan) == micro_arena(written, read_carried_plan(written).plan)


@pytest.mark.parametrize("dtype", [INT8, FLOAT32])
@pytest.mark.parametrize("seed", seeds_and_slow(2, 60))
def test_plans_of_every_pair_of_options_compute_the_same(seed: int, dtype: int) -> None:
    rng = random.Random(seed)
    options: dict[str, Any] = {"order": rng.choice(["given", "search"])}
    options["in_place"] = rng.random() < 0.5
    options |= rng.choice([{}, {"cost_limit": rng.choice([1.1, 1.5])}, {"memory_limit": "80%"}])
    data = image_network(seed, dtype)
    graph = read_tflite(data)
    plan = cpplan.solve(graph, split=True, time_limit=0.5, workers=1, deterministic=True, **options)
    if plan.offset is not None:
        assert_equal_in_both_runtimes(data, planned_tflite(data, plan))


def operators(data: bytes) -> list[tuple[str, ...]]:
    """Names of the inputs of each operator that are no constants."""
    main = schema.ModelT.InitFromPackedBuf(data, 0).subgraphs[0]
    constants = {k for k, tensor in enumerate(main.tensors) if tensor.buffer}
    return [
        tuple(main.tensors[k].name.decode() for k in each.inputs if k not in constants)
        for each in main.operators
    ]


def test_an_operator_that_reads_a_tensor_twice_joins_its_bands_once() -> None:
    model, net = new_net("net", INT8)
    first = net.conv("conv", net.input("x", [1, 8, 8, 2]), 4)
    net.output(net.add("sum", first, first))
    data = model.pack()
    plan = plan_in_pieces(read_tflite(data), [Pieces("conv", ("rows",), ((4,),))])
    *_, joining, adding = operators(planned_tflite(data, plan))
    assert joining == ("conv[0:4]", "conv[4:8]")
    assert len(set(adding)) == 1


def test_a_part_that_ends_within_a_band_is_sliced_out_of_it() -> None:
    model, net = new_net("net", INT8)
    x = net.relu("first", net.input("x", [1, 8, 8, 4]))
    # A column of the image is four columns of the view, whose bands have whole ones.
    view = net.reshape("view", x, (1, 8, 32, 1))
    net.output(net.concatenate("join", [view, view], 3))
    data = model.pack()
    plan = plan_in_pieces(read_tflite(data), [Pieces("join", ("columns",), ((3, 20),))])
    assert_equal_in_both_runtimes(data, planned_tflite(data, plan))


def test_an_input_that_is_an_output_is_read_whole() -> None:
    model, net = new_net("net", INT8)
    x = net.input("x", [1, 8, 8, 2])
    net.output(net.conv("conv", x, 4), x)
    data = model.pack()
    plan = plan_in_pieces(read_tflite(data), [Pieces("conv", ("rows",), ((4,),))])
    assert_equal_in_both_runtimes(data, planned_tflite(data, plan))


def average_pool() -> bytes:
    """An average pool with padding, whose pieces no operator pads."""
    model, net = new_net("net", INT8)
    x = net.input("x", [1, 8, 8, 2])
    options = schema.Pool2DOptionsT()
    options.padding, options.strideH, options.strideW = 0, 1, 1
    options.filterHeight = options.filterWidth = 3
    net.output(net.run("AVERAGE_POOL_2D", "pool", [x], (1, 8, 8, 2), options))
    return model.pack()


def test_an_average_over_padded_windows_is_cut_along_channels_alone() -> None:
    assert [axis.name for axis in read_tflite(average_pool()).op["pool"].axes] == ["channels"]


def test_pieces_that_no_operator_computes_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(_REGISTERED["tflite"], "AVERAGE_POOL_2D", element_wise)
    data = average_pool()
    plan = plan_in_pieces(read_tflite(data), [Pieces("pool", ("rows",), ((4,),))])
    with pytest.raises(InputError, match=r"op 'pool' \(AVERAGE_POOL_2D\): no TFLite operator pads"):
        planned_tflite(data, plan)


def test_tensors_that_are_there_in_bands_take_no_memory() -> None:
    """TFLite Micro reserves memory for tensors that no operator accesses."""
    model, net = new_net("net", INT8)
    wide = net.conv("wide", net.input("x", [1, 32, 8, 2]), 32, 1)
    net.output(net.conv("narrow", wide, 2, 1))
    data = model.pack()
    cuts = [Pieces(op, ("rows",), ((8, 16, 24),)) for op in ("wide", "narrow")]
    written = planned_tflite(data, plan_in_pieces(read_tflite(data), cuts))
    main = schema.ModelT.InitFromPackedBuf(written, 0).subgraphs[0]
    assert {tensor.name for tensor in main.tensors}.isdisjoint({b"wide"})
    assert micro_arena(written, read_carried_plan(written).plan).head < 32 * 8 * 32
