"""Compiled loops are stored somewhere, whatever may be written."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numba
import pytest

from cpplan.runtime import loop_cache


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.setattr(loop_cache, "_folder", None)
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)
    yield
    if loop_cache._folder is not None:
        loop_cache._folder.cleanup()


def test_where_nothing_may_be_written_a_folder_of_this_process_serves(no_folder, monkeypatch):
    """Numba raises on import; once it may write, the same import succeeds."""

    def load(name):
        if loop_cache._folder is None:
            raise RuntimeError(f"cannot cache function 'f': no locator available for file {name!r}")
        stored = os.path.join(numba.config.CACHE_DIR, "loops")
        return SimpleNamespace(loop=SimpleNamespace(stats=SimpleNamespace(cache_path=stored)))

    assert "NUMBA_CACHE_DIR" not in loop_cache.environment().keys() - os.environ.keys()
    monkeypatch.setattr(loop_cache, "import_module", load)
    loop_cache.forget(["loops"])
    folder = loop_cache.environment()["NUMBA_CACHE_DIR"]
    assert folder == numba.config.CACHE_DIR
    assert os.stat(folder).st_mode & 0o077 == 0


def test_other_errors_are_not_taken_for_that(no_folder, monkeypatch):
    def load(name):
        raise RuntimeError("something else")

    monkeypatch.setattr(loop_cache, "import_module", load)
    with pytest.raises(RuntimeError, match="something else"):
        loop_cache.forget(["loops"])
    assert loop_cache._folder is None


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
