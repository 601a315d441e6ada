"""Ablations switch off parts that there are, and print a table."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpplan.packing.tuning import PackingTuning
from cpplan.zoo.packing import random_lifespans

BENCHMARKS = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def scripts_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    sys.modules.pop("ablations", None)


def test_overrides_are_of_fields_that_exist():
    from ablations import ABLATIONS

    for ablation in ABLATIONS.values():
        assert ablation.instances
        PackingTuning(**ablation.without["packing"])


def test_a_table_of_one_ablation(monkeypatch, capsys):
    import ablations

    small = {"small": lambda seed: random_lifespans(60, seed=seed, live=10)}
    table = {"insertion": ablations.ABLATIONS["insertion"]._replace(instances=small)}
    monkeypatch.setattr(ablations, "ABLATIONS", table)
    monkeypatch.setattr(ablations.cpplan, "warm_up", dict)
    monkeypatch.setattr(sys, "argv", ["ablations.py", "insertion", "--seconds", "0.05"])
    ablations.main()
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["seed"] for row in rows] == ["0", "1", "2"]
    assert all(float(row["ratio_without"]) >= 1 for row in rows)
