"""The guide's tables of measured training steps hold what the CSV files hold."""

from __future__ import annotations

import csv

import pytest
from support.training_table import (
    INDUCTOR_MODELS,
    INDUCTOR_ROWS,
    MODELS,
    PAGE,
    ROWS,
    inductor_table,
    table,
)


def test_guide_shows_the_measured_rows():
    page = PAGE.read_text(encoding="utf-8")
    assert table() in page
    assert inductor_table() in page


@pytest.mark.parametrize(("path", "names"), [(ROWS, MODELS), (INDUCTOR_ROWS, INDUCTOR_MODELS)])
def test_every_measured_model_has_a_name(path, names):
    with path.open(newline="", encoding="utf-8") as file:
        models = {row["model"] for row in csv.DictReader(file)}
    assert models <= set(names)
