"""Comparisons say which baseline runs, and end with the rows that are done."""

from __future__ import annotations

import signal

import pytest
from support.sources import ROOT

from cpplan import Pool, compare, load
from cpplan.packing import heuristics
from cpplan.remat import heuristics as remat_rules
from cpplan.spilling import heuristics as eviction_rules
from cpplan.splitting import heuristics as splitting_rules

KINDS = {
    "packing": (heuristics, {}),
    "remat": (remat_rules, {"remat": True, "memory_limit": "90%"}),
    "spill": (eviction_rules, {"spill": True, "pools": (Pool("a", 3 << 20), Pool("b"))}),
    "split": (splitting_rules, {"split": True}),
}


@pytest.fixture(scope="module")
def model():
    return load(ROOT / "datasets/light_squeezenet.json")


@pytest.mark.parametrize("kind", KINDS)
def test_every_baseline_is_named_before_it_runs(kind, model) -> None:
    rules, options = KINDS[kind]
    told: list[str] = []
    compare(model, time_limit=0.5, progress=lambda event: told.append(event.source), **options)
    names = list(rules.names())
    found = [text for text in told if text.startswith("baseline ")]
    assert found[: len(names)] == [
        f"baseline {k} of {len(found)}: {name}" for k, name in enumerate(names, start=1)
    ]


def test_interrupt_keeps_the_rows_that_are_done(model) -> None:
    seen: list[str] = []

    def interrupting(event) -> None:
        seen.append(event.source)
        if event.source.startswith("baseline 3 "):
            signal.raise_signal(signal.SIGINT)

    def noting(number, frame) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, noting)
    try:
        table = compare(model, time_limit=2, progress=interrupting)
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(table["algorithm"]) == sorted(["cpplan", *list(heuristics.names())[:2]])
