"""``cpplan sizes``: what it prints and writes, how it fails."""

from __future__ import annotations

import json

import pytest

from cpplan.cli.main import main
from cpplan.io.graph_json import write_graph
from cpplan.io.sizes_json import sizes_from_dict
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.symbols import Symbols
from cpplan.solving.sizes.sizes_plan import SizesPlan

AT = "--at", "n=1", "--at", "n=11"


@pytest.fixture
def model(tmp_path):
    """Two tensors live together, of 100 n and n + 9 bytes.

    For n = 1 and n = 11: 110 and 1120 B planned alone, 120 and 1120 B with offsets that stay.
    """
    a = Tensor("a", shape=("100*n",), dtype="int8", kind="input")
    b = Tensor("b", shape=("n + 9",), dtype="int8", kind="output")
    op = Op("f", inputs=("a",), outputs=("b",))
    path = tmp_path / "pair.json"
    write_graph(Graph("pair", (a, b), (op,), Symbols({"n": (1, None)})), path)
    return str(path)


def test_the_table_goes_to_stdout(model, capsys):
    assert main(["sizes", model, *AT, "--prefix-stable", "-q"]) == 0
    out, err = capsys.readouterr()
    assert "status       optimal" in out
    rows = [line.split() for line in out.splitlines()[-2:]]
    assert rows == [
        ["n=1", "120", "120", "B", "120", "110", "1.091", "optimal"],
        ["n=11", "1120", "1120", "B", "1120", "1120", "1.000", "optimal"],
    ]
    assert err == ""


def test_progress_goes_to_stderr(model, capsys):
    assert main(["sizes", model, *AT]) == 0
    assert "peak 1120 B  bound 1120 B" in capsys.readouterr().err


def test_sizes_writes_the_same_file_twice_and_a_table(model, tmp_path, capsys):
    first, second, table = tmp_path / "1.json", tmp_path / "2.json", tmp_path / "sizes.csv"
    options = [*AT, "--prefix-stable", "--deterministic", "-q"]
    assert main(["sizes", model, *options, "-o", str(first), "--csv", str(table)]) == 0
    assert main(["sizes", model, *options, "-o", str(second)]) == 0
    assert first.read_bytes() == second.read_bytes()
    assert [size.arena for size in SizesPlan.load(first).sizes] == [120, 1120]
    assert table.read_text().splitlines() == [
        "n,arena,lower_bound,alone,alone_bound,capacity,price,status",
        f"1,120,120,110,110,,{120 / 110},optimal",
        "11,1120,1120,1120,1120,,1.0,optimal",
    ]
    capsys.readouterr()
    assert main(["verify", model, str(first)]) == 0
    assert "geometry   ok: 2 buffers within 1120 B" in capsys.readouterr().out
    assert main(["show", str(first)]) == 0
    shown = capsys.readouterr().out
    assert "status       optimal\nminimised    largest arena 1120, " in shown
    assert [line.split()[:2] for line in shown.splitlines()[7:9]] == [
        ["n=1", "120"],
        ["n=11", "1120"],
    ]


def test_json_on_stdout_is_one_object(model, capsys):
    assert main(["sizes", model, *AT, "--json", "-", "-q"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["format"] == "cpplan.sizes"
    assert values["runtime"] > 0
    assert [size["values"] for size in values["sizes"]] == [{"n": 1}, {"n": 11}]
    assert sizes_from_dict(values).plan.peak == 1120


def test_what_does_not_fit_ends_with_3(model, tmp_path, capsys):
    """One capacity is for all sizes: 1119 bytes are one too few at n = 11."""
    target = tmp_path / "none.json"
    assert main(["sizes", model, *AT, "--capacity", "1119", "-q", "-o", str(target)]) == 3
    out, err = capsys.readouterr()
    assert "status       infeasible" in out
    assert "n=11 does not fit into 1119 B: 1 B are missing" in err
    assert len(err.splitlines()) == 1
    assert SizesPlan.load(target).plan.offset is None
    limits = ["--capacity", "120", "--capacity", "any"]
    assert main(["sizes", model, *AT, *limits, "-q"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Missing option '--at'"),
        (["--at", "n"], "--at 'n' is not understood"),
        (["--at", "n=-1"], "--at 'n=-1' is not understood"),
        (["--at", "n=1,n=2"], "'n' is 1 already"),
        (["--at", "m=1"], "there is no dimension 'm'"),
        (["--at", "n=0"], "below its lower bound 1"),
        (["--at", "n=1", "--at", "n=1"], "two sizes have the label 'n=1'"),
        ([*AT, "--capacity", "lots"], "--capacity: 'lots' is not a byte count"),
        ([*AT, *["--capacity", "1"] * 3], "--capacity is given 3 times"),
        ([*AT, "--dim", "n=4"], "dims are for ONNX, torch and TFLite models only"),
        ([*AT, "-o", "no/such/folder/x.json"], "there is no folder"),
    ],
)
def test_errors_are_one_line(model, options, message, capsys):
    assert main(["sizes", model, *options, "-q"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert message in err


def test_a_model_without_variables_is_named(tmp_path, capsys):
    path = tmp_path / "fixed.json"
    write_graph(Graph("fixed", (Tensor("x", 4, kind="input"),), ()), path)
    assert main(["sizes", str(path), *AT, "-q"]) == 2
    assert "has no symbolic dimensions: plan it with solve" in capsys.readouterr().err


def test_onnx_dimensions_need_no_bounds(tmp_path, capsys):
    """x, y and z have 16 n bytes; two are live at a step."""
    parser = pytest.importorskip("onnx.parser")
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 8, opset_import: ["" : 17]>
        tiny (float[N, H] x) => (float[N, H] z) { y = Exp(x) z = Neg(y) }"""
    path = tmp_path / "tiny.onnx"
    onnx.save(parser.parse_model(text), path)
    assert main(["sizes", str(path), "--dim", "H=4", "--at", "N=1", "--at", "N=3", "-q"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-2:]]
    assert [row[:3] for row in rows] == [["N=1,", "H=4", "64"], ["N=3,", "H=4", "96"]]
