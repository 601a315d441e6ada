"""The garbage collector pauses while much is made, and goes on as before."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import cpplan
from cpplan.model.errors import InputError
from cpplan.runtime.collection import without_collection


def test_collection_goes_on_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"format": "cpplan.graph", "version": 1}')
    assert gc.isenabled()
    with pytest.raises(InputError, match="missing key"):
        cpplan.load(path)
    assert gc.isenabled()


def test_collection_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with without_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
