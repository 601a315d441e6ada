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
            assert all(hasattr(place, attribute) for place, attribute, _ in without)


def test_symbols_and_unbounded_tensors_are_worse_without_each_part():
    import ablations

    for figures in (ablations.of_symbols, ablations.of_unbounded):
        whole = ablations.run(figures, {}, 1)
        parts = [without for of, without in ablations.ABLATIONS.values() if of is figures]
        assert parts
        for without in parts:
            line = ablations.line_of("part", whole, ablations.run(figures, without, 1))
            assert line.value_change > 0


def test_a_table_of_one_ablation(monkeypatch, capsys, tmp_path):
    import ablations

    small = {"small": lambda seed: random_lifespans(60, seed=seed, live=10)}
    name = "packing without insertion"
    _, changed = ablations.ABLATIONS[name]
    table = {name: (partial(ablations.of_packing, small), changed)}
    file = tmp_path / "lines.csv"
    monkeypatch.setattr(ablations, "ABLATIONS", table)
    given = ["ablations.py", name, "--seconds", "0.05", "--csv", str(file)]
    monkeypatch.setattr(sys, "argv", given)
    ablations.main()
    ablations.main()  # the line of the first run is replaced
    title, without, *_ = capsys.readouterr().out.splitlines()
    assert title.split() == ["ablation", "found", "proved", "values", "largest", "bounds"]
    assert without.startswith(name)
    heads, line = file.read_text().splitlines()
    assert heads.split(",") == list(ablations.Line._fields)
    assert line.startswith(f"{name},2,2,2,")


def test_a_line_says_what_is_lost():
    from ablations import Figure, line_of

    whole = [Figure("optimal", (100.0,), (100.0,)), Figure("feasible", (50.0,), (40.0,))]
    less = [Figure("feasible", (110.0,), (100.0,)), Figure("unknown", (float("inf"),), (38.0,))]
    line = line_of("a part", whole, less)
    assert (line.found, line.found_without, line.proved, line.proved_without) == (2, 1, 1, 0)
    assert (line.value_change, line.largest_value_change) == (10.0, 10.0)
    assert line.bound_change == 2.598  # the root of 40 / 38


def test_the_committed_lines_are_of_ablations_there_are():
    from ablations import ABLATIONS, Line

    heads, *lines = (BENCHMARKS / "ablations.csv").read_text().splitlines()
    assert heads.split(",") == list(Line._fields)
    assert lines
    for line in lines:
        assert any(line.startswith((f"{name},", f'"{name}",')) for name in ABLATIONS)
