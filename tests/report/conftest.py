"""A browser for the tests of a session, pages in it, and a plan of a few hundred buffers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report.browser import Open, Page, open_browser
from report.html_plans import planned

from cpplan import Graph, Plan, Problem
from cpplan.report.html import plan_report


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    with open_browser() as driver:
        yield driver


@pytest.fixture
def open_page(driver: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a report; what every report must keep is asked at the end."""
    pages: list[Page] = []

    def opened(plan: Plan | str, source: Graph | Problem | None = None) -> Page:
        text = plan if isinstance(plan, str) else plan_report(plan, source)
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        pages.append(Page(driver, path))
        return pages[-1]

    yield opened
    for page in pages:
        assert page.errors() == []
        assert page.requests() == []


@pytest.fixture(scope="module")
def layers() -> tuple[Problem, Plan]:
    """454 buffers over 400 steps."""
    return planned(454, 400)
