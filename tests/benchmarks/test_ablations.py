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


def test_overrides_are_of_what_exists():
    from ablations import ABLATIONS

    for figures, without in ABLATIONS.values():
        assert callable(figures)
        assert without
        if isinstance(without, dict):
            make_tuning(without)
        else:
            assert hasattr(without[0], without[1])


def test_symbols_and_unbounded_tensors_are_worse_without_each_part():
    import ablations

    for figures in (ablations.of_symbols, ablations.of_unbounded):
        _, _, whole = ablations.run(figures, {}, 1)
        parts = [without for of, without in ablations.ABLATIONS.values() if of is figures]
        assert parts
        assert all(ablations.run(figures, without, 1)[2] > whole for without in parts)


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
