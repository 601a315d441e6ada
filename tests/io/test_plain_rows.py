"""Rows of plain form are read as columns, and say the same as when they are parsed one by one."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

import cpplan
from cpplan import Problem
from cpplan.io import minimalloc_csv, plan_rows
from cpplan.io.minimalloc_csv import read_problem, write_problem
from cpplan.io.plain_rows import read_buffers, read_fields
from cpplan.io.plan_fields import right_columns
from cpplan.io.plan_json import load_plan, save_plan
from cpplan.model.errors import CpplanError
from cpplan.zoo.packing import random_lifespans

# Bytes that mean something in JSON or in CSV, and some that do not.
BYTES = '01234567890123456789-+.eE" ,:{}[]\\\n\r\t\0abnul_é\x85\u2028'
KEYS = ("size", "lower", "upper", "offset")


def mutated(text: str, rng: random.Random) -> str:
    """The text with one or two characters replaced, left out or added."""
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(text))
        new = rng.choice(["", rng.choice(BYTES), text[at] + rng.choice(BYTES)])
        text = text[:at] + new + text[at + 1 :]
    return text


def test_mutated_rows_of_json_are_right_or_left_to_the_parser() -> None:
    rng, plain = random.Random(1), 0
    text = ",\n".join(
        f'  {{"name": "b{k}", "size": {k}, "lower": 0, "upper": {k + 1}, "offset": {64 * k}, '
        f'"pool": "{pool}"}}'
        for k, pool in enumerate(("sram", "dram", "dram"))
    )
    assert read_buffers(text) is not None
    for _ in range(1500):
        changed = mutated(text, rng)
        found = read_buffers(changed)
        if found is None:
            continue
        plain += changed != text
        columns = right_columns(json.loads(f"[{changed}]"))
        assert columns is not None
        names, numbers, pools = found
        assert names == columns["name"]
        assert pools == columns["pool"]
        assert [column.tolist() for column in numbers] == [columns[key] for key in KEYS]
    assert plain > 50


def told(path: Path) -> tuple[object, ...]:
    """All that a problem's file says, or the error."""
    try:
        problem = read_problem(path)
    except CpplanError as error:
        return (str(error),)
    columns = (problem.lower, problem.upper, problem.size, problem.alignment)
    lists = [column.tolist() for column in columns]
    return problem.names, lists, dict(problem.fixed), dict(problem.hint), dict(problem.gaps)


@pytest.mark.parametrize(
    "header", ["id,lower,upper,size,alignment", "start, end ,offset,buffer,size", "id,lower,upper"]
)
def test_mutated_csv_says_the_same_read_either_way(
    header: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minimalloc_csv, "_PIECE", 9)
    rng, plain = random.Random(header), 0
    rows = "".join(f"\n{k},{k + 7},{16 * k + 8},{k + 8},4" for k in range(4))
    for _ in range(150):
        text = mutated(header + rows + rng.choice(["", "\n"]), rng)
        path = tmp_path / "p.csv"
        path.write_bytes(text.encode())
        monkeypatch.setattr(minimalloc_csv, "_FEW", 0)
        many = told(path)
        plain += minimalloc_csv._read_plain(text, path) is not None
        monkeypatch.setattr(minimalloc_csv, "_FEW", 1 << 30)
        assert many == told(path), text
    assert plain > 8 or header.count(",") < 3


@pytest.mark.parametrize("digits", [18, 19, 20])
def test_numbers_of_too_many_digits_are_left_to_the_parser(digits: int) -> None:
    found = read_fields(f"a,{'9' * digits}", columns=2, name=0, longest=1)
    assert (found is not None) == (digits == 18)
    assert found is None or found[1][0].tolist() == [10**18 - 1]


@pytest.mark.parametrize("key", ["name", *KEYS, "pool"])
def test_verify_refuses_a_changed_row_however_the_plan_is_read(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = random_lifespans(300, seed=3)
    write_problem(given, tmp_path / "p.csv")
    save_plan(cpplan.solve(given, algorithm="first_fit"), tmp_path / "plan.json")
    head, buffers = (tmp_path / "plan.json").read_text().split('"buffers"')
    number = int(re.findall(rf'"{key}": (\d+)', buffers)[70]) if key in KEYS else None
    new = '"elsewhere"' if number is None else str(number + 1)
    places = [*re.finditer(rf'"{key}": ("[^"]*"|\d+)', buffers)]
    begin, end = places[70].span(1)
    changed = buffers[:begin] + new + buffers[end:]
    (tmp_path / "plan.json").write_text(f'{head}"buffers"{changed}')
    said = []
    for few in (0, 1 << 30):
        monkeypatch.setattr(plan_rows, "_FEW", few)
        monkeypatch.setattr(minimalloc_csv, "_FEW", few)
        problem = read_problem(tmp_path / "p.csv")
        assert isinstance(problem, Problem)
        with pytest.raises(CpplanError) as error:
            cpplan.verify(problem, load_plan(tmp_path / "plan.json"))
        said.append(str(error.value))
    assert said[0] == said[1]
