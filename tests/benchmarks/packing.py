"""Packing problems from files: cpplan beside other packers, in one process, on one thread.

    python tests/benchmarks/packing.py FILE_OR_FOLDER… [--minimise] [--seconds 60] [--seeds 0 1 2]
        [--packers cpplan cp_sat] [--rival PROGRAM [--rival-arguments TEMPLATE]]

A file named ``NAME.CAPACITY.csv`` is packed at its capacity, others, or all with ``--minimise``, as
low as it goes. Compiling is done before. For every file and seed the packers take turns, each
first in its turn, and each starts by reading the file. The rival is any program that is called
like MiniMalloc or as the template says; it takes part where there is a capacity. Every answer is
checked.

Prints CSV: ``time_ratio`` is to the rival's seconds in the same turn, or to those of the first
packer if there is no rival; rows named ``all`` and ``all at capacity`` add up a seed's files.
``solved`` is 1 where the capacity is kept or, without one, the bound met.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from packers import PACKAGES, PACKERS, Packer, Result, Rival, run, versions, warm

import cpplan

COLUMNS = (
    *("instance", "buffers", "capacity", "seed", "packer", "solved", "peak", "lower_bound"),
    *("peak_to_bound", "method", "seconds", "time_ratio", *PACKAGES, "python"),
)


def files_of(paths: list[Path]) -> list[Path]:
    """The files themselves, and all CSV files of the folders."""
    found = [sorted(path.glob("*.csv")) if path.is_dir() else [path] for path in paths]
    return [path for several in found for path in several]


def capacity_of(path: Path) -> int | None:
    """Capacity in bytes from a file name like ``a.1024.csv``; ``None`` if it names no number."""
    word = Path(path.stem).suffix.lstrip(".")
    return int(word) if word.isdigit() else None


def row(result: Result, reference: float) -> dict[str, object]:
    """One answer, by column."""
    ratio = None if result.peak is None else f"{result.peak / max(1, result.bound):.4f}"
    return {
        "solved": int(result.solved),
        "peak": result.peak,
        "lower_bound": result.bound,
        "peak_to_bound": ratio,
        "method": result.method,
        "seconds": f"{result.seconds:.3f}",
        "time_ratio": f"{result.seconds / reference:.4f}",
    }


def in_turn(names: list[str], turn: int) -> list[str]:
    """The names, starting with another one in each turn."""
    first = turn % len(names)
    return names[first:] + names[:first]


def totals(results: dict[str, list[Result]]) -> Iterator[dict[str, object]]:
    """A row for every packer: how many were solved, and all seconds."""
    seconds = {name: sum(result.seconds for result in of) for name, of in results.items()}
    reference = seconds.get("rival") or next(iter(seconds.values()))
    for name, of in results.items():
        yield {
            "packer": name,
            "solved": sum(result.solved for result in of),
            "seconds": f"{seconds[name]:.3f}",
            "time_ratio": f"{seconds[name] / reference:.4f}",
        }


def rows(
    paths: list[Path], packers: dict[str, Packer], minimise: bool, seconds: float, seed: int
) -> Iterator[dict[str, object]]:
    """Every file by every packer, then the sums, apart for files with a capacity and without."""
    together: dict[str, dict[str, list[Result]]] = {}
    for turn, path in enumerate(paths, seed):
        capacity = None if minimise else capacity_of(path)
        able = [name for name in packers if capacity is not None or name != "rival"]
        load = partial(cpplan.load, path)
        results = {
            name: run(packers[name], load, capacity, seconds, seed) for name in in_turn(able, turn)
        }
        reference = results["rival" if "rival" in results else able[0]].seconds
        sums = together.setdefault("all" if capacity is None else "all at capacity", {})
        shared = {"instance": path.name, "buffers": len(load()), "capacity": capacity}
        for name in able:
            sums.setdefault(name, []).append(results[name])
            yield {**shared, "packer": name, **row(results[name], reference)}
    for name, sums in together.items():
        yield from ({"instance": name, **total} for total in totals(sums))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--packers", nargs="+", choices=PACKERS, default=["cpplan"])
    parser.add_argument("--rival", type=Path)
    parser.add_argument("--rival-arguments", default=Rival.arguments)
    options = parser.parse_args()
    packers = {name: PACKERS[name] for name in options.packers}
    if options.rival is not None:
        packers["rival"] = Rival(options.rival, options.rival_arguments)
    warm(list(packers.values()))
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    for seed in options.seeds:
        paths = files_of(options.paths)
        for found in rows(paths, packers, options.minimise, options.seconds, seed):
            table.writerow({**found, "seed": seed, **versions()})
            sys.stdout.flush()


if __name__ == "__main__":
    main()
