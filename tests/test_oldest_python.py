"""What Python 3.10 refuses although later ones take it, and type checkers let pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import cpplan
import formulations

OLDEST = (3, 10)


def classes(path: Path) -> Iterator[ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=OLDEST)
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def test_no_named_tuple_has_another_base():
    """``class News(NamedTuple, Generic[T])`` needs 3.11: importing it fails."""
    mixed, seen = [], 0
    for package in (cpplan, formulations):
        for path in Path(package.__file__).parent.rglob("*.py"):
            for node in classes(path):
                bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
                seen += "NamedTuple" in bases
                if "NamedTuple" in bases and len(bases) > 1:
                    mixed.append(f"{path.name}: {node.name}")
    assert seen > 10
    assert mixed == []
