"""Plan files whose nested values were changed: one line, exit 2 or 4, and no file is written."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli_models import DATASETS

from cpplan.cli.main import main

# Two ops that can run row by row: in pieces, the tensor between them is never whole.
ROWS = {
    "format": "cpplan.graph",
    "version": 1,
    "name": "rows",
    "tensors": [
        {"name": "x", "shape": [4, 2], "dtype": "int8", "kind": "input"},
        {"name": "t", "shape": [4, 8], "dtype": "int8"},
        {"name": "y", "shape": [4], "dtype": "int8", "kind": "output"},
    ],
    "ops": [
        {
            "name": name,
            "inputs": [read],
            "outputs": [written],
            "cost": 4,
            "axes": [
                {
                    "name": "rows",
                    "extent": 4,
                    "windows": [{"tensor": read, "axis": 0}, {"tensor": written, "axis": 0}],
                }
            ],
        }
        for name, read, written in (("f", "x", "t"), ("g", "t", "y"))
    ],
}
SYMBOLIC = {
    "format": "cpplan.graph",
    "version": 1,
    "name": "sized",
    "dims": {"n": [1, 8]},
    "tensors": [
        {"name": "x", "shape": ["n"], "dtype": "int8", "kind": "input"},
        {"name": "y", "shape": ["2*n"], "dtype": "int8", "kind": "output"},
    ],
    "ops": [{"name": "f", "inputs": ["x"], "outputs": ["y"]}],
}
HOSTILE = (
    None,
    True,
    -1,
    0,
    1,
    1 << 62,
    1 << 70,
    1.5,
    1e999,
    "",
    "8",
    "f",
    [],
    {},
    [0],
    ["a"],
    [[]],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two graphs and a plan for each: one in pieces, one of symbolic sizes."""
    path = tmp_path_factory.mktemp("hostile")
    for name, graph, options in (("rows", ROWS, ["--split"]), ("sized", SYMBOLIC, [])):
        (path / f"{name}.json").write_text(json.dumps(graph))
        given = [str(path / f"{name}.json"), "-q", "-o", str(path / f"{name}.plan.json")]
        assert main(["plan", *given, *options]) == 0
    assert json.loads((path / "rows.plan.json").read_text())["pieces"]
    return path


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys and positions that lead to each value within a JSON value; of lists the last item."""
    items = value.items() if isinstance(value, dict) else [*enumerate(value)][-1:]
    for key, item in items:
        yield (*at, key)
        if isinstance(item, (dict, list)):
            yield from places(item, (*at, key))


@pytest.mark.parametrize("name", ["rows", "sized"])
def test_each_nested_value_is_checked(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = json.loads((folder / f"{name}.plan.json").read_text())
    model, path = folder / f"{name}.json", folder / f"{name}.changed.json"
    rng = random.Random(0)
    for place in places(planned):
        for value in [*rng.sample(HOSTILE, 1), "absent"]:
            values = copy.deepcopy(planned)
            holder = values
            for key in place[:-1]:
                holder = holder[key]
            if value == "absent":
                del holder[place[-1]]
            else:
                holder[place[-1]] = value
            path.write_text(json.dumps(values))
            capsys.readouterr()
            for command in (["verify", str(model), str(path)], ["show", str(path)]):
                code = main(command)
                assert code in (0, 2, 4), (place, value)
                assert capsys.readouterr().err.count("\n") == (code != 0), (place, value)


def test_piece_with_a_number_for_its_cuts_is_refused(folder: Path, capsys) -> None:
    values = json.loads((folder / "rows.plan.json").read_text())
    values["pieces"][0]["cuts"] = [7]
    path = folder / "cuts.json"
    path.write_text(json.dumps(values))
    assert main(["show", str(path)]) == 2
    error = capsys.readouterr().err
    assert error == f"cpplan: {path}: not a valid plan: pieces 0: cuts must be a list, not 7\n"


def test_plan_in_pieces_without_a_buffer_is_refused_by_name(folder: Path, capsys) -> None:
    values = json.loads((folder / "rows.plan.json").read_text())
    lost = values["buffers"][0]["name"]
    values["buffers"][0]["name"] = "other"
    path = folder / "buffers.json"
    path.write_text(json.dumps(values))
    assert main(["verify", str(folder / "rows.json"), str(path)]) == 4
    assert f"buffer {lost!r}, needed from step" in capsys.readouterr().err


def test_symbolic_plan_without_a_buffer_is_refused_by_name(folder: Path, capsys) -> None:
    values = json.loads((folder / "sized.plan.json").read_text())
    del values["symbols"]["tensors"]["y"]
    path = folder / "symbols.json"
    path.write_text(json.dumps(values))
    assert main(["show", str(path)]) == 2
    assert capsys.readouterr().err == f"cpplan: {path}: symbols: tensors: buffer 'y' is missing\n"


def test_refused_plan_leaves_no_report(tmp_path: Path, capsys) -> None:
    path, report = tmp_path / "plan.json", tmp_path / "report.html"
    assert main(["plan", str(DATASETS / "hand" / "chain.json"), "-q", "-o", str(path)]) == 0
    values = json.loads(path.read_text())
    values["buffers"][0]["size"] = (1 << 62) - 1
    path.write_text(json.dumps(values))
    capsys.readouterr()
    assert main(["show", str(path), "--report", str(report)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not report.exists()
