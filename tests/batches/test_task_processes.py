"""A task whose process fails always leaves a row that names the failure."""

from __future__ import annotations

import os

import pytest
from support import batch_manifests

from cpplan.batches.isolation import Processes
from cpplan.batches.model_entry import Model
from cpplan.batches.setting import Setting
from cpplan.batches.task import Task, make_limits, make_tasks


def _task(source: object, seconds: float | None = None, memory: str | None = None) -> Task:
    limits = make_limits(seconds, memory)
    return make_tasks([Model("model", source)], [Setting("setting")], (), limits)[0]


@pytest.mark.parametrize(
    ("task", "status", "error"),
    [
        (_task(batch_manifests.ABORTING), "crashed", "its process was ended by SIGABRT"),
        pytest.param(
            _task(batch_manifests.ENDING),
            "crashed",
            "its process ended with code 3",
            marks=pytest.mark.slow,
        ),
        (_task(batch_manifests.SLEEPING, seconds=0.5), "out of time", "more than 0.5 seconds"),
        # More than a pipe holds, so that who sends it waits for who does not read it.
        (
            _task((batch_manifests.SLEEPING, bytes(1 << 20)), seconds=0.5),
            "out of time",
            "more than 0.5 seconds",
        ),
        (_task(batch_manifests.LARGE, memory="1 GiB"), "out of memory", "MemoryError"),
    ],
)
def test_a_process_that_fails_is_a_row(task, status, error):
    row = Processes().run(task)
    assert (row["model"], row["setting"], row["key"]) == ("model", "setting", task.key)
    assert row["status"] == status
    assert error in row["error"]


def test_a_planner_that_meets_the_memory_limit_is_a_row():
    # The packages alone need more.
    source = str(batch_manifests.DATASETS / "light_squeezenet.json")
    row = Processes().run(_task(source, memory="1 MiB"))
    assert row["status"] == "out of memory"
    assert "bytes" not in row


@pytest.mark.skipif(os.name != "posix", reason="how a process ended is asked in POSIX's way")
def test_when_all_are_stopped_none_is_left_and_none_starts():
    own = Processes()
    started = [own.start(1), own.start(1)]
    own.stop()
    for process in started:
        with pytest.raises(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)  # neither alive nor waiting to be asked
        process.communicate()
        own.end(process)
    with pytest.raises(KeyboardInterrupt):
        own.start(1)


def test_a_worker_of_another_version_says_so():
    from dataclasses import replace

    from cpplan.batches.task_planning import plan_task

    row = plan_task(replace(_task("absent.json"), version="0.0"))
    assert row["status"] == "error"
    assert "not 0.0" in row["error"]
