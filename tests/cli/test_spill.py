"""``--spill`` on the command line: plans, verification, comparison, curve and explanation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_models import DATASETS

import cpplan
from cpplan import Plan
from cpplan.cli.main import main
from cpplan.comparison.spill_comparison import compare_spill_rows

CELL = str(DATASETS / "ordering" / "nasnet_cell.json")
# An op needs 1655808 B, and everything 2483712 B.
TWO_POOLS = ["--spill", "--in-place", "--pool", "sram=1700000", "--pool", "dram"]


def test_json_has_the_moves_and_their_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", CELL, *TWO_POOLS, "--json", "-"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["status"] == "optimal"
    assert values["moved_bytes"] == values["moved_bytes_bound"] == 827904 + 275968
    assert sum(move["bytes"] for move in values["moves"]) == values["moved_bytes"]
    assert {"kind", "name", "tensor", "bytes", "from", "to"} == set(values["moves"][0])
    copies = [move["name"] for move in values["moves"] if move["kind"] in ("spill", "reload")]
    assert set(copies) <= set(values["order"])


def test_saved_plan_is_verified_and_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    assert main(["plan", CELL, *TWO_POOLS, "-q", "-o", str(path)]) == 0
    assert Plan.load(path).moves
    capsys.readouterr()
    assert main(["verify", CELL, str(path)]) == 0
    out = capsys.readouterr().out
    assert "moved      ok: 1103872 B" in out
    assert "simulation ok" in out


def test_too_small_a_fast_pool_names_the_op_and_the_missing_bytes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pools = ["--pool", "sram=1000000", "--pool", "dram"]
    assert main(["plan", CELL, "--spill", *pools, "-q"]) == 3
    assert "op relu_0 needs 1655808 B" in (err := capsys.readouterr().err)
    assert "655808 B are missing" in err


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--pool", "sram=1MB"], "needs two workspace pools"),
        (["--pool", "sram", "--pool", "dram"], "a capacity of the fast pool 'sram'"),
        ([*TWO_POOLS[2:], "--objective", "total"], "minimises the bytes moved"),
        ([*TWO_POOLS[2:], "--algorithm", "bump"], "cannot be combined with algorithm"),
    ],
)
def test_options_that_contradict_spilling_are_refused(
    options: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", CELL, "--spill", *options, "-q"]) == 2
    assert wanted in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of ExecuTorch, if installed
def test_compare_lists_eviction_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", CELL, *TWO_POOLS, "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"cpplan", "belady", "belady, 16 ops ahead", "whole tensors"} <= {
        row["algorithm"] for row in rows
    }
    ours = next(row["moved"] for row in rows if row["algorithm"] == "cpplan")
    assert all(row["moved"] is None or row["moved"] >= ours for row in rows)


TIMED = ["--objective", "time", "--pool", "dram,read_bandwidth=4,write_bandwidth=2"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of ExecuTorch, if installed
def test_compare_ranks_by_time_where_time_is_minimised(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", CELL, *TWO_POOLS[:-2], *TIMED, "--json", "-"]
    assert main(command) == 0
    rows = json.loads(capsys.readouterr().out)
    times = [row["time"] for row in rows if row["time"] is not None]
    assert len(times) > 3
    assert times == sorted(times)
    assert rows[0]["ratio"] >= 1
    assert next(row for row in rows if row["algorithm"] == "cpplan")["time"] == times[0]


def test_curve_of_time_never_falls_with_less_memory(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["pareto", CELL, "--spill", "--in-place", "--points", "3", "--pool", "sram"]
    assert main([*command, *TIMED, "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)
    times = [row["time"] for row in rows]
    assert times == sorted(times)
    assert times[0] < times[-1]
    assert all(row["time_bound"] <= row["time"] <= row["rules"]["belady"] for row in rows)
    assert main(["pareto", CELL, "--objective", "time"]) == 2
    assert "give --spill too" in capsys.readouterr().err


@pytest.mark.slow
def test_rule_that_cannot_be_packed_evicts_more() -> None:
    graph = cpplan.load(DATASETS / "ordering" / "layered_100.json")
    pools = [cpplan.Pool("sram", 20_000), cpplan.Pool("dram", direct=True)]
    options = {"pools": pools, "in_place": True, "deterministic": True, "time_limit": 2}
    rows = compare_spill_rows(graph, algorithms=["belady", "cheapest first"], **options)
    rules = [row for row in rows if row.algorithm != "cpplan"]
    assert all(row.unpacked <= row.moved for row in rules)
    assert any(row.unpacked < row.moved for row in rules)
    assert rows[0].algorithm == "cpplan"


def test_curve_never_falls_with_less_memory(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["pareto", CELL, "--spill", "--in-place", "--points", "3", "--json", "-"]
    assert main(command) == 0
    rows = json.loads(capsys.readouterr().out)
    moved = [row["moved_bytes"] for row in rows]
    assert moved == sorted(moved)
    assert moved[0] == 0
    assert all(row["moved_bytes_bound"] <= row["moved_bytes"] for row in rows)
    assert all(row["rules"]["belady"] >= row["moved_bytes"] for row in rows)


def test_explanation_names_the_tensors_that_move(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", CELL, *TWO_POOLS, "--explain", "-q"]) == 0
    out = capsys.readouterr().out
    assert "1 KiB more       saves about" in out
    assert "tensor" in out.splitlines()[-4:][0] or "moves" in out


def test_saved_plan_is_explained_by_what_it_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "plan.json")
    assert main(["plan", CELL, *TWO_POOLS, "-q", "-o", path]) == 0
    capsys.readouterr()
    assert main(["show", path, "--explain", "--model", CELL]) == 0
    assert "moved            1.05 MiB, optimal" in capsys.readouterr().out
    assert main(["show", path, "--explain", "--model", CELL, "--time-limit", "1"]) == 2
    assert "--time-limit is of no use where tensors move" in capsys.readouterr().err
