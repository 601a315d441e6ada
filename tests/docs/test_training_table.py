"""The guide's table of measured training steps holds what the study's CSV file holds."""

from __future__ import annotations

import csv

from support.training_table import MODELS, PAGE, ROWS, table


def test_guide_shows_the_measured_rows():
    assert table() in PAGE.read_text(encoding="utf-8")


def test_every_measured_model_has_a_name():
    with ROWS.open(newline="", encoding="utf-8") as file:
        models = {row["model"] for row in csv.DictReader(file)}
    assert models <= set(MODELS)
