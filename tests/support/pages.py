"""Blocks of the README and of the documentation: what they show, carried out."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(?P<info>\{?[\w-]+\}?[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)
_CAPTION = re.compile(r"\A:caption: (?P<path>\S+)\n\n")
_COPIED = ("cpplan", "formulations")
# Not the conftest: it compiles the loops of the copy, which no page needs.
_FILES = ("pyproject.toml",)


class Block(NamedTuple):
    """One fenced block: its language, the path it is captioned with (if any), and its text."""

    language: str
    path: str | None
    text: str


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order.

    Examples
    --------
    >>> blocks_of("```{code-block} python\\n:caption: a.py\\n\\nx = 1\\n```\\n")
    [Block(language='python', path='a.py', text='x = 1\\n')]
    """
    found = []
    for fence in _FENCE.finditer(page):
        language = fence["info"].removeprefix("{code-block}").strip()
        caption = _CAPTION.match(fence["body"])
        path = caption["path"] if caption else None
        found.append(Block(language, path, fence["body"][caption.end() if caption else 0 :]))
    return found


def copy_project(folder: Path) -> None:
    """Copy the package and what its tests need into a folder; data are linked."""
    for name in _COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.loop"))
    shutil.copytree(ROOT / "tests/support", folder / "tests/support")
    for name in _FILES:
        shutil.copy(ROOT / name, folder / name)
    (folder / "datasets").symlink_to(ROOT / "datasets")


def carry_out(block: Block, folder: Path) -> None:
    """Do in a folder what one block says: create a file, change one, or run commands.

    Raises
    ------
    AssertionError
        If a change does not fit its file, a file exists already, or a command fails or prints
        something else.
    """
    if block.path is not None:
        path = folder / block.path
        assert not path.exists(), f"{block.path} exists already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    elif block.language == "diff":
        _change(block.text, folder)
    elif block.language == "console":
        for command, output in commands_of(block.text):
            printed = _run(command, folder)
            assert not output or timeless(printed) == timeless(output), printed


def timeless(text: str) -> str:
    """The text of plans without clock readings, and without what else was tried for a second."""
    kept = re.sub(r"^smaller .*\n(?: {12} --.*\n)*", "", f"{text}\n", flags=re.M)
    return re.sub(r"^(runtime +).*$", r"\1some", kept, flags=re.M).strip()


def _change(diff: str, folder: Path) -> None:
    """Apply hunks without line numbers: the lines they replace are in the file exactly once."""
    head, *hunks = re.split(r"^@@.*\n", diff, flags=re.M)
    path = folder / head.removeprefix("--- ").strip()
    text = path.read_text(encoding="utf-8")
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        assert all(line[0] in " +-\n" for line in lines), f"{path.name}: not a hunk: {hunk}"
        old = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
        new = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
        count = f"\n{text}".count(f"\n{old}")
        assert count == 1, f"{path.name}: {count} places have the lines\n{old}"
        text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
    path.write_text(text, encoding="utf-8")


def commands_of(text: str) -> list[tuple[str, str]]:
    """Commands after a ``$``, each with the output below it.

    Examples
    --------
    >>> commands_of("$ cpplan --version\\ncpplan, version 0.1.0\\n")
    [('cpplan --version', 'cpplan, version 0.1.0\\n')]
    """
    parts = re.split(r"^\$ (.*)\n", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _run(command: str, folder: Path) -> str:
    """Output of a command that must succeed; ``cpplan`` is that of the folder."""
    program, *arguments = shlex.split(command)
    modules = {"cpplan": ["-m", "cpplan"], "python": []}
    done = subprocess.run(
        [sys.executable, *modules[program], *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    return done.stdout
