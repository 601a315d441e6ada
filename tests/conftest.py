"""Fixtures that every test may use, and settings they share."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support.cases import FACTOR
from support.cli_models import TINY

import cpplan
from cpplan.runtime.budget import Tuning, tuned, tuning_in_use, using

# No test depends on the machine's load.
settings.register_profile("cpplan", deadline=None, max_examples=30 * FACTOR)
settings.load_profile("cpplan")


def pytest_sessionstart(session: pytest.Session) -> None:
    """No test's time limit is spent on compiling: that is done before, once for all processes.

    Ctrl-C interrupts, as tests of it need, also where a shell has started them in the background.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(session.config, "workerinput"):
        cpplan.warm_up()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: there is none, and looking takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A CSV with three buffers; b meets both others: the optimum is 12."""
    path = tmp_path / "tiny.csv"
    path.write_text(TINY)
    return str(path)


@pytest.fixture
def tune() -> Iterator[Callable[..., None]]:
    """Overrides fields of a room for a test: ``tune(PackingTuning, uncompiled_seconds=0.0)``."""
    with ExitStack() as stack:

        def override(room: type, **values: Any) -> None:
            changed = {room: replace(tuned(room), **values)}
            stack.enter_context(using(Tuning({**tuning_in_use().rooms, **changed})))

        yield override
