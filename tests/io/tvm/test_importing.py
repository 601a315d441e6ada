"""ONNX models read through TVM: the graph is that of the module which TVM's importer makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

tvm = pytest.importorskip("tvm", reason="cpplan[tvm] is not installed")
onnx = pytest.importorskip("onnx", reason="cpplan[onnx] is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from support.relax_models import random_values  # noqa: E402
from support.sources import ROOT  # noqa: E402
from tvm import relax  # noqa: E402
from tvm.relax.frontend.onnx import from_onnx  # noqa: E402

import cpplan  # noqa: E402
from cpplan.cli.main import main  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402

SQUEEZENET = ROOT / "datasets/onnx/squeezenet1_1.onnx"


def model(rows: int | str = 1, kind: str = "Sigmoid") -> Any:
    """A convolution whose result two operators read, joined at the end."""
    (weights,) = random_values((3, 2, 1, 1))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node(kind, ["a"], ["c"]),
        helper.make_node("Concat", ["b", "c"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, 2, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (rows, 6, 4, 4))],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_graph_is_that_of_the_imported_module():
    module = from_onnx(model(), keep_params_in_input=True)
    module = relax.get_pipeline("zero")(relax.transform.DecomposeOpsForInference()(module))
    expected, found = cpplan.load(module), cpplan.load(model(), through="tvm")
    assert found.name == "two"
    assert (found.tensors, found.ops) == (expected.tensors, expected.ops)
    plan = cpplan.solve(found, order="search", in_place=True, time_limit=5)
    cpplan.verify(found, plan)
    assert cpplan.solve(expected, time_limit=5).peak >= plan.peak


def test_fused_ops_are_fewer_and_need_no_more_than_the_nodes():
    nodes, kernels = (cpplan.load(SQUEEZENET, through=way) for way in (None, "tvm"))
    assert len(kernels.ops) < len(nodes.ops)
    plans = [cpplan.solve(graph, time_limit=5) for graph in (nodes, kernels)]
    assert plans[1].peak < plans[0].peak


def test_open_dimensions_need_extents():
    with pytest.raises(
        InputError, match=r"dimension 'rows' is unbound: give extents, e\.g\. --dim"
    ):
        cpplan.load(model("rows"), through="tvm")
    with pytest.raises(InputError, match="'rows': through TVM, models have extents, not bounds"):
        cpplan.load(model("rows"), through="tvm", dims={"rows": (1, 4)})
    one, four = (cpplan.load(model("rows"), through="tvm", dims={"rows": n}) for n in (1, 4))
    assert 4 * sum(t.nbytes for t in one.tensors) == sum(t.nbytes for t in four.tensors)


def test_what_tvm_does_not_import_is_refused_in_one_line(tmp_path: Path):
    path = tmp_path / "net.onnx"
    nodes = [helper.make_node("Det", ["x"], ["y"])]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (2, 3, 3)), ("y", (2,)))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    with pytest.raises(InputError) as caught:
        cpplan.load(path, through="tvm")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_the_command_line_plans_and_verifies_kernels(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    common = [str(SQUEEZENET), "--through", "tvm"]
    assert main(["plan", *common, "-q", "--best", "-o", "plan.json"]) == 0
    assert main(["verify", common[0], "plan.json", *common[1:]]) == 0
    assert "simulation ok: 39 ops" in capsys.readouterr().out
    assert main(["verify", common[0], "plan.json"]) != 0
    assert main(["plan", *common, "--onnx", "other.onnx"]) == 2
    assert "--onnx writes nodes of" in capsys.readouterr().err
    assert main(["verify", common[0], "plan.json", *common[1:], "--execute"]) == 2


def test_other_models_are_not_read_through_tvm():
    with pytest.raises(InputError, match="only ONNX models are read through TVM"):
        cpplan.load(ROOT / "datasets/light_squeezenet.json", through="tvm")
