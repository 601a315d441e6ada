"""The licence that the package declares comes with it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_licence_file_is_the_text_of_what_is_declared() -> None:
    assert 'license = "Apache-2.0"' in PROJECT
    text = (ROOT / "LICENSE").read_bytes()
    # The text at apache.org/licenses/LICENSE-2.0.txt, unchanged.
    assert hashlib.sha256(text).hexdigest() == (
        "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    )


def test_wheel_and_source_archive_hold_the_licence() -> None:
    assert re.search(r'^license-files = \["LICENSE"\]$', PROJECT, re.MULTILINE)
    archive = PROJECT.partition("[tool.hatch.build.targets.sdist]")[2].splitlines()[1]
    assert '"LICENSE"' in archive
