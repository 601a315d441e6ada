"""Plans of many buffers are read piece by piece, and say the same as when read as a whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cpplan
from cpplan import Plan, Problem
from cpplan.io import plan_rows
from cpplan.io.plan_json import load_plan, save_plan
from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.zoo.packing import random_lifespans


@pytest.fixture(autouse=True)
def _in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is large, and a piece has a row or two."""
    monkeypatch.setattr(plan_rows, "_FEW", 0)
    monkeypatch.setattr(plan_rows, "_PIECE", 100)


def saved(problem: Problem, path: Path) -> Plan:
    plan = cpplan.solve(problem, algorithm="first_fit")
    save_plan(plan, path)
    return plan


def test_plan_read_by_rows_equals_the_plan_written(tmp_path: Path) -> None:
    problem = random_lifespans(50, seed=1)
    pools = Pool("sram", 1 << 20), Pool("dram")
    several = Problem(problem.names, problem.lower, problem.upper, problem.size, pools=pools)
    for k, source in enumerate((problem, several)):
        plan = saved(source, tmp_path / f"{k}.json")
        values, columns = plan_rows.read_rows(tmp_path / f"{k}.json")
        assert columns is not None
        assert len(columns.name) == 50
        assert values["buffers"] == []
        read = load_plan(tmp_path / f"{k}.json")
        assert read.buffers == plan.buffers
        for column in ("size", "lower", "upper", "offset", "pool"):
            assert getattr(read, column).tolist() == getattr(plan, column).tolist()
        save_plan(read, tmp_path / "again.json")
        assert (tmp_path / "again.json").read_text() == (tmp_path / f"{k}.json").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (r'"size": \d+', '"size": "8"', "size must be an integer"),
        (r'"pool": "[^"]*"', '"pool": "nowhere"', "unknown pool 'nowhere'"),
        (r'"offset": \d+', '"offset": 9223372036854775807', "must end below 2\\*\\*63"),
        (r'"lower": \d+, ', "", "lower is missing"),
        (r'\{"name"', '{{"name"', "not JSON"),
        (r"\},\n", "},,\n", "not JSON"),
    ],
)
def test_row_that_is_wrong_is_refused_as_in_a_small_file(
    old: str, new: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    saved(random_lifespans(20, seed=2), path)
    head, buffers = path.read_text().split('"buffers"')
    path.write_text(head + '"buffers"' + re.sub(old, new, buffers, count=1))
    with pytest.raises(InputError, match=said) as large:
        load_plan(path)
    monkeypatch.setattr(plan_rows, "_FEW", 1 << 30)
    with pytest.raises(InputError) as small:
        load_plan(path)
    assert str(large.value) == str(small.value)
