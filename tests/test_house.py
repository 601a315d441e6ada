"""The plan of the house: rooms import rooms below them, never above, not even for type hints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter

from support.sources import ROOT, sources, tree_of

from cpplan import METHODS
from cpplan.model.methods import find_function

# From the ground up: a room imports rooms of lower floors.
FLOORS = (
    ("model",),
    ("program",),
    ("runtime",),
    ("verification", "symbolic"),
    ("packing",),
    ("ordering",),
    ("aliasing",),
    ("remat",),
    ("splitting", "spilling"),
    ("solving",),
    ("explanation",),
    ("comparison",),
    ("zoo",),
    ("io",),
    ("batches",),
    ("report",),
    ("cli",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# What a checker may know: data, programs, and how loops are compiled; of planners nothing.
CHECKER_KNOWS = {"model", "program", "runtime", "verification"}


# A function named in a table, which is imported on first use.
FUNCTION = re.compile(r"cpplan(\.\w+)+:\w+")


def imported(tree: ast.AST, *, named: bool = True, hints: bool = True) -> Iterator[str]:
    """Names that a module imports, also inside functions.

    Functions that are named as text, ``"module:function"``, are imported, too, unless ``named`` is
    false; so is what is imported for type checkers alone, unless ``hints`` is false.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif named and isinstance(node, ast.Constant) and FUNCTION.fullmatch(str(node.value)):
            yield node.value.replace(":", ".")
        elif hints or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)


@cache
def trees() -> dict[str, ast.AST]:
    """Module -> its syntax, of the package and the formulations."""
    found = {}
    for folder in ("cpplan", "formulations"):
        for path in sources(folder):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if module not in ("cpplan.__init__", "cpplan.__main__", "cpplan.tvm"):
                found[module.removesuffix(".__init__")] = tree_of(path)
    return found


@cache
def arrows(*, named: bool = True, hints: bool = True) -> list[tuple[str, str]]:
    """Importing module, and what it imports of the project; the face of the package is no room."""
    return [
        (module, name)
        for module, tree in trees().items()
        for name in imported(tree, named=named, hints=hints)
        if name.split(".")[0] in ("cpplan", "formulations", "ortools")
    ]


def room_of(name: str) -> str | None:
    """Room of a module, or ``None`` outside the package."""
    parts = name.split(".")
    return parts[1] if parts[0] == "cpplan" and len(parts) > 1 and parts[1] in FLOOR else None


def test_every_folder_is_a_room_and_no_file_lies_loose() -> None:
    top = {path.name for path in (ROOT / "cpplan").iterdir() if path.name != "__pycache__"}
    folders = {name for name in top if (ROOT / "cpplan" / name).is_dir()}
    assert folders <= set(FLOOR)
    # `python -m cpplan` and `import cpplan.tvm` run files of just these names and places.
    assert top - folders == {"__init__.py", "__main__.py", "py.typed", "tvm.py"}


def test_no_import_runs_upwards() -> None:
    upwards = {
        (importer, name)
        for importer, name in arrows()
        if (here := room_of(importer)) is not None
        and (there := room_of(name)) is not None
        and there != here
        and FLOOR[there] >= FLOOR[here]
    }
    assert upwards == KNOWN_UPWARDS


def imports_of_modules(*, hints: bool) -> dict[str, set[str]]:
    """Module -> the modules that it imports, or imports something of."""
    found: dict[str, set[str]] = {module: set() for module in trees()}
    for importer, name in arrows(named=False, hints=hints):
        found[importer].add(name if name in found else name.rpartition(".")[0])
    return found


def test_no_modules_import_one_another_in_a_circle() -> None:
    order = list(TopologicalSorter(imports_of_modules(hints=False)).static_order())
    assert order.index("cpplan.model.errors") < order.index("cpplan.model.graph")


def test_only_a_graph_and_its_parts_know_one_another_by_type_hints() -> None:
    found = imports_of_modules(hints=True)
    for part in ("columns", "dependencies", "graph_checks", "resolving"):
        found[f"cpplan.model.{part}"].discard("cpplan.model.graph")
    list(TopologicalSorter(found).static_order())


def test_every_method_leads_to_a_function_of_a_room() -> None:
    assert all(callable(find_function(place)) for place in METHODS.values())
    assert {place.split(".")[0] for place in METHODS.values()} == {"cpplan"}


def test_the_checker_knows_no_planner() -> None:
    known = {
        room_of(name) or name
        for importer, name in arrows()
        if room_of(importer) == "verification" and (importer, name) not in KNOWN_UPWARDS
    }
    assert known
    assert known <= CHECKER_KNOWS


def test_no_room_imports_the_package_as_a_whole() -> None:
    whole = {name for _, name in arrows() if name.startswith("cpplan") and room_of(name) is None}
    assert whole == set()


def test_formulations_stand_on_the_model_alone() -> None:
    ours = [(importer, name) for importer, name in arrows() if importer.startswith("formulations")]
    assert ours
    rooms = {room_of(name) for _, name in ours if name.startswith("cpplan")}
    assert rooms == {"model"}


def test_only_solvers_of_rooms_import_ortools() -> None:
    above = {room_of(importer) for importer, name in arrows() if name.startswith("ortools")}
    assert above <= {None, "runtime", "packing", "ordering", "aliasing", "remat"}


# Arrows that still run upwards; none may be added.
KNOWN_UPWARDS: set[tuple[str, str]] = set()
