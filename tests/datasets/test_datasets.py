"""The data sets: proved optima, and a script that makes every file again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cpplan
from cpplan.io.graph_json import graph_to_dict, read_graph
from cpplan.io.minimalloc_csv import read_problem
from cpplan.model.graph import Graph
from cpplan.model.problem import Problem

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
OPTIMA = {case["file"]: case for case in json.loads((DATASETS / "hand/optima.json").read_text())}
SUFFIXES = (".json", ".csv")
LIGHT = sorted(path.name for path in DATASETS.glob("light_*.json"))


def load(path: Path) -> Graph | Problem:
    return read_graph(path) if path.suffix == ".json" else read_problem(path)


def test_every_hand_made_file_has_an_optimum() -> None:
    files = {path.name for path in (DATASETS / "hand").iterdir()} - {"optima.json"}
    assert files == set(OPTIMA)
    assert len(files) >= 8


@pytest.mark.parametrize("file", sorted(OPTIMA))
def test_the_optimum_of_a_hand_made_case_is_found_and_proved(file: str) -> None:
    plan = cpplan.solve(load(DATASETS / "hand" / file), time_limit=30, workers=1)
    assert (plan.status, plan.peak) == ("optimal", OPTIMA[file]["optimum"])


def test_live_bytes_do_not_decide_the_fragmented_case() -> None:
    graph = read_graph(DATASETS / "hand/fragmentation.json")
    assert cpplan.to_anf(graph).live_bytes().max() == 4 < OPTIMA["fragmentation.json"]["optimum"]


def test_there_are_nine_light_models() -> None:
    assert len(LIGHT) == 9


@pytest.mark.parametrize("file", LIGHT)
def test_a_light_model_is_what_the_onnx_package_carries(file: str) -> None:
    onnx = pytest.importorskip("onnx")
    from cpplan.io.onnx.model import read_onnx

    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    read = read_onnx((folder / file).with_suffix(".onnx"))
    assert graph_to_dict(read_graph(DATASETS / file)) == graph_to_dict(read)


@pytest.mark.slow
def test_making_the_data_sets_again_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    copy = tmp_path / "datasets"
    for folder in ("hand", "ordering", "training"):
        (copy / folder).mkdir(parents=True)
    for script in (DATASETS / "make.py", *(DATASETS / "generators").glob("*.py")):
        target = copy / script.relative_to(DATASETS)
        target.parent.mkdir(exist_ok=True)
        target.write_text(script.read_text())
    here = {**os.environ, "PYTHONPATH": str(DATASETS.parent)}
    subprocess.run([sys.executable, "-B", copy / "make.py"], check=True, env=here)
    made = {path.relative_to(copy): path.read_bytes() for path in copy.rglob("*.*")}
    assert {p for p in made if p.suffix != ".py"} == {
        path.relative_to(DATASETS)
        for path in DATASETS.rglob("*.*")
        # What is exported has a script of its own; what is published has none.
        if path.suffix in SUFFIXES
        and path.relative_to(DATASETS).parts[0] not in ("aten", "published", "rivals")
    }
    for path, content in made.items():
        assert (DATASETS / path).read_bytes() == content, path
