"""Manifests for tests of batches, and objects that misbehave in the process of their task."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cpplan.batches.table import CLOCKS, read_rows
from cpplan.io.minimalloc_csv import write_problem
from cpplan.zoo.packing import near_perfect_packing, random_lifespans, training_layers

DATASETS = Path(__file__).resolve().parents[2] / "datasets"

SETTINGS = """
[[setting]]
name = "given"
deterministic = true
time_limit = 2

[[setting]]
name = "searched"
order = "search"
in_place = true
deterministic = true
time_limit = 1

[[setting]]
name = "first fit"
algorithm = "first_fit"

[[setting]]
name = "a fifth more work"
remat = true
cost_limit = 1.2
deterministic = true
time_limit = 1
"""


def twenty_models(folder: Path) -> Path:
    """A manifest of twenty models, small graphs and packing problems, under four settings."""
    hand = sorted(path for path in (DATASETS / "hand").glob("*.*") if path.stem != "optima")
    light = [DATASETS / f"light_{name}.json" for name in ("squeezenet", "vgg19", "bvlc_alexnet")]
    sources = [*hand, *light]
    made = [near_perfect_packing(12, seed=seed).problem for seed in range(20)]
    made = [training_layers(3, seed=1), random_lifespans(60, seed=1), *made]
    for number, problem in enumerate(made[: 20 - len(sources)]):
        path = folder / f"made_{number}.csv"
        write_problem(problem, path)
        sources.append(path)
    assert len(sources) == 20
    models = "".join(f"[[model]]\nname = '{path.name}'\nsource = '{path}'\n" for path in sources)
    manifest = folder / "manifest.toml"
    manifest.write_text(f"baselines = ['greedy_by_size', 'best_fit']\n{models}{SETTINGS}")
    return manifest


def without_clocks(path: Path) -> list[dict[str, Any]]:
    """The rows of a table, without what may differ from run to run."""
    rows = read_rows(path)
    return [{key: value for key, value in row.items() if key not in CLOCKS} for row in rows]


class DoesInItsProcess:
    """Calls a function when the process of a task unpickles it: what a native fault would do."""

    def __init__(self, name: str, function: Callable[..., Any], *arguments: Any):
        self.name = name
        self._call = function, arguments

    def __reduce__(self) -> Any:
        return self._call


ABORTING = DoesInItsProcess("aborting", os.abort)
ENDING = DoesInItsProcess("ending", os._exit, 3)
SLEEPING = DoesInItsProcess("sleeping", time.sleep, 600)
LARGE = DoesInItsProcess("large", bytearray, 2 << 30)
