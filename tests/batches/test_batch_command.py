"""``cpplan batch`` and what it tells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from support.batch_manifests import DATASETS

from cpplan.batches import running
from cpplan.batches.table import read_rows
from cpplan.batches.task_planning import plan_task
from cpplan.cli.main import main


@pytest.fixture
def manifest(tmp_path):
    """Two models, one of which is not there, under two settings."""
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
    monkeypatch.setattr(running, "run_here", lambda tasks, _: (plan_task(task) for task in tasks))


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
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
        manifest.read_manifest = lambda path: found
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
