"""Imports run one way: models and checkers know no planner, readers no stage, nothing the terminal.

Imports inside functions count like any other; those for type checkers alone do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((*ROOT.glob("cpplan/**/*.py"), *ROOT.glob("formulations/**/*.py")))
PLANNERS = (
    "cpplan.heuristics",
    "cpplan.orders",
    "cpplan.pipeline",
    "cpplan.remat",
    "cpplan.search",
    "cpplan.sharing",
    "cpplan.sizes",
    "cpplan.stages",
    "cpplan.storages",
    "formulations",
)
CHECKERS = ("cpplan.checks", "cpplan.verifier", "cpplan.arena", "cpplan.execution")
FACE = ("cpplan.terminal", "cpplan.cli", "cpplan.__main__")


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)
        yield from imported(node)


def edges() -> Iterator[tuple[str, str]]:
    for path in FILES:
        importer = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield from ((importer, name) for name in imported(ast.parse(path.read_text("utf-8"))))


@pytest.mark.parametrize(
    ("importers", "imports"),
    [
        (CHECKERS, (*PLANNERS, "ortools")),
        (("formulations",), ("cpplan",)),
        (("cpplan.io",), ("cpplan.stages", "cpplan.terminal", "formulations", "ortools")),
        (("cpplan.search", "cpplan.remat", "cpplan.sharing"), ("cpplan.stages", "cpplan.pipeline")),
    ],
    ids=["checkers", "formulations", "readers and writers", "searches"],
)
def test_no_import_runs_upwards(importers: tuple[str, ...], imports: tuple[str, ...]) -> None:
    ours = [(importer, name) for importer, name in edges() if within(importer, importers)]
    assert ours
    assert [(importer, name) for importer, name in ours if within(name, imports)] == []


def test_only_the_command_line_imports_the_terminal() -> None:
    users = {importer for importer, name in edges() if within(name, ("cpplan.terminal",))}
    assert users
    assert {importer for importer in users if not within(importer, FACE)} == set()
