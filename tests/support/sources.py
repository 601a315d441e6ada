"""Syntax of the project's own files, parsed once for all tests that look at it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The oldest Python that is promised: what only later ones take does not parse.
OLDEST = (3, 10)


@cache
def tree_of(path: Path) -> ast.Module:
    """Syntax of a file."""
    return ast.parse(path.read_text("utf-8"), str(path), feature_version=OLDEST)


@cache
def sources(folder: str) -> tuple[Path, ...]:
    """Python files below a folder of the project, sorted."""
    return tuple(sorted((ROOT / folder).rglob("*.py")))


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The module and its statements, within functions, classes and branches too: no expressions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, field, ())
