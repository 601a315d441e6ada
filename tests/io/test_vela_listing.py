"""Vela's allocation tables, of both of its cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpplan.comparison.baselines import compare_rows
from cpplan.comparison.rivals.vela_listing import read_vela
from cpplan.io import load
from cpplan.model.errors import InputError

RIVALS = Path(__file__).parents[2] / "datasets/rivals"
HEAD = "Allocation, memory {}, usage mask: {}\nStart Time - End Time  : Start Addr - …: Name\n"
END = "Allocation Peak Tensor Size: 1 bytes == 0 KiB\n"


def row(first: int, last: int, offset: int, size: int, name: str) -> str:
    span = f"{first:10} - {last:10}: {offset:#10x} - {offset + size:#10x}: {size:11}"
    return f"{span}: {size:12}: NHWC           : {name}\n"


def read(folder: Path, text: str):
    path = folder / "vela.txt"
    path.write_text(text)
    return read_vela(path)


@pytest.mark.parametrize(
    ("name", "peak"), [("vela_branches", 40032), ("vela_branches_legacy", 47472)]
)
def test_real_listings_are_answers_without_overlap(name, peak):
    problem = load(RIVALS / f"{name}.txt")
    # Vela prints the same figure as the most bytes live at once.
    assert int(problem.live_bytes().max()) == peak
    rows = {row.algorithm: row for row in compare_rows(problem, algorithms=[])}
    assert (rows["vela"].bytes, rows["vela"].status) == (peak, "optimal")
    assert rows["cpplan"].bytes == peak


def test_tensors_of_one_live_range_are_one_buffer_and_names_are_unique(tmp_path):
    table = row(0, 1, 0, 16, "a") + row(0, 1, 0, 16, "twin") + row(2, 3, 0, 32, "a")
    problem = read(tmp_path, HEAD.format("Sram", "FeatureMap") + table + END)
    assert list(problem.names) == ["a", "a@2"]
    assert problem.lower.tolist() == [0, 2]
    assert problem.upper.tolist() == [2, 4]


def test_an_overlap_is_invalid(tmp_path):
    table = row(0, 1, 0, 32, "a") + row(1, 3, 16, 32, "b")
    problem = read(tmp_path, HEAD.format("Sram", "FeatureMap") + table + END)
    assert compare_rows(problem, algorithms=[])[-1].status == "invalid"


def test_memories_are_pools_and_what_is_only_read_is_left_out(tmp_path):
    text = ""
    for memory, mask, name in [
        ("Sram", "Staging", "a"),
        ("Dram", "FeatureMap", "b"),
        ("OffChipFlash", "ReadOnly", "weights"),
        ("Sram", "FeatureMap", "c"),
    ]:
        text += HEAD.format(memory, mask) + row(0, 1, 0, 64, name) + END
    problem = read(tmp_path, "Warning: none\n" + text + "Network summary\n")
    assert [pool.name for pool in problem.pools] == ["Sram", "Dram", "Sram1"]
    assert list(problem.names) == ["a", "b", "c"]
    assert compare_rows(problem, algorithms=[])[-1].bytes == 192


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no tensors"),
        ("Start Time -", "cut short"),
        (HEAD.format("Sram", "FeatureMap") + END, "no tensors"),
        (HEAD.format("Sram", "FeatureMap") + row(0, 1, 0, 16, "a"), "cut short"),
        (HEAD.format("Sram", "FeatureMap") + row(0, 1, 0, 16, "a")[:30], ":3: expected a tensor"),
        (HEAD.format("Flash", "ReadOnly") + row(0, 1, 0, 16, "a") + END, "no tensors"),
    ],
)
def test_bad_listings_are_refused(tmp_path, text, complaint):
    with pytest.raises(InputError, match=complaint):
        read(tmp_path, text)
