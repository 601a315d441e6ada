"""Compiled loops are stored somewhere, whatever may be written, and used only if they are whole."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from cpplan.packing.loops import SIZES
from cpplan.packing.sizes.fit_kernel import first_fit
from cpplan.runtime import compiled, loop_cache
from cpplan.runtime.compiled import LoopGroup
from cpplan.runtime.loop_cache import VARIABLE
from cpplan.runtime.loop_compiler.library import open_library


def packed() -> list[int]:
    """Offsets of two buffers that are live together, by a compiled loop."""
    zero, one = np.zeros(2, np.int64), np.ones(2, np.int64)
    offset = np.full(2, -1)
    first_fit(
        np.arange(2), zero, one, np.array([3, 4]), one, np.full(2, 9), np.zeros(2, int), offset
    )
    return offset.tolist()


def forget_loaded(monkeypatch):
    """Let this process know as little as a new one."""
    monkeypatch.setattr(compiled, "_ready", set())
    monkeypatch.setattr(compiled, "_loaded", set())
    for kernel in SIZES.kernels:
        monkeypatch.setitem(loop_cache.ready_libraries, kernel, Path("of no process"))
    open_library.cache_clear()
    monkeypatch.setattr(first_fit, "_codes", {})
    monkeypatch.setattr(first_fit, "_last", {})


@pytest.fixture
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    forget_loaded(monkeypatch)
    return tmp_path


@pytest.fixture
def made(monkeypatch):
    """Numbers of loops in the libraries that are made."""
    from cpplan.runtime.loop_compiler import library

    counts: list[int] = []
    make = library.make_library
    monkeypatch.setattr(
        library, "make_library", lambda uses: (counts.append(len(uses)), make(uses))[1]
    )
    return counts


@pytest.fixture
def no_folder(monkeypatch):
    """Nothing may be written beside the source, and there is no home."""
    access = os.access
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(loop_cache, "_folder", None)
    monkeypatch.setattr(
        os, "access", lambda path, mode: path.name != "__pycache__" and access(path, mode)
    )
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    forget_loaded(monkeypatch)
    yield
    if loop_cache._folder is not None:
        loop_cache._folder.cleanup()


def test_where_nothing_may_be_written_a_folder_of_this_process_serves(no_folder):
    assert VARIABLE not in loop_cache.environment()
    compiled.compile_groups([SIZES])
    folder = loop_cache.environment()[VARIABLE]
    assert os.stat(folder).st_mode & 0o077 == 0
    assert len(list(Path(folder).rglob("*.loops"))) == 1
    assert packed() == [0, 3]


def test_a_module_that_is_not_there_is_an_error():
    with pytest.raises(ModuleNotFoundError, match=r"cpplan\.nothing"):
        loop_cache.library_path("some", ["cpplan.nothing"], "cpplan")


def test_a_library_is_made_once_and_then_read(own_folder, monkeypatch, made):
    assert not compiled.is_ready(SIZES)
    compiled.compile_groups([SIZES])
    forget_loaded(monkeypatch)
    assert compiled.is_ready(SIZES)
    compiled.compile_groups([SIZES])
    assert packed() == [0, 3]
    assert made == [1]


@pytest.mark.parametrize("damage", ["cut", "emptied", "changed", "deleted"])
def test_a_damaged_library_is_not_run(own_folder, monkeypatch, made, damage):
    """That could end the process. The loop is compiled by itself, and the group by the next run."""
    compiled.compile_groups([SIZES])
    (stored,) = own_folder.rglob("*.loops")
    whole = stored.read_bytes()
    harmed = {"cut": whole[:-100], "emptied": b"", "changed": whole[:-1] + bytes([whole[-1] ^ 1])}
    forget_loaded(monkeypatch)
    assert compiled.is_ready(SIZES)
    if damage == "deleted":
        stored.unlink()
    else:
        stored.write_bytes(harmed[damage])
    assert packed() == [0, 3]
    assert made == [1, 1]
    forget_loaded(monkeypatch)
    assert not compiled.is_ready(SIZES)
    compiled.compile_groups([SIZES])
    assert stored.read_bytes() == whole


def test_another_processor_has_code_of_its_own(own_folder, monkeypatch):
    """Two of one name may differ in features; they may share a home folder."""
    compiled.compile_groups([SIZES])
    other = loop_cache.machine() + "without AVX"
    monkeypatch.setattr(loop_cache, "machine", lambda: other)
    forget_loaded(monkeypatch)
    assert not compiled.is_ready(SIZES)
    compiled.compile_groups([SIZES])
    assert len(list(own_folder.rglob("*.loops"))) == 2


def test_code_of_other_source_is_deleted(tmp_path):
    name = loop_cache._short(loop_cache.machine().encode())
    old, present = (tmp_path / f"cpplan-some-{name}-{digest}.loops" for digest in (1, 2))
    kept = tmp_path / f"cpplan-else-{name}-1.loops", tmp_path / "cpplan-some-other-1.loops"
    for path in (old, *kept):
        path.touch()
    loop_cache.store(present, "some", b"code")
    assert sorted(tmp_path.iterdir()) == sorted((present, *kept))


def test_two_that_need_a_group_compile_it_once(tmp_path, monkeypatch):
    """Each would take the lock of a process of its own; the second waits, and finds the library."""
    begun, ended, stored = threading.Event(), threading.Event(), tmp_path / "library"
    uses: list[str] = []

    def use(group):
        uses.append(group.name)
        begun.set()
        assert ended.wait(60)

    monkeypatch.setattr(compiled, "_path", lambda group: stored)
    monkeypatch.setattr(compiled, "store", lambda path, group, library: path.touch())
    monkeypatch.setattr(LoopGroup, "use", use)
    group = LoopGroup("some", (), "here:use")
    threads = [threading.Thread(target=compiled.compile_for_another, args=([group],)) for _ in "ab"]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    threads[1].join(0.1)
    ended.set()
    for thread in threads:
        thread.join(60)
    assert uses == ["some"]


@pytest.mark.slow
def test_processes_that_need_a_group_at_once_find_it_whole(own_folder):
    command = [sys.executable, "-c", "import cpplan; print(cpplan.warm_up('niche')['niche'] > 0)"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [process.communicate()[0] for process in processes]
    assert sorted(answers) == ["False\n", "False\n", "True\n"]
    assert len(list(own_folder.rglob("*.loops"))) == 1
