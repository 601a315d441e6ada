"""``cpplan show --explain`` and ``cpplan plan --explain``: what they print, how they fail."""

from __future__ import annotations

import pytest

from cpplan.cli.main import main
from cpplan.io.graph_json import write_graph
from cpplan.model.graph import Graph, Op, Tensor


@pytest.fixture
def model(tmp_path):
    """relu: 8 bytes in, 8 out; 16 are live unless it is done in place."""
    tensors = Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")
    op = Op("relu", "Relu", ("x",), ("y",), in_place=(("y", "x"),))
    write_graph(Graph("tiny", tensors, (op,)), tmp_path / "tiny.json")
    return str(tmp_path / "tiny.json")


@pytest.fixture
def plan(model, tmp_path, capsys):
    path = str(tmp_path / "plan.json")
    assert main(["plan", model, "-q", "-o", path]) == 0
    capsys.readouterr()
    return path


def _row(text: str, rule: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(rule)).split()[
        len(rule.split()) :
    ]


def test_plan_explains_with_bounds(model, capsys):
    assert main(["plan", model, "-q", "--explain"]) == 0
    out = capsys.readouterr().out
    assert "op relu (Relu): 16 B filled, all of the peak" in out
    assert _row(out, "no in place")[:8] == [
        "at", "most", "8", "B", "50.0%", "at", "least", "8"
    ]  # fmt: skip


def test_what_does_not_fit_is_explained_too(model, capsys):
    assert main(["plan", model, "-q", "--explain", "--capacity", "8"]) == 3
    out, err = capsys.readouterr()
    assert _row(out, "no in place")[:6] == ["at", "least", "8", "B:", "may", "fit"]
    assert "does not fit into 8 B" in err


def test_standard_output_holds_one_thing(model, capsys):
    assert main(["plan", model, "-q", "--explain", "--json", "-"]) == 2
    assert "--json -" in capsys.readouterr().err


def test_a_saved_plan_tells_its_fullest_step(plan, capsys):
    assert main(["show", plan, "--explain"]) == 0
    out = capsys.readouterr().out
    assert "fullest step     0 of 1, op relu: 16 B filled" in out
    assert "without" not in out


def test_a_saved_plan_and_its_model_tell_what_rules_cost(plan, model, capsys):
    assert main(["show", plan, "--explain", "--model", model, "--time-limit", "5"]) == 0
    row = _row(capsys.readouterr().out, "no in place")
    assert row[:6] == ["8", "B", "50.0%", "8", "B", "ops"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--model", "m.json"], "--model is what --explain needs"),
        (["--explain", "--time-limit", "1"], "--model too"),
        (["--explain", "--dim", "N=8"], "--model"),
    ],
)
def test_options_that_need_others(plan, arguments, complaint, capsys):
    assert main(["show", plan, *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_explaining_with_another_model_is_refused(plan, tmp_path, capsys):
    other = tmp_path / "other.json"
    write_graph(Graph("other", (Tensor("y", 8, kind="output"),), (Op("f", outputs=("y",)),)), other)
    assert main(["show", plan, "--explain", "--model", str(other)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "other.json" in err
