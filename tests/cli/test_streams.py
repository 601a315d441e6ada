"""Standard streams that are closed or full, and Ctrl-C: what was planned is not lost."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.cli_models import DATASETS, SQUEEZENET
from support.instances import stubborn

from cpplan.cli.main import main
from cpplan.io import plan_json
from cpplan.io.minimalloc_csv import write_problem
from cpplan.model.plan import Plan


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


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interrupt_after_the_search_loses_nothing(tiny, tmp_path, monkeypatch):
    describe = plan_json.plan_text

    def interrupted(plan, **options):
        os.kill(os.getpid(), signal.SIGINT)
        return describe(plan, **options)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(plan_json, "plan_text", interrupted)
    assert main(["plan", tiny, "-q", "-o", str(tmp_path / "p.json")]) == 0
    assert Plan.load(tmp_path / "p.json").peak == 12
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interrupt_while_the_command_loads_is_one_line():
    code = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from cpplan.__main__ import run\n"
        "sys.exit(run())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "cpplan: interrupted\n")


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


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m cpplan plan {SQUEEZENET} --json - | head -c 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr


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
