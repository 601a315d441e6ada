"""Names that Python 3.10 refuses, though later ones and type checkers take them.

Syntax that it refuses does not parse in ``test_house``.
"""

from __future__ import annotations

import ast

from support.sources import sources, statements, tree_of


def test_no_named_tuple_has_another_base():
    """``class News(NamedTuple, Generic[T])`` needs 3.11: importing it fails."""
    mixed, seen = [], 0
    for package in ("cpplan", "formulations"):
        for path in sources(package):
            if "NamedTuple" not in path.read_text("utf-8"):
                continue
            for node in statements(tree_of(path)):
                if not isinstance(node, ast.ClassDef):
                    continue
                bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
                seen += "NamedTuple" in bases
                if "NamedTuple" in bases and len(bases) > 1:
                    mixed.append(f"{path.name}: {node.name}")
    assert seen > 10
    assert mixed == []
