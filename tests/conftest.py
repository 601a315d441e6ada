"""Fixtures that every test may use, and settings they share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

import cpplan

# No test depends on the machine's load.
settings.register_profile("cpplan", deadline=None)
settings.load_profile("cpplan")


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """No test's time limit is spent on compiling."""
    cpplan.warm_up()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Instances kept beside the repository; tests that need them skip where they are absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}")
    return folder
