"""``cpplan batch`` and what it tells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support.batch_manifests import DATASETS

from cpplan.batches import running
from cpplan.batches.table import read_rows
from cpplan.batches.task_planning import plan_task
from cpplan.cli.batch_command import batch as batch_command
from cpplan.cli.main import main
from cpplan.solving.request import OPTIONS


@pytest.fixture
def manifest(tmp_path):
    """A manifest of two models, one of them missing, under two settings."""
    path = tmp_path / "m.toml"
    path.write_text(
        f"""
        [[model]]
        name = "chain"
        source = '{DATASETS / "hand" / "chain.json"}'
        [[model]]
        source = "absent.onnx"
        [[setting]]
        name = "given"
        [[setting]]
        name = "searched"
        order = "search"
        """
    )
    return path


@pytest.fixture
def here(monkeypatch):
    """Tasks run in this process, which is faster."""
    monkeypatch.setattr(running, "run_here", lambda tasks, *_: (plan_task(task) for task in tasks))


def test_a_line_a_row_and_the_counts(manifest, here, tmp_path, capsys):
    output = tmp_path / "r.parquet"
    assert main(["batch", str(manifest), "-o", str(output)]) == 0
    out, err = capsys.readouterr()
    assert out == f"4 rows in {output}: 2 optimal, 2 error\n"
    lines = err.splitlines()
    assert lines[0] == "0/4"
    assert len(lines) == 5
    assert lines[1].startswith("1/4  ")
    assert " a minute  " in lines[1]
    assert lines[1].endswith(" left  chain  given  optimal  24 B")
    assert "absent.onnx  searched  error: " in lines[4]
    assert main(["batch", str(manifest), "-o", str(output)]) == 0
    assert capsys.readouterr().err == "4/4  4 kept from an earlier run\n"
    assert main(["batch", str(manifest), "-o", str(output), "--retry", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_the_command_line_goes_before_the_manifest(manifest, here, tmp_path, capsys):
    output = tmp_path / "r.parquet"
    manifest.write_text('baselines = ["bump"]\n' + manifest.read_text())
    assert main(["batch", str(manifest), "-o", str(output), "-q"]) == 0
    assert read_rows(output)[0]["ratio_bump"] == 24 / 40
    assert main(["batch", str(manifest), "-o", str(output), "-q", "--baseline", "best_fit"]) == 0
    assert "ratio_bump" not in read_rows(output)[0]
    assert capsys.readouterr().err == ""
    assert main(["batch", str(manifest), "-o", str(output)]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "0/4  4 rows of another batch or version will be replaced"


@pytest.fixture
def folder(tmp_path):
    """A folder of one model."""
    path = tmp_path / "models"
    path.mkdir()
    shutil.copy(DATASETS / "hand" / "chain.json", path)
    return path


def test_a_folder_is_planned_under_the_options_of_plan(folder, here, tmp_path):
    output = tmp_path / "t.parquet"
    options = ["--order", "search", "--in-place", "--time-limit", "5", "--memory-limit", "60%"]
    assert main(["batch", str(folder), *options, "-o", str(output), "-q"]) == 0
    (row,) = read_rows(output)
    asked = {"order": "search", "in_place": True, "time_limit": 5.0, "memory_limit": "60%"}
    assert json.loads(row["options"]) == asked | {"workers": 1}
    named = "in_place=true, time_limit=5, memory_limit=60%, order=search"
    assert (row["model"], row["setting"]) == ("chain.json", named)


def test_a_folder_without_options_has_the_default_setting(folder, here, tmp_path):
    output = tmp_path / "t.parquet"
    assert main(["batch", str(folder), "-o", str(output), "-q"]) == 0
    (row,) = read_rows(output)
    assert (row["setting"], json.loads(row["options"])) == ("default", {"workers": 1})


def test_other_options_of_a_folder_are_another_setting(folder, here, tmp_path, capsys):
    output = tmp_path / "t.parquet"
    given = ["batch", str(folder), "-o", str(output)]
    assert main([*given, "--seed", "1"]) == 0
    assert main([*given, "--seed", "1"]) == 0
    assert "1/1  1 kept" in capsys.readouterr().err
    assert main([*given, "--seed", "2"]) == 0
    assert "1 row of another batch" in capsys.readouterr().err


def test_batch_has_every_planning_option_of_plan():
    names = {parameter.name for parameter in batch_command.params}
    assert {*OPTIONS} - {"suggest"} <= names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cost-limit", "2"], "cost_limit limits what runs again: it needs remat=True"),
        (["--algorithm", "luck"], "algorithm 'luck' is not understood"),
        (["--capacity", "x"], "--capacity: 'x' is not a byte count"),
        (["--pool", "=1"], "--pool '=1': expected NAME"),
    ],
)
def test_options_that_contradict_are_refused_before_any_task(
    folder, capsys, tmp_path, options, message
):
    assert main(["batch", str(folder), *options, "-o", str(tmp_path / "t.parquet")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "t.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["m.toml", "-o", "r.parquet", "--in-place", "--seed", "0"],
            "m.toml: a manifest has its own settings: expected a folder with --in-place, --seed",
        ),
        (["absent.toml", "-o", "r.parquet", "--seed", "1"], "absent.toml: cannot be read"),
        (["m.toml", "-o", "r.csv"], "r.csv: expected a name that ends in .parquet"),
        (["absent.toml", "-o", "r.parquet"], "absent.toml: cannot be read"),
        (["a" * 300, "-o", "r.parquet"], f"{'a' * 300}: cannot be read: File name too long"),
        (["m.toml", "-o", "no/r.parquet"], "no/r.parquet: cannot be written: there is no folder"),
        (["m.toml", "-o", "r.parquet", "--backend", "dask"], "give --scheduler"),
        (["m.toml", "-o", "r.parquet", "--baseline", "x"], "algorithm 'x' is not understood"),
        (["m.toml", "-o", "r.parquet", "--task-memory", "x"], "--task-memory: 'x' is not a byte"),
    ],
)
def test_errors_are_one_line(manifest, here, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(manifest.parent)
    assert main(["batch", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert sorted(os.listdir()) == ["m.toml"]


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal on POSIX systems")
def test_ctrl_c_keeps_what_is_there_and_says_how_to_go_on(tmp_path):
    # The second task would sleep far beyond the test's patience.
    program = """if True:
        import sys
        import cpplan
        from support import batch_manifests
        from cpplan.batches import manifest
        from cpplan.batches.model_entry import Model
        from cpplan.batches.setting import Setting
        from cpplan.cli.main import main
        tiny = cpplan.Problem(("a",), lower=[0], upper=[1], size=[4])
        models = Model("tiny", tiny), Model("sleeping", batch_manifests.SLEEPING)
        found = manifest.Manifest(models, (Setting("s"),), {})
        manifest.read_manifest = lambda path, options: found
        sys.exit(main(["batch", "m.toml", "-o", sys.argv[1], "--processes", "1"]))
    """
    output, tests = tmp_path / "r.parquet", str(DATASETS.parent / "tests")
    run = subprocess.Popen(
        [sys.executable, "-c", program, str(output)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": tests},
    )  # fmt: skip
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("1/2"):
            break
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    said = "cpplan: interrupted: 1 rows are kept, and the same command goes on from them\n"
    assert (out, err) == ("", said)
    assert len(list((tmp_path / "r.parquet.parts").glob("*.json"))) == 1
    # What joblib keeps beside its processes notices within moments that they are gone.
    for _ in range(200):
        try:
            os.killpg(run.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        pytest.fail("a process of the batch is left")
