"""Packers that benchmarks compare: their answers are checked, a rival's too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import instances

from cpplan.model.errors import VerificationError
from cpplan.model.problem import Problem
from cpplan.zoo.packing import perfect_packing

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"

# Called like MiniMalloc; first fit, in the order of sizes, and rows written in that order.
FIRST_FIT = """#!{python}
import csv, sys
options = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
assert options["timeout"] == "5s"
rows = sorted(csv.DictReader(open(options["input"])), key=lambda row: -int(row["size"]))
placed = []
for row in rows:
    lower, upper, size = (int(row[column]) for column in ("lower", "upper", "size"))
    at = 0
    for begin, end in sorted((b, e) for lo, up, b, e in placed if lo < upper and lower < up):
        if begin - at >= size:
            break
        at = max(at, end)
    placed.append((lower, upper, at, at + size))
    row["offset"] = at{spoil}
if any(end > int(options["capacity"]) for *_, end in placed):
    sys.exit(7)
with open(options["output"], "w") as file:
    table = csv.DictWriter(file, rows[0])
    table.writeheader()
    table.writerows(rows)
"""


@pytest.fixture(autouse=True)
def scripts_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for name in ("packers", "packing"):
        sys.modules.pop(name, None)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return write(tmp_path / "first_fit", spoil="")


def write(path: Path, spoil: str) -> Path:
    path.write_text(FIRST_FIT.format(python=sys.executable, spoil=spoil))
    path.chmod(0o755)
    return path


def compare(packer, problem: Problem, capacity: int | None):
    from packers import run

    return run(packer, lambda: problem, capacity, 5, 0)


def test_a_rival_is_called_by_path_and_its_rows_are_matched_by_name(program: Path) -> None:
    from packers import Rival

    # Buffers of 8 B, two of them live at a time: first fit needs no more than these two.
    problem = instances.chain()
    result = compare(Rival(program), problem, 16)
    assert (result.peak, result.solved, result.method) == (16, True, "rival")
    assert compare(Rival(program), problem, 15)[:4] == (None, 16, False, "rival, exit code 7")


def test_a_rival_that_overlaps_is_caught(tmp_path: Path) -> None:
    from packers import Rival

    with pytest.raises(VerificationError):
        compare(Rival(write(tmp_path / "spoilt", spoil=" // 2")), instances.chain(), 16)


def test_our_packers_agree_on_an_easy_problem() -> None:
    from packers import PACKERS

    problem, _, height = perfect_packing(12, seed=1, pinwheels=0.5)
    for packer in PACKERS.values():
        for capacity in (None, height):
            result = compare(packer, problem, capacity)
            assert (result.peak, result.bound, result.solved) == (height, height, True)


def test_a_table_over_files(tmp_path: Path, program: Path, capsys, monkeypatch) -> None:
    import csv

    import packing

    from cpplan.io.minimalloc_csv import write_problem

    write_problem(instances.chain(), tmp_path / "chain.16.csv")
    write_problem(instances.chain(), tmp_path / "chain.csv")
    monkeypatch.setattr(packing, "warm", lambda packers: None)
    arguments = ["packing.py", str(tmp_path), "--rival", str(program), "--seconds", "5"]
    monkeypatch.setattr(sys, "argv", arguments)
    packing.main()
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["instance"], row["packer"], row["solved"]) for row in rows] == [
        ("chain.16.csv", "cpplan", "1"),
        ("chain.16.csv", "rival", "1"),
        ("chain.csv", "cpplan", "1"),
        ("all at capacity", "cpplan", "1"),
        ("all at capacity", "rival", "1"),
        ("all", "cpplan", "1"),
    ]
    # Ratios are to the rival where it takes part, and to the first packer elsewhere.
    assert float(rows[1]["time_ratio"]) == float(rows[2]["time_ratio"]) == 1
