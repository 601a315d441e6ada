"""The generators of the committed graphs, for tests that run them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DATASETS = Path(__file__).resolve().parents[2] / "datasets"


@pytest.fixture
def generators_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of ``datasets/generators`` can be imported during the test."""
    monkeypatch.syspath_prepend(str(DATASETS))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "generators"]:
        del sys.modules[name]
