"""One table of formats: what is read, what is written, and by which functions."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.split_networks import Network

import cpplan
from cpplan import Graph, Op, Plan, Pool, Problem, Program, Tensor
from cpplan.batches.manifest import read_manifest
from cpplan.cli.main import cli
from cpplan.io.formats import FORMATS, describe_suffixes, read_suffixes, readers, writers
from cpplan.io.minimalloc_csv import read_problem
from cpplan.model.errors import InputError
from cpplan.model.methods import find_function

PROBLEM = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8], name="two")
TENSORS = (Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output"))
GRAPH = Graph("tiny", TENSORS, (Op("relu", "Relu", ("x",), ("y",), in_place=(("y", "x"),)),))


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A plan of the bare problem."""
    return cpplan.solve(PROBLEM)


def test_every_row_names_functions_and_its_own_suffixes() -> None:
    for row in FORMATS:
        assert row.read is not None or row.write is not None
        if row.extra is None or find_spec(row.extra) is not None:
            places = filter(None, (row.read, row.write))
            assert all(callable(find_function(place)) for place in places)
    for rows in (readers(), writers()):
        suffixes = [suffix for row in rows for suffix in row.suffixes]
        assert len(suffixes) == len(set(suffixes))
    assert len({row.name for row in FORMATS}) == len(FORMATS)


def test_the_suffix_picks_the_writer(plan: Plan, tmp_path: Path) -> None:
    for suffix in ("csv", "json", "h", "html"):
        plan.export(tmp_path / f"two.{suffix.upper()}", PROBLEM)
    assert read_problem(tmp_path / "two.CSV").fixed == dict(enumerate(plan.offset.tolist()))
    assert Plan.load(tmp_path / "two.JSON") == plan
    assert "TWO_ARENA_SIZE" in (tmp_path / "two.H").read_text()
    assert (tmp_path / "two.HTML").read_text().startswith("<!doctype html>")
    found = cpplan.solve(GRAPH)
    for source in (GRAPH, cpplan.to_anf(GRAPH)):
        found.export(tmp_path / "tiny.anf", source)
        program = Program.parse((tmp_path / "tiny.anf").read_text())
        assert tuple(op.name for op in program.ops) == found.order


def test_options_are_those_of_the_writer(plan: Plan, tmp_path: Path) -> None:
    plan.export(tmp_path / "two.h", prefix="MINE")
    assert "MINE_ARENA_SIZE" in (tmp_path / "two.h").read_text()
    plan.export(tmp_path / "two.json", clock=True)
    assert '"runtime"' in (tmp_path / "two.json").read_text()
    with pytest.raises(InputError, match=r"\.h: no option 'dims': expected prefix, alignment"):
        plan.export(tmp_path / "two.h", dims={})
    with pytest.raises(InputError, match=r"\.csv: no option 'dims': expected none"):
        plan.export(tmp_path / "two.csv", PROBLEM, dims={})


def test_a_plan_in_pieces_is_written_with_a_row_for_each_piece(tmp_path: Path) -> None:
    net = Network()
    x = net.image(12, 4, 2)
    net.conv(net.conv(x, 6), 2)
    graph = net.graph()
    aligned = replace(graph, tensors=tuple(replace(t, alignment=4) for t in graph.tensors))
    found = cpplan.solve(aligned, split=True, time_limit=1, deterministic=True)
    assert found.pieces
    for suffix in ("anf", "csv", "h"):
        found.export(tmp_path / f"p.{suffix}", aligned)
    program = Program.parse((tmp_path / "p.anf").read_text())
    assert tuple(op.name for op in program.ops) == found.order
    assert read_problem(tmp_path / "p.csv").names == found.buffers
    header = (tmp_path / "p.h").read_text()
    assert header.count("_OFFSET % 4u == 0") == len(found.buffers)


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("p.xls", PROBLEM, r"p\.xls: plans are not written so: expected .*\.onnx \(ONNX\), .* or "),
        ("p", PROBLEM, "plans are not written so"),
        ("p.csv", None, r"p\.csv: a CSV needs the graph or problem .*, not nothing"),
        ("p.csv", GRAPH, r"p\.csv: "),
        ("p.anf", PROBLEM, r"p\.anf: a program needs the graph that was planned, not a Problem"),
        ("p.onnx", None, r"p\.onnx: source must be the \.onnx model that was planned"),
        ("p.tflite", None, r"p\.tflite: source must be the \.tflite model that was planned"),
    ],
)
def test_what_cannot_be_exported_is_said_and_not_written(
    plan: Plan, tmp_path: Path, name: str, source: object, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        plan.export(tmp_path / name, source)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_csv_holds_one_pool_without_sharing(tmp_path: Path) -> None:
    pooled = cpplan.solve(replace(PROBLEM, pools=(Pool("sram", 4), Pool("dram"))))
    shared = cpplan.solve(GRAPH, in_place=True)
    assert shared.relations
    for found, source, message in (
        (pooled, PROBLEM, "one pool only"),
        (shared, GRAPH, "cannot say which buffers share bytes"),
        (cpplan.solve(PROBLEM), replace(PROBLEM, names=("a", "c")), "for another source"),
    ):
        with pytest.raises(InputError, match=message):
            found.export(tmp_path / "p.csv", source)


def test_a_plan_without_offsets_is_written_where_it_says_why(tmp_path: Path) -> None:
    none = cpplan.solve(PROBLEM, memory_limit=8)
    for suffix in ("json", "html"):
        none.export(tmp_path / f"p.{suffix}", PROBLEM)
        assert (tmp_path / f"p.{suffix}").exists()
    for suffix in ("csv", "h"):
        with pytest.raises(InputError, match="plan 'two' has no offsets"):
            none.export(tmp_path / f"p.{suffix}", PROBLEM)


def test_errors_help_and_batches_list_the_table(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        cpplan.load("model.h5")
    assert str(caught.value).endswith(f"expected {describe_suffixes(readers())}")
    printed = CliRunner().invoke(cli, ["plan", "--help"], terminal_width=200).output
    assert f"({', '.join(read_suffixes())})" in printed
    for row in writers():
        assert ("--output" if row.name == "plan" else f"--{row.name} ") in printed
    for suffix in (*read_suffixes(), ".h5"):
        (tmp_path / f"model{suffix}").touch()
    found = {Path(model.source).name for model in read_manifest(tmp_path).models}
    assert found == {f"model{suffix}" for suffix in read_suffixes()}
