"""A batch compiles the loops that its tasks need, once, and plans the other tasks meanwhile."""

from __future__ import annotations

import sys
from contextlib import closing
from threading import Event
from traceback import walk_stack

import pytest
from support.batch_manifests import DATASETS

from cpplan import Problem
from cpplan.batches.dispatch import run_here
from cpplan.batches.isolation import Processes
from cpplan.batches.model_entry import Model
from cpplan.batches.setting import Setting
from cpplan.batches.task import Task, make_limits, make_tasks
from cpplan.runtime import compiled, loop_cache
from cpplan.solving.all_loops import GROUPS

EASY = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])


@pytest.fixture
def cold(monkeypatch, tmp_path):
    """Nothing is compiled yet, for this process and those that it starts."""
    monkeypatch.setenv("CPPLAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled, "_ready", set())
    monkeypatch.setattr(compiled, "_loaded", set())
    monkeypatch.setattr(compiled, "_compiling", {})
    for group in GROUPS.values():
        for kernel in group.kernels:
            path = loop_cache.ready_libraries.get(kernel, tmp_path)
            monkeypatch.setitem(loop_cache.ready_libraries, kernel, path)
    yield tmp_path / "cache"
    for process in list(compiled._compiling.values()):
        process.kill()
        process.communicate()


def task(name: str, source: object = EASY, **options: str) -> Task:
    settings = [Setting("setting", options)]
    return make_tasks([Model(name, source)], settings, (), make_limits(None, None))[0]


def needy(name: str) -> Task:
    """A task whose heuristic is a compiled loop."""
    return task(name, algorithm="segregated_fit")


def test_two_tasks_that_need_a_group_compile_it_once(cold):
    """The plan is that of an installation that has compiled it before."""
    notes: list[str] = []
    with closing(run_here([needy("one"), needy("two")], 2, notes.append)) as rows:
        found = {row["model"]: row["bytes"] for row in rows}
    assert found == {"one": 12, "two": 12}
    assert notes == ["compiling the loops for many-buffers, once for this installation"]
    assert len(list(cold.rglob("*.loops"))) == 1


def test_other_tasks_are_planned_while_loops_are_compiled(cold, monkeypatch):
    """A run that is stopped meanwhile has their rows."""
    sleeping = [sys.executable, "-c", "import time; time.sleep(1000)"]
    monkeypatch.setattr(compiled, "_command", lambda groups: sleeping)
    model = str(DATASETS / "light_squeezenet.json")
    tasks = [needy("needy"), task("one"), task("two", model)]
    begun = Event()
    rows = run_here(tasks, 2, lambda note: begun.set())
    assert [next(rows)["model"], next(rows)["model"]] == ["one", "two"]
    assert begun.wait(60)
    with pytest.raises(KeyboardInterrupt):
        rows.throw(KeyboardInterrupt)
    # No thread is left that would begin to compile later, for whoever runs then.
    stacks = (walk_stack(frame) for frame in sys._current_frames().values())
    assert all(frame.f_code is not Processes.run.__code__ for s in stacks for frame, _ in s)
    # Easy models need none.
    assert list(cold.rglob("*.loops")) == []


def test_a_group_that_does_not_compile_is_an_error_of_its_rows(cold, monkeypatch):
    failing = [sys.executable, "-c", "raise ValueError('no such register')"]
    monkeypatch.setattr(compiled, "_command", lambda groups: failing)
    row = Processes().run(needy("needy"))
    assert row["status"] == "error"
    assert row["error"].endswith("failed: ValueError: no such register")
