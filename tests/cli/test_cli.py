"""The command line: what it prints, what it writes, and what becomes of the files it is given."""

from __future__ import annotations

import gc
import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.cli_models import DATASETS, SQUEEZENET, TINY

import cpplan
from cpplan.cli.main import main
from cpplan.io.minimalloc_csv import read_problem
from cpplan.model.errors import InputError
from cpplan.model.plan import Plan
from cpplan.program.anf import Program


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
    clock = iter([0.0, 4.0, 0.0, 40.0, 0.0, 10.0, 12.0])
    limits = []

    def solve_request(_, request):
        limits.append(request.time_limit)
        raise InputError("seen")

    fake = SimpleNamespace(monotonic=lambda: next(clock), process_time=lambda: 3.0)
    monkeypatch.setattr("cpplan.cli.main.time", fake)
    monkeypatch.setattr("cpplan.cli.plan_command.time", fake)
    monkeypatch.setattr("cpplan.solving.pipeline.solve_request", solve_request)
    assert main(["plan", tiny, "--time-limit", "10"]) == 2
    assert main(["plan", tiny, "--time-limit", "10"]) == 2
    assert main(["plan", tiny, "--time-limit", "10", "--deterministic"]) == 2
    monkeypatch.setattr("sys.argv", ["cpplan", "plan", tiny, "--time-limit", "10"])
    assert main() == 2  # the process itself took 3 s to begin
    assert limits == [6.0, 0.001, 10.0, 5.0]


def test_reading_and_writing_storages_count_towards_the_time_limit(tiny, monkeypatch):
    clock, limits = iter([0.0, 4.0]), []

    def share_storages(_, *, time_limit, **options):
        limits.append(time_limit)
        raise InputError("seen")

    monkeypatch.setattr("cpplan.cli.main.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(
        "cpplan.cli.storages_command.time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    monkeypatch.setattr("cpplan.packing.storage_ids.share_storages", share_storages)
    assert main(["storages", tiny, "--time-limit", "10"]) == 2
    assert limits == [4.0]


def test_json_is_made_only_where_asked_for(tiny, monkeypatch):
    monkeypatch.setattr("cpplan.io.plan_json.plan_text", None)
    assert main(["plan", tiny, "-q"]) == 0


def test_offsets_of_a_searched_order_are_written_with_its_lifespans(tmp_path):
    target = tmp_path / "packed.csv"
    model, plan = str(DATASETS / "ordering" / "darts_cell.json"), tmp_path / "p.json"
    arguments = ["--order", "search", "--csv", str(target), "-o", str(plan)]
    assert main(["plan", model, "-q", *arguments]) == 0
    written, found = read_problem(target), Plan.load(plan)
    assert dict(zip(written.names, written.lower.tolist(), strict=True)) == dict(
        zip(found.buffers, found.lower.tolist(), strict=True)
    )


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


def test_the_collector_runs_rarely_in_a_process_of_one_command_only(tiny, monkeypatch):
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        assert main(["plan", tiny, "-q"]) == 0
        assert gc.get_threshold() == (700, 10, 10)
        monkeypatch.setattr("sys.argv", ["cpplan", "plan", tiny, "-q"])
        assert main() == 0
        assert gc.get_threshold()[0] > 700
    finally:
        gc.set_threshold(*before)
