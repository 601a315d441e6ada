"""Real models, and models of many kinds that are built here: cells of the matrix on each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from support.pairs.cells import SLOW_TIME_LIMIT, Run
from support.pairs.covering import cover
from support.pairs.models import Model, is_installed
from support.pairs.options import OPTIONS, Cell, changed, forbidden
from support.sources import ROOT

from cpplan import load

DATASETS = ROOT / "datasets"
BUILT_CELLS, LARGE_CELLS = 6, 2
# Ops above which a model has fewer cells.
MANY_OPS = 40
Maker = Callable[[Path], Path]


def shipped() -> dict[str, Maker]:
    """The models of the data sets: files of other formats, and graphs traced from models."""
    found = [*DATASETS.glob("tflite/*.tflite"), *DATASETS.glob("onnx/*.onnx")]
    found += DATASETS.glob("zoo/*.json.gz")
    for folder in ("aten", "training", "ordering", "hand", "."):
        found += (path for path in DATASETS.joinpath(folder).glob("*.json") if _is_graph(path))
    return {path.name: lambda folder, path=path: path for path in sorted(found)}


def _is_graph(path: Path) -> bool:
    with path.open() as file:
        return '"cpplan.graph"' in file.read(200)


def built() -> dict[str, Maker]:
    """Models of kinds that the data sets lack, where the packages are installed."""
    found: dict[str, Maker] = {}
    if is_installed("onnx"):
        from support.pairs.built import TEXTS, write_model

        found |= {name: lambda folder, name=name: write_model(name, folder) for name in TEXTS}
    if is_installed("tflite"):
        from support.tflite_kinds import MODELS, suppressed

        for name, make in {**MODELS, "non_max_suppression": suppressed}.items():
            found[name] = lambda folder, name=name, make=make: _write(folder, name, make())
    return found


def _write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / f"{name}.tflite"
    path.write_bytes(data)
    return path


@cache
def cells_of(source: str, *, bodies: bool) -> list[Cell]:
    """The cells of a source with fixed sizes."""
    return [
        cell
        for cell in cover(OPTIONS, 2, forbidden()).rows
        if cell["source"] == source and cell["sizes"] == "fixed" and not (bodies and cell["spill"])
    ]


def false_cells(path: Path, number: int, folder: Path) -> list[str]:
    """Everything false about some cells of a model; the next ones for the next model."""
    source = {".onnx": "onnx", ".tflite": "tflite"}.get(path.suffix, "graph")
    if not is_installed(source):
        pytest.skip(f"{source} is not installed")
    graph = load(path)
    cells = cells_of(source, bodies=any(op.bodies for op in graph.ops))
    count = LARGE_CELLS if len(graph.ops) > MANY_OPS else BUILT_CELLS
    finds = []
    for k in range(number * count, (number + 1) * count):
        cell = cells[k % len(cells)]
        found = Run(Model(graph, path), folder, time_limit=SLOW_TIME_LIMIT).check(cell)
        finds += [f"{path.name}, {changed(cell)}: {find}" for find in found]
    return finds


SHIPPED, BUILT = shipped(), built()


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_keep_every_rule(name: str, tmp_path: Path) -> None:
    number = list(SHIPPED).index(name)
    assert false_cells(SHIPPED[name](tmp_path), number, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_models_of_every_kind_keep_every_rule(name: str, tmp_path: Path) -> None:
    number = list(BUILT).index(name)
    assert false_cells(BUILT[name](tmp_path), number, tmp_path) == []
