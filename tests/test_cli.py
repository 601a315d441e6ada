"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from instances import stubborn

from cpplan.cli import main
from cpplan.io.minimalloc_csv import read_problem, write_problem
from cpplan.plan import Plan

DATASETS = Path(__file__).resolve().parents[1] / "datasets"
SQUEEZENET = str(DATASETS / "light_squeezenet.json")

TINY = "id,lower,upper,size\na,0,2,4\nb,1,3,8\nc,2,4,4\n"


@pytest.fixture
def tiny(tmp_path):
    """Three buffers; b meets both others: the optimum is 12."""
    path = tmp_path / "tiny.csv"
    path.write_text(TINY)
    return str(path)


def test_plan_prints_a_summary_and_a_map(tiny, capsys):
    assert main(["plan", tiny, "-q"]) == 0
    out, err = capsys.readouterr()
    assert "status       optimal" in out
    assert "peak         12 B" in out
    assert "A a (4 B)   B b (8 B)   C c (4 B)" in out
    assert err == ""


def test_progress_goes_to_stderr(tiny, capsys):
    assert main(["plan", tiny]) == 0
    out, err = capsys.readouterr()
    assert "gap" not in out.splitlines()[0]
    assert "peak 12 B  bound 12 B  gap 0.00%" in err


def test_json_on_stdout_is_one_object_with_the_agreed_keys(capsys):
    assert main(["plan", SQUEEZENET, "--json", "-"]) == 0
    values = json.loads(capsys.readouterr().out)
    agreed = {"status", "peak", "lower_bound", "gap", "runtime", "method", "order", "cost"}
    assert agreed | {"base_cost", "buffers"} <= set(values)
    assert values["status"] == "optimal"
    assert values["peak"] == values["lower_bound"]
    assert set(values["buffers"][0]) == {"name", "size", "lower", "upper", "offset", "pool"}
    assert values["cost"] == values["base_cost"] == len(values["order"])


def test_saved_plans_are_the_same_bytes(tmp_path):
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    for path in (first, second):
        assert main(["plan", SQUEEZENET, "-q", "--workers", "1", "-o", str(path)]) == 0
    assert first.read_bytes() == second.read_bytes()
    assert Plan.load(first).status == "optimal"


def test_written_offsets_can_be_read_again(tiny, tmp_path):
    target = str(tmp_path / "packed.csv")
    assert main(["plan", tiny, "-q", "--csv", target]) == 0
    assert read_problem(target).fixed.keys() == {0, 1, 2}
    assert main(["plan", target, "-q"]) == 0


def test_verify_accepts_what_plan_wrote_and_rejects_what_was_changed(tmp_path, capsys):
    path = tmp_path / "plan.json"
    main(["plan", SQUEEZENET, "-q", "-o", str(path)])
    assert main(["verify", SQUEEZENET, str(path)]) == 0
    out = capsys.readouterr().out
    assert "geometry   ok" in out
    assert "simulation ok" in out
    values = json.loads(path.read_text())
    for row in values["buffers"]:
        row["offset"] = 0
    path.write_text(json.dumps(values))
    assert main(["verify", SQUEEZENET, str(path)]) == 4
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "overlap at step" in err


def test_compare_prints_every_baseline_and_cpplan(tiny, capsys):
    assert main(["compare", tiny]) == 0
    out = capsys.readouterr().out
    for name in ("cpplan", "bump", "greedy_by_size", "lowest_offset_first"):
        assert f"\n{name} " in f"\n{out}"
    assert main(["compare", tiny, "--algorithm", "bump", "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["algorithm"], row["bytes"]) for row in rows] == [("cpplan", 12), ("bump", 16)]


def test_show_prints_summary_buffers_and_map(tiny, tmp_path, capsys):
    path = str(tmp_path / "plan.json")
    main(["plan", tiny, "-q", "-o", path])
    capsys.readouterr()
    assert main(["show", path]) == 0
    out = capsys.readouterr().out
    assert "peak         12 B" in out
    assert "b          8  [1, 3)" in out


def test_what_does_not_fit_exits_3_and_says_why(tiny, tmp_path, capsys):
    assert main(["plan", tiny, "-q", "--capacity", "10"]) == 3
    _, err = capsys.readouterr()
    assert "does not fit into 10 B: 2 B are missing (live bytes)" in err
    assert "live at step 1: b (8 B), a (4 B)" in err
    assert main(["plan", tiny, "-q", "--memory-limit", "10", "--json", "-"]) == 3
    values = json.loads(capsys.readouterr().out)
    assert (values["status"], values["peak"], values["lower_bound"]) == ("infeasible", None, 12)


GRAPH = {
    "format": "cpplan.graph",
    "version": 1,
    "name": "g",
    "tensors": [
        {"name": "x", "size": 4, "kind": "input"},
        {"name": "t", "size": 4, "kind": "intermediate"},
        {"name": "y", "size": 4, "kind": "output"},
    ],
    "ops": [
        {"name": "a", "kind": "op", "inputs": ["x"], "outputs": ["t"]},
        {"name": "b", "kind": "op", "inputs": ["t"], "outputs": ["y"]},
    ],
}


def _graph(change) -> str:
    values = json.loads(json.dumps(GRAPH))
    change(values)
    return json.dumps(values)


BAD_GRAPHS = {
    "another format": (lambda g: g.update(format="onnx"), "format"),
    "another version": (lambda g: g.update(version=2), "version"),
    "negative size": (lambda g: g["tensors"][1].update(size=-4), "'t'"),
    "size not an integer": (lambda g: g["tensors"][1].update(size=1.5), "'t'"),
    "unknown tensor": (lambda g: g["ops"][1].update(inputs=["z"]), "unknown tensor 'z'"),
    "two producers": (lambda g: g["ops"][1].update(outputs=["t"]), "two producers"),
    "cycle": (lambda g: g["ops"][0].update(inputs=["y"]), "cycle: "),
}
BAD_CSV = {
    "upper not above lower": ("id,lower,upper,size\na,2,2,4\n", "upper"),
    "alignment 0": ("id,lower,upper,size,alignment\na,0,2,4,0\n", "alignment"),
    "fixed offset off its alignment": (
        "id,lower,upper,size,alignment,offset\na,0,2,4,4,2\n",
        "offset 2",
    ),
    "unknown column": ("id,lower,upper,size,colour\na,0,2,4,red\n", "colour"),
    "negative size": ("id,lower,upper,size\na,0,2,-4\n", "size"),
    "not an integer": ("id,lower,upper,size\na,0,2,many\n", "many"),
    "empty": ("", "empty"),
}


def _refused(arguments, capsys, tmp_path) -> str:
    """Exit code 2, one line on stderr, nothing on stdout, nothing written."""
    before = sorted(tmp_path.rglob("*"))
    assert main([*arguments, "-q", "-o", str(tmp_path / "plan.json")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before
    return err


@pytest.mark.parametrize(("change", "named"), BAD_GRAPHS.values(), ids=BAD_GRAPHS)
def test_bad_graphs(change, named, capsys, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(_graph(change))
    err = _refused(["plan", str(path)], capsys, tmp_path)
    assert "bad.json" in err
    assert named in err


@pytest.mark.parametrize(("text", "named"), BAD_CSV.values(), ids=BAD_CSV)
def test_bad_csv(text, named, capsys, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    err = _refused(["plan", str(path)], capsys, tmp_path)
    assert "bad.csv" in err
    assert named in err


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("broken.json", b"{", "not JSON"),
        ("broken.onnx", b"not a model at all", "broken.onnx"),
        ("empty.onnx", b"", "empty.onnx"),
        ("model.xyz", b"", ".onnx"),
        ("latin.csv", b"id,lower,upper,size\n\xff,0,1,4\n", "UTF-8"),
    ],
)
def test_unreadable_files(name, content, named, capsys, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    err = _refused(["plan", str(path)], capsys, tmp_path)
    assert name in err
    assert named in err


def test_missing_file(capsys, tmp_path):
    assert "none.onnx" in _refused(["plan", str(tmp_path / "none.onnx")], capsys, tmp_path)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--capacity", "lots"], "'lots' is not a byte count"),
        (["--time-limit", "0"], "time_limit must be positive"),
        (["--time-limit", "soon"], "'soon' is not a valid float"),
        (["--dim", "N"], "expected e.g. N=8"),
        (["--dim", "N=8"], "dims"),
        (["--inputs", "maybe"], "'maybe'"),
        (["--colour", "red"], "--colour"),
        (["--workers", "0"], "workers must be at least 1"),
    ],
)
def test_bad_options(options, named, tiny, capsys, tmp_path):
    assert named in _refused(["plan", tiny, *options], capsys, tmp_path)


def test_unwritable_target_is_refused_before_planning(tiny, capsys, tmp_path):
    target = str(tmp_path / "nowhere" / "plan.json")
    assert main(["plan", tiny, "-o", target]) == 2
    assert target in capsys.readouterr().err


def test_a_plan_is_not_a_model(tiny, capsys, tmp_path):
    path = str(tmp_path / "p.json")
    main(["plan", tiny, "-q", "-o", path])
    capsys.readouterr()
    assert main(["plan", path]) == 2
    assert "this is a plan, not a model" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": "cpplan.plan", "version": 9}', "null"])
def test_show_refuses_what_is_no_plan(text, capsys, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(text)
    assert main(["show", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "p.json" in err


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_interrupt_prints_the_best_plan_so_far(tmp_path):
    model = tmp_path / "stubborn.csv"
    write_problem(stubborn(), model)
    command = [sys.executable, "-m", "cpplan", "plan", str(model), "--json", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while b"ranking search" not in process.stderr.readline():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    values = json.loads(out)
    assert values["status"] == "feasible"
    assert values["peak"] < int(stubborn().size.sum())


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m cpplan plan {SQUEEZENET} --json - | head -c 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr
