"""Compiled loops are stored somewhere, whatever may be written, and used only if they are whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpplan.runtime import loop_cache
from cpplan.runtime.loop_compiler.loop import compiled_loop
from cpplan.runtime.user_cache import VARIABLE

KERNEL = "cpplan.packing.sizes.fit_kernel"


@compiled_loop
def doubled(number):
    return 2 * number


def forget_loaded(monkeypatch):
    monkeypatch.setattr(doubled, "_codes", {})
    monkeypatch.setattr(doubled, "_last", {})


@pytest.fixture
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    forget_loaded(monkeypatch)
    return tmp_path


@pytest.fixture
def no_folder(monkeypatch):
    """Nothing may be written beside the source, and there is no home."""
    access = os.access
    monkeypatch.delenv(VARIABLE, raising=False)
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
    assert doubled(3) == 6
    folder = loop_cache.environment()[VARIABLE]
    assert os.stat(folder).st_mode & 0o077 == 0
    assert len(list(Path(folder).rglob("*.loop"))) == 1
    assert loop_cache.stamp("sizes", [KERNEL]).is_relative_to(folder)


def test_a_module_that_is_not_there_is_an_error():
    with pytest.raises(ModuleNotFoundError, match=r"no module cpplan\.nothing"):
        loop_cache.forget(["cpplan.nothing"])


@pytest.mark.parametrize("damage", ["cut", "emptied", "changed"])
def test_damaged_code_is_compiled_again(own_folder, monkeypatch, damage):
    """To run it could end the process."""
    assert doubled(3) == 6
    (stored,) = own_folder.rglob("*.loop")
    whole = stored.read_bytes()
    harmed = {"cut": whole[:-100], "emptied": b"", "changed": whole[:-1] + bytes([whole[-1] ^ 1])}
    stored.write_bytes(harmed[damage])
    forget_loaded(monkeypatch)
    assert doubled(4) == 8
    assert len(stored.read_bytes()) == len(whole)


def test_another_processor_has_code_of_its_own(own_folder, monkeypatch):
    """Two of one name may differ in features; they may share a home folder."""
    assert doubled(3) == 6
    other = loop_cache.machine() + "without AVX"
    monkeypatch.setattr("cpplan.runtime.loop_compiler.loop.machine", lambda: other)
    forget_loaded(monkeypatch)
    assert doubled(3) == 6
    assert len(list(own_folder.rglob("*.loop"))) == 2


@pytest.mark.slow
def test_processes_may_store_at_once(own_folder):
    """Each compiles, and each finds whole code afterwards."""
    script = "import cpplan; cpplan.warm_up('sizes')"
    command = [sys.executable, "-c", script]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    names = {file.name.split("-")[0] for file in own_folder.rglob("*.loop")}
    assert all(name.startswith("fit_kernel.") for name in names)
    assert names
    assert loop_cache.stamp("sizes", [KERNEL]).exists()


def test_compiling_goes_on_where_a_process_was_ended(tmp_path, monkeypatch):
    forgotten = []
    monkeypatch.setattr(loop_cache, "forget", forgotten.append)
    present = tmp_path / "cpplan-some-1.compiled"
    loop_cache.begin_storing(present, "some", ["loops"])
    loop_cache.begin_storing(present, "some", ["loops"])
    assert forgotten == [["loops"]]


def test_stored_loops_of_other_code_are_not_ready(tmp_path, monkeypatch):
    """Whoever goes back to it compiles it again: its loops have been deleted since."""
    monkeypatch.setattr(loop_cache, "forget", lambda names: None)
    present, other = (tmp_path / f"cpplan-some-{digest}.compiled" for digest in (1, 2))
    kept = tmp_path / "cpplan-else-1.compiled"
    other.touch()
    kept.touch()
    loop_cache.begin_storing(present, "some", ["loops"])
    assert not other.exists()
    assert kept.exists()
