"""Random ONNX networks whose ops run in pieces, bit for bit as the unsplit run."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cases import seeds

onnx = pytest.importorskip("onnx")
from support.onnx_networks import OnnxNetwork, random_network  # noqa: E402
from support.split_plans import plan_in_pieces, random_pieces  # noqa: E402

import cpplan  # noqa: E402
from cpplan.cli.main import main  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.model.errors import VerificationError  # noqa: E402
from cpplan.model.pieces import Pieces  # noqa: E402


@pytest.mark.parametrize("seed", seeds(20))
def test_random_networks_compute_the_same_in_pieces(seed: int) -> None:
    print(f"seed {seed}")
    model = random_network(seed)
    graph = read_onnx(model)
    pieces = random_pieces(random.Random(seed), graph)
    plan = plan_in_pieces(graph, pieces)
    cpplan.verify(graph, plan)
    done = cpplan.execute(model, plan)
    whole = cpplan.execute(model, cpplan.solve(graph, time_limit=1))
    for name, value in whole.outputs.items():
        if np.issubdtype(value.dtype, np.floating):
            # Without pieces, kernels add up in the order that a library chooses.
            np.testing.assert_allclose(done.outputs[name], value, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(done.outputs[name], value)


def conv_net() -> tuple[onnx.ModelProto, cpplan.Graph]:
    net = OnnxNetwork(1)
    x = net.image(1, 4, 12, 8)
    model = net.model(net.conv(net.op("Relu", [net.conv(x, 8, pads=[1] * 4)]), 4, pads=[1] * 4))
    return model, read_onnx(model)


def test_sums_over_channels_are_added_up_in_place() -> None:
    model, graph = conv_net()
    plan = plan_in_pieces(graph, [Pieces("conv2", ("terms",), ((3, 5),))])
    assert [name for name in plan.order if name.startswith("conv2")] == [
        "conv2[0:3]",
        "conv2[3:5]",
        "conv2[5:8]",
    ]
    assert cpplan.execute(model, plan).steps == 5


def test_a_band_at_a_wrong_place_is_found() -> None:
    model, graph = conv_net()
    plan = plan_in_pieces(graph, [Pieces("conv0", ("rows",), ((5,),))])
    row = {name: k for k, name in enumerate(plan.buffers)}
    offset = plan.offset.copy()
    offset[row["t0[0:5]"]] = offset[row["t0[5:12]"]]
    with pytest.raises(VerificationError, match="is not that of the unplanned run: last written"):
        cpplan.execute(model, replace(plan, offset=offset))


def test_the_c_header_names_bands(tmp_path: Path) -> None:
    _, graph = conv_net()
    plan = plan_in_pieces(graph, [Pieces("conv0", ("rows",), ((5,),))])
    plan.export(tmp_path / "plan.h")
    text = (tmp_path / "plan.h").read_text()
    row = list(plan.buffers).index("t0[5:12]")
    assert f"_T0_5_12__OFFSET {plan.offset[row]}u /* t0[5:12]: steps" in text


def test_the_command_line_executes_a_plan_in_pieces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, graph = conv_net()
    onnx.save(model, tmp_path / "net.onnx")
    plan = plan_in_pieces(graph, [Pieces("conv2", ("channels",), ((1,),))])
    plan.save(tmp_path / "plan.json")
    assert main(["verify", f"{tmp_path}/net.onnx", f"{tmp_path}/plan.json", "--execute"]) == 0
    assert "execution  ok: 4 steps" in capsys.readouterr().out


def test_a_plan_in_pieces_of_another_model_is_refused() -> None:
    model, graph = conv_net()
    plan = plan_in_pieces(graph, [Pieces("conv0", ("rows",), ((5,),))])
    other = replace(plan, pieces=(Pieces("conv0", ("rows",), ((4,),)),))
    with pytest.raises(VerificationError, match="order names unknown op"):
        cpplan.execute(model, other)
