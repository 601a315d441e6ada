"""Moves in a plan's file that are not those that were planned: one line, exit 2 or 4."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from support.cli_models import DATASETS

from cpplan.cli.main import main

CELL = str(DATASETS / "ordering" / "nasnet_cell.json")
TWO_POOLS = ["--spill", "--in-place", "--pool", "sram=1700000", "--pool", "dram"]
FIELDS = ("kind", "name", "tensor", "bytes", "from", "to")
HOSTILE = (None, -1, 0, 1 << 70, 1.5, True, "", "nowhere", [], {})


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("hostile") / "plan.json"
    assert main(["plan", CELL, *TWO_POOLS, "-q", "-o", str(path)]) == 0
    values: dict[str, Any] = json.loads(path.read_text())
    assert {"spill", "reload"} <= {move["kind"] for move in values["moves"]}
    return values


def refusal(values: dict[str, Any], path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that ``verify`` says of these values."""
    path.write_text(json.dumps(values))
    capsys.readouterr()
    assert main(["verify", CELL, str(path)]) in (2, 4)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_a_move_is_checked(
    field: str, planned: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(len(planned["moves"])):
        for value in HOSTILE:
            values = copy.deepcopy(planned)
            values["moves"][number][field] = value
            refusal(values, tmp_path / "plan.json", capsys)
        values = copy.deepcopy(planned)
        del values["moves"][number][field]
        assert f"move {number}" in refusal(values, tmp_path / "plan.json", capsys)


def test_move_to_a_pool_that_does_not_exist_is_refused(
    planned: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = copy.deepcopy(planned)
    values["moves"][0]["to"] = "nowhere"
    line = refusal(values, tmp_path / "plan.json", capsys)
    assert values["moves"][0]["name"] in line
    assert "must be from" in line


def test_copy_of_bytes_never_written_is_refused(
    planned: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = copy.deepcopy(planned)
    spill = next(m for m in values["moves"] if m["kind"] == "spill")
    values["order"].remove(spill["name"])
    values["order"].insert(0, spill["name"])
    line = refusal(values, tmp_path / "plan.json", capsys)
    assert spill["tensor"] in line


@pytest.mark.parametrize("change", ["twice", "missing"])
def test_move_told_twice_or_not_at_all_is_refused(
    change: str, planned: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = copy.deepcopy(planned)
    if change == "twice":
        values["moves"].append(copy.deepcopy(values["moves"][0]))
    else:
        values["moves"].pop()
    refusal(values, tmp_path / "plan.json", capsys)
    # Nor if the totals are those of the changed moves.
    del values["gap"]
    values["moved_bytes"] = sum(move["bytes"] for move in values["moves"])
    refusal(values, tmp_path / "plan.json", capsys)
