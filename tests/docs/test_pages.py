"""Pages of the documentation list what there is, and show what it prints."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import click
import pytest
from support.pages import ROOT, blocks_of, commands_of, timeless
from test_house import FLOORS

import cpplan
from cpplan.cli.main import cli, main
from cpplan.io.formats import read_suffixes
from cpplan.io.plan_json import plan_to_dict
from cpplan.verification.bound_table import COST_BOUNDS, PEAK_BOUNDS, POOL_BOUNDS, ProvedBound

PAGES = {
    path.relative_to(ROOT / "docs").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs").glob("**/*.md"))
    if path.parent.name != "gallery"  # written when the site is built
}
OTHER_PAGES = {
    page: (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "CONTRIBUTING.md")
}
SHOWN = [
    (page, block.text)
    for page, text in PAGES.items()
    if not page.startswith("adding/")
    for block in blocks_of(text)
    if block.language == "console"
]
COMMANDS = sorted(cli.commands)


def section(page: str, heading: str) -> str:
    """Text of a page below a heading, up to the next of its level."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGES[page], re.M | re.S)
    assert found is not None, f"{page} has no heading {heading!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of all tables in a text, heads left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    heads = {k - 1 for k, line in enumerate(lines) if set(line) <= set("|:- ")}
    return [row for k, row in enumerate(cells) if k not in heads and k - 1 not in heads]


def quoted(cell: str) -> list[str]:
    """Words between backticks in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def test_help_lists_every_command_with_the_words_of_its_page() -> None:
    listed = {name: cli.commands[name].short_help for name in COMMANDS}
    table = rows(PAGES["cli/index.md"].split("## Exit codes")[0])
    words = {re.findall(r"[\w-]+", name)[0]: text for name, text in table}
    assert listed == {name: f"{text[0].upper()}{text[1:]}." for name, text in words.items()}


@pytest.mark.parametrize(("page", "block"), SHOWN, ids=[page for page, _ in SHOWN])
def test_commands_print_what_a_page_shows(page, block, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    if "verify" in block:
        assert main(["plan", "datasets/light_squeezenet.json", "-q", "-o", "plan.json"]) == 0
        capsys.readouterr()
    for command, output in commands_of(block):
        program, *arguments = shlex.split(command)
        assert program == "cpplan"
        assert main(arguments) == 0
        assert timeless(capsys.readouterr().out) == timeless(output)


def test_limits_alone_say_how_long_compiling_takes() -> None:
    """There, and in no second place that would have to change with it."""
    times = re.compile(r"(?:compil|warm-up)[^.|`]*\b(?:\d+ s|seconds?|minutes?)\b", re.I)
    pages = {**PAGES, **OTHER_PAGES}
    found = [page for page, text in pages.items() if times.search(text.replace("`", ""))]
    assert found == ["limits.md"]


def test_names_on_the_api_page_import() -> None:
    directives = re.findall(r"^\.\. auto(\w+):: (\S+)$", PAGES["api.md"], re.M)
    assert len(directives) > 50
    for directive, name in directives:
        path, _, last = (name, "", "__doc__") if directive == "module" else name.rpartition(".")
        module = imported(path)
        assert module is None or hasattr(module, last), name


def test_short_names_of_modules_are_the_modules_of_the_api_page() -> None:
    listed = {quoted(short)[0]: quoted(full)[0] for short, full in rows(PAGES["api.md"])}
    assert {short: getattr(cpplan, short.split(".")[1]).__name__ for short in listed} == listed
    own = {n for n in cpplan.__all__ if isinstance(getattr(cpplan, n), ModuleType)}
    assert {f"cpplan.{name}" for name in own} == {*listed, "cpplan.report"}


def test_api_page_has_every_public_name() -> None:
    missing = [name for name in cpplan.__all__ if f"cpplan.{name}" not in PAGES["api.md"]]
    assert missing == []


@pytest.mark.parametrize(
    "door",
    [
        "cpplan.explanation",
        "cpplan.io.executorch",
        "cpplan.io.tflite",
        "cpplan.io.torch",
        "cpplan.report",
    ],
)
def test_api_page_has_every_name_of_a_door(door: str) -> None:
    names = set(import_module(door).__all__) - {"explain"}  # `Plan.explain` is the same
    assert [name for name in sorted(names) if f"{door}.{name}" not in PAGES["api.md"]] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_synopsis_of_a_command_has_every_option(name: str) -> None:
    (page,) = (p for p, text in PAGES.items() if p.startswith("cli/") and f"\n## {name}\n" in text)
    synopsis = next(b.text for b in blocks_of(section(page, name)) if b.language == "text")
    options = [
        option
        for parameter in cli.commands[name].params
        if isinstance(parameter, click.Option)
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    ]
    shown = set(re.findall(r"--[\w-]+", synopsis))
    assert set(options) == shown


def test_command_line_page_has_every_key_of_a_plan() -> None:
    source = cpplan.load(ROOT / "datasets/hand/diamond.json")
    keys = {
        key for row in rows(section("cli/index.md", "Keys of --json")) for key in quoted(row[0])
    }
    assert set(plan_to_dict(cpplan.solve(source), clock=True)) <= keys


@pytest.mark.parametrize(
    ("headings", "table"),
    [
        (
            (
                "Peak, at the order of the plan",
                "Peak, over every order",
                "Peak, where ops may run again",
                "Peak, over every splitting",
            ),
            PEAK_BOUNDS,
        ),
        (("Cost of running ops again",), COST_BOUNDS),
        (("Several pools",), POOL_BOUNDS),
    ],
    ids=["peak", "cost", "pools"],
)
def test_page_of_proofs_has_the_bounds_of_the_checker(
    headings: tuple[str, ...], table: tuple[ProvedBound, ...]
) -> None:
    shown = {
        name: how
        for heading in headings
        for cell, _, how in rows(section("proved.md", heading))
        for name in quoted(cell)
    }
    # Two names in one are two rows of the page.
    single = {bound.name: bound.proof for bound in table if " and live" not in bound.name}
    assert shown == single


def test_every_bound_is_under_the_heading_of_its_reach() -> None:
    reaches = ["given order", "every order", "every schedule", "every splitting"]
    headings = [
        "Peak, at the order of the plan",
        "Peak, over every order",
        "Peak, where ops may run again",
        "Peak, over every splitting",
    ]
    for reach, heading in zip(reaches, headings, strict=True):
        shown = [n for cell, *_ in rows(section("proved.md", heading)) for n in quoted(cell)]
        assert shown == [bound.name for bound in PEAK_BOUNDS if bound.reach == reach]


def test_table_of_rooms_has_every_room_on_its_floor() -> None:
    shown = [(int(floor), room) for floor, room, _ in rows(section("concepts.md", "The rooms"))]
    assert shown == [(k, room) for k, floor in enumerate(FLOORS, 1) for room in floor]


def test_names_of_cpplan_in_the_pages_exist() -> None:
    created = {  # by the pages themselves
        block.path.removesuffix(".py").replace("/", ".")
        for text in PAGES.values()
        for block in blocks_of(text)
        if block.path is not None
    }
    formats = {"cpplan.graph", "cpplan.plan"}
    unknown = [
        f"{page}: {name}"
        for page, text in {**PAGES, **OTHER_PAGES}.items()
        for name in sorted(set(re.findall(r"(?<![\w/.])cpplan(?:\.[A-Za-z_]\w*)+", text)))
        if name not in created | formats and not exists(name)
    ]
    assert unknown == []


def test_attributes_of_plans_in_the_pages_exist() -> None:
    used = {
        name
        for page, text in PAGES.items()
        if not page.startswith("adding/")
        for name in re.findall(r"(?<![\w.])plan\.([a-z_]+)", text)
    }
    files = {"json", "html", "h"}
    have = set(dir(cpplan.Plan)) | set(cpplan.Plan.__dataclass_fields__)
    assert used - files - have == set()


def imported(name: str) -> ModuleType | None:
    """The module of this name; ``None`` if it needs a package that is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cpplan"):
            raise
        return None


def exists(name: str) -> bool:
    """True if a dotted name is that of a module, or of something in one.

    What is in a module that needs a package that is not installed is taken to be there.
    """
    module: object = cpplan
    path = "cpplan"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        if hasattr(module, part):
            module = getattr(module, part)
        elif getattr(module, "__path__", None) is not None and find_spec(path) is not None:
            module = imported(path)
            if module is None:
                return True
        else:
            return False
    return True


def test_table_of_formats_has_every_suffix_that_is_read() -> None:
    shown = set(quoted(section("formats.md", "Read and written")))
    assert set(read_suffixes()) <= shown


def test_navigation_has_every_page() -> None:
    linked = {
        (Path(page).parent / entry.strip()).as_posix()
        for page, text in PAGES.items()
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.M | re.S)
        for entry in tree.splitlines()
        if entry.strip() and not entry.startswith(":")
    }
    pages = {page.removesuffix(".md") for page in PAGES} - {"index"}
    assert linked == pages | {"gallery/index"}
