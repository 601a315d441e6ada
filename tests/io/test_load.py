"""``load`` picks the reader, and says so in one line where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

import cpplan
from cpplan.io import load
from cpplan.io.graph_json import write_graph
from cpplan.io.minimalloc_csv import write_problem
from cpplan.io.networkx_graph import to_networkx
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.problem import Problem

GRAPH = Graph("g", (Tensor("y", 4, kind="output"),), (Op("f", outputs=("y",)),))
PROBLEM = Problem(("a",), lower=[0], upper=[1], size=[4])


def test_load_picks_the_reader_by_suffix(tmp_path):
    write_graph(GRAPH, tmp_path / "g.json")
    write_problem(PROBLEM, tmp_path / "p.CSV")
    assert load(tmp_path / "g.json") == GRAPH
    assert load(str(tmp_path / "g.json"), name="other").name == "other"
    assert load(tmp_path / "p.CSV").names == ("a",)
    assert load(tmp_path / "p.CSV").name == "p"


def test_load_picks_the_reader_by_type():
    assert load(GRAPH) is GRAPH
    assert load(PROBLEM) is PROBLEM
    assert load(GRAPH, name="other").name == "other"
    assert load(to_networkx(GRAPH)) == GRAPH

    class Mine(nx.DiGraph):
        pass

    assert load(Mine()).ops == ()


def test_load_reads_onnx_models_in_memory(tmp_path):
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "m", [value("x", 1, ["N"])], [value("y", 1, ["N"])])
    )
    onnx.save(model, tmp_path / "m.onnx")
    for source in (model, tmp_path / "m.onnx"):
        graph = load(source, dims={"N": 3}, name="mine")
        assert isinstance(graph, Graph)
        assert graph.name == "mine"
        assert graph.tensor["y"].size == 12


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("none.json", {}, "none.json: cannot be read: No such file or directory"),
        ("none.csv", {}, "none.csv: cannot be read: No such file or directory"),
        ("none.onnx", {}, "none.onnx"),
        ("model.h5", {}, "model.h5: suffix '.h5' is not understood: expected .onnx"),
        ("model", {}, "model: suffix '' is not understood"),
        ("none.csv", {"dims": {"N": 1}}, "ONNX, torch and TFLite models only: none.csv"),
        (GRAPH, {"dims": {"N": 1}}, "dims are for ONNX, torch and TFLite models only: a Graph"),
        (3, {}, "cannot load int: expected a path"),
        (nx.Graph(), {}, "expected a directed graph"),
    ],
)
def test_what_cannot_be_loaded(source, options, message):
    with pytest.raises(InputError) as caught:
        load(source, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plan_is_no_model(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text('{"format": "cpplan.plan", "version": 1}')
    with pytest.raises(InputError, match=r"plan\.json: this is a plan, not a model"):
        load(path)


def test_a_csv_loads_no_heavy_package(tmp_path):
    write_problem(PROBLEM, tmp_path / "p.csv")
    code = (
        f"import sys, cpplan; cpplan.load({str(tmp_path / 'p.csv')!r}); "
        "print([m for m in ('networkx', 'onnx', 'ortools', 'pandas') if m in sys.modules])"
    )
    root = Path(cpplan.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout == "[]\n"


def test_in_place_kinds_are_taken_from_the_user(tmp_path):
    tensors = (Tensor("x", 4, kind="input"), Tensor("y", 4, kind="output"))
    graph = Graph("g", tensors, (Op("f", "Softmax", ("x",), ("y",)),))
    path = tmp_path / "g.json"
    write_graph(graph, path)
    for source in (graph, path, to_networkx(graph)):
        assert load(source).ops[0].in_place == ()
        assert load(source, in_place={"Softmax": True}).ops[0].in_place == (("y", "x"),)
    with pytest.raises(InputError, match=r"g.json: in_place: the graph has no op of kind 'Add'"):
        load(path, in_place={"Add": True})


def test_a_problem_has_no_kinds_of_op(tmp_path):
    write_problem(PROBLEM, tmp_path / "p.csv")
    with pytest.raises(InputError, match=r"p.csv: in_place is for graphs only: a problem has no"):
        load(tmp_path / "p.csv", in_place={"Add": True})


@pytest.mark.parametrize("dims", [[8], "N=8", 8])
@pytest.mark.parametrize("name", ["m.onnx", "m.pt2", "m.tflite", "m.json"])
def test_dims_without_names_are_refused(dims, name):
    with pytest.raises(InputError, match=r"^dims=.*expected values by name"):
        load(name, dims=dims)
