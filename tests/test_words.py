"""Docstrings in plain English: the parts of the rule that a machine can see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sources import ROOT, sources, statements, tree_of

# A docstring's first line says what is returned, raised or done: it is no question.
FIRST_WORDS = {"How", "Of", "What", "Where", "Whether", "Which"}
RIDDLES = ("so many", "of which")
LONGEST = 100
# Docstrings begin a line, as the formatter leaves them; so do a few other strings.
FIRST_LINE = re.compile(r'^ *[rR]?"""(.+?)(?:"""|$)', re.MULTILINE)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and texts of the docstrings of a file."""
    for node in statements(tree_of(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


def fault(text: str) -> str | None:
    """The rule that a docstring's first line breaks, or ``None``."""
    first = text.split("\n", 1)[0]
    word = first.split(" ", 1)[0].strip(",:;`*")
    if word in FIRST_WORDS:
        return f"begins with {word}"
    if len(first) > LONGEST:
        return f"has a first line of more than {LONGEST} characters"
    if not first.endswith("."):
        return "has a first line without a full stop"
    riddle = next((words for words in RIDDLES if words in first.lower()), None)
    return None if riddle is None else f"says {riddle!r} in its first line"


def faults(folder: str) -> list[str]:
    """Faults in the docstrings of a folder's files, one line each."""
    found = []
    for path in sources(folder):
        name = path.relative_to(ROOT).as_posix()
        # Parsing takes a hundred times longer than this: only files that may be at fault.
        if not any(fault(text) for text in FIRST_LINE.findall(path.read_text("utf-8"))):
            continue
        for line, text in docstrings(path):
            broken = fault(text)
            if broken is not None:
                found.append(f"{name}:{line}: {broken}: {text.splitlines()[0]}")
    return found


@pytest.mark.parametrize("folder", ["cpplan", "formulations", "tests", "datasets"])
def test_docstrings_state_what_they_describe(folder: str) -> None:
    assert faults(folder) == []


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("Bytes live at each step, shape ``(steps,)``.", None),
        ("Raise if two fixed buffers overlap.", None),
        ("Whether two fixed buffers overlap.", "begins with Whether"),
        ("Of every buffer, the offset.", "begins with Of"),
        ("Offsets of buffers", "has a first line without a full stop"),
        ("B" * 100 + ".", "has a first line of more than 100 characters"),
        ("Units of which one runs again.", "says 'of which' in its first line"),
    ],
)
def test_a_fault_names_the_rule_broken(text: str, broken: str | None) -> None:
    assert fault(text) == broken
