"""The guide's table of networks in pieces holds what the CSV file holds."""

from __future__ import annotations

import csv

from support.splitting_table import FACTORS, MODELS, PAGE, ROWS, table


def test_guide_shows_the_measured_networks_in_pieces():
    assert table() in PAGE.read_text(encoding="utf-8")


def test_every_network_in_pieces_is_measured_at_every_work_factor():
    with ROWS.open(newline="", encoding="utf-8") as file:
        points = [(row["model"], float(row["at most"])) for row in csv.DictReader(file)]
    assert sorted(points) == sorted((model, factor) for model in MODELS for factor in FACTORS)
