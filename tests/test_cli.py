"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from instances import stubborn

import cpplan
from cpplan.anf import Program
from cpplan.cli import main
from cpplan.errors import InputError
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
    work = sum(op.cost for op in cpplan.load(SQUEEZENET).ops)
    assert values["cost"] == values["base_cost"] == work


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
    "size beyond 62 bits": (
        lambda g: g["tensors"][1].update(size=2**63),
        "'t': size must be below",
    ),
    "alignment": (
        lambda g: g["tensors"][1].update(alignment=2**62),
        "'t': alignment must be below",
    ),
    "shape": (
        lambda g: g["tensors"][1].update(shape=[2**40, 2**40]),
        "'t': the product of its shape must be below 2**62",
    ),
    "bytes of a shape": (
        lambda g: g["tensors"][1].update(shape=[2**61], dtype="float32"),
        "'t': bytes of its shape and dtype must be below 2**62",
    ),
    "alignments without a common multiple": (
        lambda g: g["tensors"].extend(
            {"name": f"v{a}", "size": 0, "view_of": "t", "alignment": a} for a in (2**61, 3)
        ),
        "buffer 't': the alignments of the tensors in it",
    ),
    "lone surrogate": (lambda g: g["tensors"][1].update(name="\ud800"), "lone surrogate"),
    "cost": (lambda g: g["ops"][1].update(cost=10**400), "'b': cost must be a number >= 0 below"),
    "very long name": (lambda g: g["ops"][1].update(inputs=["z" * 100_000]), "…zzz"),
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
    assert len(err) < 1200
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
        (["--capacity", "lots"], "--capacity: 'lots' is not a byte count"),
        (["--capacity", "9" * 5000], "--capacity: '9999"),
        (["--memory-limit", str(2**63)], "--memory-limit: a byte count must be below 2**63"),
        (["--dim", "N=" + "9" * 5000], "expected at most 18 digits"),
        (["--dim", "N=8", "--dim", "N=9"], "'N' is bound to 8 already"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--time-limit", "0"], "0.0 is not in the range"),
        (["--time-limit", "soon"], "'soon' is not a valid float"),
        (["--dim", "N"], "expected e.g. N=8"),
        (["--dim", "N=8"], "dims"),
        (["--inputs", "maybe"], "'maybe'"),
        (["--colour", "red"], "--colour"),
        (["--workers", "0"], "0 is not in the range"),
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
        # At the end of the stream, what follows fails.
        while (line := process.stderr.readline()) and b"lowest_offset_first" not in line:
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    values = json.loads(out)
    assert values["status"] == "feasible"
    assert values["peak"] < int(stubborn().size.sum())


@pytest.fixture
def pipe(tmp_path):
    """Something that is there and no file."""
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
@pytest.mark.parametrize("option", ["-o", "--csv", "--json"])
def test_what_is_no_regular_file_is_not_replaced(option, tiny, pipe, capsys):
    assert main(["plan", tiny, option, str(pipe)]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"cpplan: {pipe}: is not a regular file\n")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
@pytest.mark.parametrize("suffix", [".json", ".csv", ".onnx"])
def test_what_is_no_regular_file_is_not_read(suffix, pipe, capsys):
    path = pipe.rename(pipe.with_suffix(suffix))
    assert main(["plan", str(path)]) == 2
    assert capsys.readouterr().err == f"cpplan: {path}: is not a regular file\n"


def test_a_symbolic_link_is_followed(tiny, tmp_path):
    link, target = tmp_path / "link.json", tmp_path / "target.json"
    link.symlink_to(target)
    for _ in range(2):
        assert main(["plan", tiny, "-q", "-o", str(link)]) == 0
    assert link.is_symlink()
    assert Plan.load(target).peak == 12


def test_outputs_that_would_be_lost_are_refused(tiny, tmp_path, capsys):
    other = tmp_path / "other.csv"
    other.hardlink_to(tiny)
    plan = str(tmp_path / "plan.json")
    for options, reason in (
        (["-o", tiny], f"-o {tiny}: would overwrite the file that is read"),
        (["--csv", str(other)], f"--csv {other}: would overwrite the file that is read"),
        (["-o", plan, "--json", plan], f"-o {plan}: is the same file as that of --json"),
        (["-o", plan, "--csv", f"{tmp_path}/./plan.json"], "is the same file as that of -o"),
        (["-o", "-"], "-o '-': expected the name of a file"),
        (["--csv", "-"], "--csv '-': expected the name of a file"),
        (["-o", ""], "-o '': expected the name of a file"),
        (["-o", str(tmp_path / ("x" * 300))], "cannot be written: File name too long"),
    ):
        assert main(["plan", tiny, "-q", *options]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert reason in err
    assert Path(tiny).read_text() == TINY
    assert not Path(plan).exists()


def test_a_name_as_long_as_names_may_be_can_be_written(tiny, tmp_path):
    target = tmp_path / ("x" * 250 + ".json")
    assert main(["plan", tiny, "-q", "-o", str(target)]) == 0
    assert Plan.load(target).peak == 12


def test_reading_the_model_counts_towards_the_time_limit(tiny, monkeypatch):
    clock = iter([0.0, 4.0, 0.0, 40.0, 0.0])
    limits = []

    def solve(*_, time_limit, **__):
        limits.append(time_limit)
        raise InputError("seen")

    monkeypatch.setattr(
        "cpplan.terminal.plan_command.time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    monkeypatch.setattr("cpplan.pipeline.solve", solve)
    assert main(["plan", tiny, "--time-limit", "10"]) == 2
    assert main(["plan", tiny, "--time-limit", "10"]) == 2
    assert main(["plan", tiny, "--time-limit", "10", "--deterministic"]) == 2
    assert limits == [6.0, 0.001, 10.0]


def test_json_is_made_only_where_asked_for(tiny, monkeypatch):
    monkeypatch.setattr(Plan, "to_json", None)
    assert main(["plan", tiny, "-q"]) == 0


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interrupt_after_the_search_loses_nothing(tiny, tmp_path, monkeypatch):
    describe = Plan.to_dict

    def interrupted(self, **options):
        os.kill(os.getpid(), signal.SIGINT)
        return describe(self, **options)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(Plan, "to_dict", interrupted)
    assert main(["plan", tiny, "-q", "-o", str(tmp_path / "p.json")]) == 0
    assert Plan.load(tmp_path / "p.json").peak == 12
    assert signal.getsignal(signal.SIGINT) is before


class _Full(io.StringIO):
    """A stream on a device without room."""

    def flush(self):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("arguments", [["plan", SQUEEZENET, "-q"], ["--help"]])
def test_standard_output_without_room_is_an_error(arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", _Full())
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err == "cpplan: cannot write to standard output: No space left on device\n"


def test_a_closed_standard_output_is_an_error_before_planning(tiny, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["plan", tiny, "--json", "-"]) == 2
    assert capsys.readouterr().err == "cpplan: cannot write to standard output: it is closed\n"


@pytest.mark.parametrize("stream", [None, _Full()])
def test_progress_that_nobody_can_see_breaks_no_run(stream, tiny, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", stream)
    assert main(["plan", tiny]) == 0
    assert "peak         12 B" in capsys.readouterr().out


def test_characters_that_the_terminal_lacks_are_escaped(tmp_path, monkeypatch):
    path = tmp_path / "m.csv"
    path.write_text("id,lower,upper,size\nöl,0,1,4\n", encoding="utf-8")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    assert main(["plan", str(path), "-q"]) == 0
    assert b"A \\xf6l (4 B)" in raw.getvalue()


ODD = "a\x1b[2J\x07\u2028\u202e\n" + "b" * 100_000


@pytest.fixture
def odd(tmp_path):
    """Two buffers; the name of one would clear the screen and fill it."""
    values = json.loads(json.dumps(GRAPH))
    values["name"] = values["tensors"][1]["name"] = values["ops"][0]["outputs"][0] = ODD
    values["ops"][1]["inputs"] = [ODD]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(values))
    return str(path)


def test_names_never_reach_the_terminal_raw(odd, tmp_path, capsys):
    plan = str(tmp_path / "plan.json")
    assert main(["plan", odd, "-o", plan]) == 0
    assert main(["show", plan]) == 0
    assert main(["verify", odd, plan]) == 0
    assert main(["plan", odd, "--capacity", "1"]) == 3
    values = json.loads(Path(plan).read_text())
    for row in values["buffers"]:
        row["offset"] = 0
    Path(plan).write_text(json.dumps(values))
    assert main(["verify", odd, plan]) == 4
    out, err = capsys.readouterr()
    assert r"a\x1b[2J\x07\u2028\u202e\n" in out
    assert r"a\x1b[2J\x07\u2028\u202e\n" in err
    assert (out + err).replace("\n", "").isprintable()
    assert max(map(len, (out + err).splitlines())) < 1200


def test_errors_name_their_files_once(tiny, tmp_path, capsys):
    plan = str(tmp_path / "plan.json")
    main(["plan", SQUEEZENET, "-q", "-o", plan])
    assert main(["verify", tiny, plan]) == 4
    assert capsys.readouterr().err.startswith(f"cpplan: {tiny}, {plan}: a bare problem has no")
    clash = tmp_path / "clash.csv"
    clash.write_text("id,lower,upper,size,offset\na,0,2,4,0\nb,0,2,4,2\n")
    for command in ("plan", "compare"):
        assert main([command, str(clash)]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"cpplan: {clash}: the fixed offsets contradict")
        assert err.count(str(clash)) == 1


def test_only_an_onnx_model_can_be_executed(tiny, tmp_path, capsys):
    plan = str(tmp_path / "none.json")
    assert main(["verify", tiny, plan, "--execute"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"cpplan: {tiny}: --execute needs an ONNX model\n")


@pytest.mark.parametrize("field", ["peak", "lower_bound", "capacity", "cost", "gap", "runtime"])
@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan")])
def test_show_refuses_numbers_beyond_reason(field, value, tiny, tmp_path, capsys):
    path = tmp_path / "p.json"
    main(["plan", tiny, "-q", "-o", str(path)])
    capsys.readouterr()
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    assert main(["show", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"p.json: not a valid plan: {field} " in err


def test_show_names_the_file_whose_plan_makes_no_sense(tiny, tmp_path, capsys):
    path = tmp_path / "p.json"
    main(["plan", tiny, "-q", "-o", str(path)])
    capsys.readouterr()
    values = json.loads(path.read_text())
    values["buffers"][0]["upper"] = 0
    path.write_text(json.dumps(values))
    assert main(["show", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"cpplan: {path}: buffer 'a': upper must be greater than lower")


def test_offsets_of_a_searched_order_are_written_with_its_lifespans(tmp_path):
    target = tmp_path / "packed.csv"
    model, plan = str(DATASETS / "ordering" / "darts_cell.json"), tmp_path / "p.json"
    arguments = ["--order", "search", "--csv", str(target), "-o", str(plan)]
    assert main(["plan", model, "-q", *arguments]) == 0
    written, found = read_problem(target), Plan.load(plan)
    assert dict(zip(written.names, written.lower.tolist(), strict=True)) == dict(
        zip(found.buffers, found.lower.tolist(), strict=True)
    )


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m cpplan plan {SQUEEZENET} --json - | head -c 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr


def test_a_searched_order_is_given_back_as_text_and_as_a_model(tmp_path):
    onnx = pytest.importorskip("onnx")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = str(folder / "light_shufflenet.onnx")
    outputs = {name: str(tmp_path / name) for name in ("plan.json", "order.txt", "model.onnx")}
    command = ["plan", model, "-q", "--order", "search", "-o", outputs["plan.json"]]
    assert main([*command, "--program", outputs["order.txt"], "--onnx", outputs["model.onnx"]]) == 0
    searched = Plan.load(outputs["plan.json"])
    assert searched.status == "optimal"
    program = Program.parse(Path(outputs["order.txt"]).read_text())
    assert program.names == searched.order
    # In the rewritten file, the listed order is the one that was found.
    given = cpplan.solve(cpplan.load(outputs["model.onnx"]))
    assert given.peak == searched.peak
    assert main(["verify", outputs["model.onnx"], outputs["plan.json"]]) == 0


def test_without_a_plan_nothing_but_its_json_is_written(tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    command = ["plan", str(folder / "light_shufflenet.onnx"), "-q", "--memory-limit", "1KiB"]
    names = {"--onnx": "model.onnx", "--program": "order.txt", "--csv": "offsets.csv"}
    command += [text for option, name in names.items() for text in (option, str(tmp_path / name))]
    for remat in ([], ["--remat"]):
        assert main([*command, *remat, "-o", str(tmp_path / "plan.json")]) == 3
        assert "does not fit" in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
        assert Plan.load(tmp_path / "plan.json").status == "infeasible"


@pytest.mark.parametrize("option", ["--onnx", "--program"])
def test_an_order_needs_a_model_that_has_ops(option, tiny, capsys, tmp_path):
    _refused(["plan", tiny, option, str(tmp_path / "out")], capsys, tmp_path)


def test_names_that_csv_cannot_hold_are_refused_before_planning(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cpplan.pipeline.solve", None)
    path, target = tmp_path / "long.json", tmp_path / "packed.csv"
    path.write_text(
        _graph(lambda g: g["tensors"][0].update(name="n" * 200_000)).replace(
            '["x"]', json.dumps(["n" * 200_000])
        )
    )
    assert main(["plan", str(path), "--csv", str(target)]) == 2
    err = capsys.readouterr().err
    assert "an id must have from 1 to 131072 characters" in err
    assert not target.exists()


def test_standard_streams_may_be_closed(tmp_path):
    """The real thing: each stream closed in turn, as a shell does it."""
    command = f"{sys.executable} -m cpplan plan {SQUEEZENET} -o {tmp_path}/p.json"
    for closed, code in ((">&-", 2), ("2>&-", 0), (">&- 2>&-", 2)):
        done = subprocess.run(f"{command} {closed}", shell=True, capture_output=True, check=False)
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr
        assert Plan.load(tmp_path / "p.json").status == "optimal"


def test_an_interrupt_while_the_plan_is_written_loses_nothing():
    # The JSON is longer than a pipe holds: its first byte is here, the rest waits for a reader.
    command = [
        sys.executable,
        "-m",
        "cpplan",
        "plan",
        str(DATASETS / "light_densenet121.json"),
        "--json",
        "-",
        "-q",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)  # it arrives while the writer waits
        rest, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert json.loads(first + rest)["status"] == "optimal"
