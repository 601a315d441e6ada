"""Runs that are killed at any moment, here and on a cluster: no row is lost or done again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.batch_manifests import twenty_models, without_clocks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="groups of processes are POSIX's"),
]
_PATIENCE = 300.0
_ROWS = 80


def _batch(manifest: Path, output: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "cpplan", "batch", str(manifest), "-o", str(output)]
    return [*command, *options]


@contextmanager
def _started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process at the head of a group of its own, which is killed in the end."""
    with log.open("ab") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True)
    try:
        yield process
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None or _group_lives(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _wait_for(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not happened():
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.01)


def _parts(output: Path) -> dict[str, tuple[int, int]]:
    """Every row kept: when, and as which file, it was written."""
    folder = output.with_name(f"{output.name}.parts")
    stats = {path.name: path.stat() for path in folder.glob("*.json")}
    return {name: (stat.st_mtime_ns, stat.st_ino) for name, stat in stats.items()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """A manifest of twenty models under four settings, and the table of a run without harm."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    manifest, output = twenty_models(folder), folder / "r.parquet"
    subprocess.run(_batch(manifest, output, "-q"), check=True, stdout=subprocess.PIPE)
    rows = without_clocks(output)
    assert len(rows) == _ROWS
    assert sum(row["error"] is None for row in rows) > _ROWS // 2
    return manifest, rows


def test_a_run_killed_three_times_and_resumed_gives_the_same_table(uninterrupted, tmp_path):
    manifest, rows = uninterrupted
    output, log, draw = tmp_path / "r.parquet", tmp_path / "log", random.Random()
    kept: dict[str, tuple[int, int]] = {}
    for alone in (False, False, True):
        with _started(_batch(manifest, output), log) as run:
            aim = len(kept) + draw.randint(1, 18)
            _wait_for(lambda aim=aim: len(_parts(output)) >= aim, "rows")
            time.sleep(draw.random())
            if alone:  # the processes of its tasks see by themselves that nobody waits for them
                run.kill()
                run.wait()
                _wait_for(lambda run=run: not _group_lives(run.pid), "tasks to end")
        now = _parts(output)
        assert kept.items() <= now.items(), "a row was done again"
        kept = now
        assert not output.exists()
    with _started(_batch(manifest, output), log) as run:
        assert run.wait(_PATIENCE) == 0
    assert f"{len(kept)} kept from an earlier run" in log.read_text()
    assert without_clocks(output) == rows
    assert sorted(os.listdir(tmp_path)) == ["log", "r.parquet"]


def test_a_dask_cluster_that_loses_a_worker_gives_the_same_table(uninterrupted, tmp_path):
    manifest, rows = uninterrupted
    output, log, address = tmp_path / "r.parquet", tmp_path / "log", tmp_path / "scheduler.json"
    here = "--scheduler-file", str(address), "--no-dashboard"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", *here]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", *here]
    worker += ["--local-directory", str(tmp_path / "dask")]
    with (
        _started(dask, log),
        _started([*worker, "--name", "one"], log),
        _started([*worker, "--name", "two"], log) as lost,
    ):
        _wait_for(lambda: address.exists() and address.read_text() != "", "the scheduler")
        scheduler = json.loads(address.read_text())["address"]
        command = _batch(manifest, output, "--backend", "dask", "--scheduler", scheduler)
        with _started(command, log) as run:
            _wait_for(lambda: len(_parts(output)) >= 10, "rows")
            _kill(lost)
            assert not output.exists(), "the run was over before"
            assert run.wait(_PATIENCE) == 0
    assert without_clocks(output) == rows
    assert not _parts(output)
