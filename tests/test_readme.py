"""Outputs shown in the README are equal to what its commands print."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support.pages import blocks_of, commands_of, timeless

from cpplan.batches.manifest import read_manifest
from cpplan.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = [block.text for block in blocks_of(README) if block.language == "console"]


@pytest.mark.parametrize("block", CONSOLE)
def test_commands_print_what_the_readme_shows(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    shown = commands_of(block)
    assert shown
    for command, output in shown:
        program, *arguments = shlex.split(command)
        assert program == "cpplan"
        assert main(arguments) == 0
        assert timeless(capsys.readouterr().out) == timeless(output)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_the_table_has_a_row_for_every_model_of_the_manifest():
    manifest = read_manifest(ROOT / "datasets/results.toml")
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in README.splitlines()]
    head, *rows = [row for row in rows if len(row) > 4]
    settings = [setting.name for setting in manifest.settings]
    assert head == ["model", *manifest.run["baselines"], *settings]
    assert [row[0] for row in rows[1:]] == [model.name for model in manifest.models]


@pytest.mark.slow
def test_the_table_is_what_the_command_prints(tmp_path, capsys):
    """Cells that are proved stand; the others depend on how long was searched."""
    table = tmp_path / "results.parquet"
    assert main(["batch", str(ROOT / "datasets/results.toml"), "-o", str(table), "-q"]) == 0
    capsys.readouterr()
    assert main(["summary", str(table), "--models"]) == 0
    check_proved(capsys.readouterr().out)


def check_proved(printed: str) -> None:
    """Every row stands in the README, and so does every cell of it that is proved."""
    rows = [line.split("|")[1:-1] for line in printed.splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    for name, *cells in rows:
        shown = next(row for row in README.splitlines() if row.startswith(f"|{name}|"))
        assert {cell for cell in cells if cell.endswith("* ")} <= set(shown.split("|"))
