"""TFLite models in the planned arena, whole and in pieces, bit for bit as LiteRT's plain run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")
from ai_edge_litert import schema_py_generated as schema
from support import tflite_networks as networks
from support.cases import seeds
from support.split_plans import plan_in_pieces, random_pieces
from support.tflite_kinds import segmentation
from support.tflite_net import FLOAT32, INT8, new_net

import cpplan
from cpplan.cli.main import main
from cpplan.io.axes import _REGISTERED
from cpplan.io.axes.operation import Operation
from cpplan.io.axes.windows import slide_axes
from cpplan.io.litert_process import shapes_by_litert
from cpplan.io.tflite import read_tflite
from cpplan.io.tflite.axes import slides_of
from cpplan.model.axes import Axis
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.pieces import Pieces


def image_network(seed: int, dtype: int) -> bytes:
    """Two to five convolutions, pools, sums, activations and resizings."""
    rng = random.Random(seed)
    model, net = new_net("net", dtype)
    ends = [net.input("x", [1, rng.choice([6, 8]), rng.choice([5, 8]), rng.randint(1, 4)])]
    for k in range(rng.randint(2, 5)):
        x = ends[-1]
        shape = net.shape(x)
        kind = rng.choice(["conv", "conv", "depthwise", "pool", "add", "relu", "resize"])
        if kind == "add" and len(ends) > 1 and net.shape(ends[-2]) == shape:
            ends.append(net.add(f"add{k}", x, ends[-2]))
        elif kind == "depthwise":
            ends.append(net.depthwise(f"depthwise{k}", x))
        elif kind == "pool":
            options = schema.Pool2DOptionsT()
            options.padding, options.strideH, options.strideW = 0, 1, 1
            options.filterHeight = options.filterWidth = 3
            pool = rng.choice(["AVERAGE_POOL_2D", "MAX_POOL_2D"])
            ends.append(net.run(pool, f"pool{k}", [x], shape, options))
        elif kind == "relu":
            ends.append(net.run("RELU", f"relu{k}", [x], shape))
        elif kind == "resize":
            size = net.numbers(f"size{k}", [shape[1] * 2, shape[2] + 1])
            options = schema.ResizeNearestNeighborOptionsT()
            larger = (1, shape[1] * 2, shape[2] + 1, shape[3])
            ends.append(
                net.run("RESIZE_NEAREST_NEIGHBOR", f"resize{k}", [x, size], larger, options)
            )
        else:
            ends.append(
                net.conv(f"conv{k}", x, rng.randint(2, 6), rng.choice([1, 3]), rng.choice([1, 2]))
            )
    net.output(ends[-1])
    return model.pack()


@pytest.mark.parametrize("dtype", [INT8, FLOAT32], ids=["int8", "float32"])
@pytest.mark.parametrize("seed", seeds(12))
def test_random_networks_compute_the_same_in_pieces(seed: int, dtype: int, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(image_network(seed, dtype))
    graph = read_tflite(path)
    plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
    done = cpplan.execute(path, plan)
    whole = cpplan.execute(path, cpplan.solve(graph, in_place=True, time_limit=1))
    assert done.steps == len(plan.order)
    for name, value in whole.outputs.items():
        np.testing.assert_array_equal(done.outputs[name], value)
        # An output that is the same everywhere would hide a wrong plan.
        assert len(np.unique(value)) > 1


def padded_pool(tmp_path: Path) -> tuple[Path, cpplan.Graph]:
    """A convolution and a pool with padding, whose pieces no operator pads."""
    model, net = new_net("net", INT8)
    x = net.conv("conv", net.input("x", [1, 8, 8, 2]), 3)
    options = schema.Pool2DOptionsT()
    options.padding, options.strideH, options.strideW = 0, 1, 1
    options.filterHeight = options.filterWidth = 3
    net.output(net.run("AVERAGE_POOL_2D", "pool", [x], (1, 8, 8, 3), options))
    path = tmp_path / "net.tflite"
    path.write_bytes(model.pack())
    return path, read_tflite(path)


def test_a_piece_without_an_operator_runs_on_zeros_around_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def windows(operation: Operation) -> Iterator[Axis]:
        return slide_axes(operation, operation.input(), slides_of(operation), 1)

    monkeypatch.setitem(_REGISTERED["tflite"], "AVERAGE_POOL_2D", windows)
    path, graph = padded_pool(tmp_path)
    plan = plan_in_pieces(graph, [Pieces("pool", ("rows", "columns"), ((4,), (3,)))])
    assert cpplan.execute(path, plan).steps == 5


def test_a_band_at_a_wrong_place_is_found(tmp_path: Path) -> None:
    path, graph = padded_pool(tmp_path)
    plan = plan_in_pieces(graph, [Pieces("conv", ("rows",), ((5,),))])
    row = {name: k for k, name in enumerate(plan.buffers)}
    offset = plan.offset.copy()
    offset[row["conv[5:8]"]] = offset[row["conv[0:5]"]]
    with pytest.raises(VerificationError, match="is not that of the unplanned run: last written"):
        cpplan.execute(path, replace(plan, offset=offset))


def test_numbers_without_axes_are_handed_from_op_to_op(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(networks.open_samples())
    plan = cpplan.solve(read_tflite(path, {"x[0]": 5}))
    done = cpplan.execute(path, plan, dims={"x[0]": 5})
    assert done.outputs["y"].shape == (5, 6)


def test_a_loop_that_collects_rows_is_executed(tmp_path: Path) -> None:
    """Nothing reads the number of its turns, which the run of the whole model does not compute."""
    path = tmp_path / "net.tflite"
    path.write_bytes(networks.collecting())
    plan = cpplan.solve(read_tflite(path), in_place=True, placement=True, time_limit=2)
    x = np.arange(12, dtype=np.float32).reshape(4, 3) / 12
    done = cpplan.execute(path, plan, inputs={"x": x})
    np.testing.assert_allclose(done.outputs["y"], np.tanh(2 * x), rtol=1e-6)


def test_a_model_that_ends_the_reference_kernels_is_executed_by_others(tmp_path: Path) -> None:
    """They abort where a scale is too small for their softmax."""
    model, net = new_net("net", INT8)
    x = net.input("x", [1, 10])
    net.subgraph.made.tensors[x].quantization.scale = [1e-9]
    net.output(net.softmax("y", x))
    path = tmp_path / "net.tflite"
    path.write_bytes(model.pack())
    with pytest.raises(InputError, match="it is ended by SIGABRT"):
        shapes_by_litert(path.read_bytes(), {0: (1, 10)}, reference=True)
    assert shapes_by_litert(path.read_bytes(), {0: (3, 10)})[1] == (3, 10)
    assert cpplan.execute(path, cpplan.solve(read_tflite(path))).outputs["y"].shape == (1, 10)


def test_inputs_may_be_given(tmp_path: Path) -> None:
    path, graph = padded_pool(tmp_path)
    plan = plan_in_pieces(graph, [Pieces("conv", ("rows",), ((5,),))])
    given = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 2)).astype(np.int8)
    done = cpplan.execute(path, plan, inputs={"x": given})
    assert done.outputs["pool"].shape == (1, 8, 8, 3)
    with pytest.raises(InputError, match=r"input 'x' is int16\[1, 8, 8, 2\]: expected int8"):
        cpplan.execute(path, plan, inputs={"x": given.astype(np.int16)})
    with pytest.raises(InputError, match="the model has no input 'y': it has x"):
        cpplan.execute(path, plan, inputs={"y": given})


def test_the_command_line_executes_a_plan_in_pieces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, graph = padded_pool(tmp_path)
    plan = plan_in_pieces(graph, [Pieces("conv", ("channels",), ((1,),))])
    plan.save(tmp_path / "plan.json")
    assert main(["verify", str(path), f"{tmp_path}/plan.json", "--execute"]) == 0
    assert "execution  ok: 3 steps" in capsys.readouterr().out
    assert main(["verify", str(path), "--execute"]) == 2
    assert capsys.readouterr().err == "cpplan: --execute needs PLAN\n"


def test_random_weights_are_refused(tmp_path: Path) -> None:
    path, graph = padded_pool(tmp_path)
    with pytest.raises(InputError, match="a TFLite model runs with those in its file"):
        cpplan.execute(path, cpplan.solve(graph), weights="random")


OPTIONS = {
    "given": (),
    "split": ("--split",),
    "in_place": ("--in-place",),
    "search": ("--order", "search"),
    "all": ("--split", "--in-place", "--order", "search"),
    "moves": ("--spill", "--pool", "fast=12 KiB", "--pool", "slow,direct=true"),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_command_line_executes_models_whose_kernels_have_scratch_memory(
    options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, plan = tmp_path / "net.tflite", str(tmp_path / "plan.json")
    path.write_bytes(segmentation(INT8))
    assert main(["plan", str(path), "-q", "--time-limit", "1", "-o", plan, *options]) == 0
    assert "up2/scratch" in cpplan.Plan.load(plan).buffers
    assert main(["verify", str(path), plan, "--execute"]) == 0
    assert "execution  ok: 14 steps" in capsys.readouterr().out


def test_pieces_have_the_scratch_memory_of_their_op(tmp_path: Path) -> None:
    model, net = new_net("net", INT8)
    net.output(net.conv("conv", net.input("x", [1, 8, 8, 4]), 4, 3, packed=True))
    path = tmp_path / "net.tflite"
    path.write_bytes(model.pack())
    graph = read_tflite(path)
    plan = plan_in_pieces(graph, [Pieces("conv", ("rows",), ((3,),))])
    assert {name for name in plan.buffers if "scratch" in name} == {
        "conv/scratch[0:3]",
        "conv/scratch[3:8]",
    }
    assert cpplan.execute(path, plan).steps == 2


def test_scratch_memory_within_a_result_is_found(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(segmentation(INT8))
    plan = cpplan.solve(read_tflite(path), time_limit=1)
    offset = plan.offset.copy()
    offset[plan.row["up2"]] = offset[plan.row["up2/scratch"]]
    with pytest.raises(
        VerificationError, match=r"op 'up2' wrote tensor 'up2/scratch'.*last written"
    ):
        cpplan.execute(path, replace(plan, offset=offset))


def test_stated_scratch_memory_replaces_that_of_the_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, plan = tmp_path / "net.tflite", str(tmp_path / "plan.json")
    path.write_bytes(segmentation(INT8))
    stated = ["--workspace", "TRANSPOSE_CONV=0", "--workspace", "up1/conv=1KiB"]
    assert main(["plan", str(path), "-q", "-o", plan, *stated]) == 0
    assert main(["verify", str(path), plan, "--execute", *stated]) == 0
    assert "execution  ok" in capsys.readouterr().out
