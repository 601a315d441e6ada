"""Ablations switch off parts that there are, and print a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cpplan.solving.tuning import make_tuning
from cpplan.zoo.packing import random_lifespans

BENCHMARKS = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def scripts_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    sys.modules.pop("ablations", None)


def test_overrides_are_of_fields_that_exist():
    from ablations import ABLATIONS

    for figures, changed in ABLATIONS.values():
        assert callable(figures)
        assert changed
        make_tuning(changed)


def test_a_table_of_one_ablation(monkeypatch, capsys):
    import ablations

    small = {"small": lambda seed: random_lifespans(60, seed=seed, live=10)}
    name = "packing without insertion"
    _, changed = ablations.ABLATIONS[name]
    table = {name: (partial(ablations.of_packing, small), changed)}
    monkeypatch.setattr(ablations, "ABLATIONS", table)
    monkeypatch.setattr(sys, "argv", ["ablations.py", name, "--seconds", "0.05"])
    ablations.main()
    title, whole, without = capsys.readouterr().out.splitlines()
    assert title.split() == ["ablation", "proved", "mean", "value", "/", "bound"]
    assert whole.startswith("with everything")
    assert without.startswith(name)
    assert float(without.split()[-1]) >= 1
