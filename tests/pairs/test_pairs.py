"""Every pair of options on random models, and every triple in the slow run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from support.cases import FACTOR
from support.pairs.cells import SLOW_TIME_LIMIT, TIME_LIMIT, false_cell
from support.pairs.covering import cover
from support.pairs.models import is_installed
from support.pairs.options import OPTIONS, Cell, changed, forbidden

BLOCKS, SLOW_BLOCKS = 12, 24


@cache
def cells(strength: int) -> list[Cell]:
    return cover(OPTIONS, strength, forbidden()).rows


def false_cells(
    strength: int, block: int, blocks: int, folder: Path, time_limit: float = TIME_LIMIT
) -> list[str]:
    """Everything false about every ``blocks``-th cell."""
    finds = []
    for round_ in range(FACTOR):
        for number, cell in enumerate(cells(strength)):
            if number % blocks == block and is_installed(cell["source"]):
                model = number + round_ * len(cells(strength))
                finds += [
                    f"model {model}, {changed(cell)}: {find}"
                    for find in false_cell(cell, model, folder, time_limit=time_limit)
                ]
    return finds


@pytest.mark.parametrize("block", range(BLOCKS))
def test_all_pairs_of_options_keep_every_rule(block: int, tmp_path: Path) -> None:
    assert false_cells(2, block, BLOCKS, tmp_path) == []


def test_a_tensor_that_a_body_shares_is_not_cut_into_single_steps(tmp_path: Path) -> None:
    plain = next(cell for cell in cells(2) if cell["source"] == "bodies")
    asked = {
        "use": "json", "sizes": "fixed", "inputs": "reuse", "outputs": "keep", "constants": None,
        "pools": "limited", "remat": True, "split": True, "spill": False, "order": "given",
        "objective": "preference", "cost_limit": None, "memory_limit": "75%", "capacity": None,
        "ends": None, "in_place": True, "placement": False, "piece_bytes": 0, "algorithm": None,
        "deterministic": True, "workers": 1, "seed": 0, "suggest": 0.0,
    }  # fmt: skip
    assert false_cell({**plain, **asked}, 293414151, tmp_path) == []


def test_repetitions_at_no_more_work_do_not_take_the_time_of_pieces(tmp_path: Path) -> None:
    plain = next(cell for cell in cells(2) if cell["source"] == "program")
    asked = {
        "use": "json", "sizes": "fixed", "inputs": "reuse", "outputs": "outside",
        "constants": "keep", "pools": "arena", "remat": True, "split": True, "spill": False,
        "order": "given", "objective": "preference", "cost_limit": 1.0, "memory_limit": None,
        "capacity": None, "ends": None, "in_place": False, "placement": None, "piece_bytes": 0,
        "algorithm": None, "deterministic": True, "workers": 1, "seed": 0, "suggest": 0.0,
    }  # fmt: skip
    assert false_cell({**plain, **asked}, 368927835, tmp_path) == []


def test_an_order_without_aliases_is_a_candidate_in_several_pools(tmp_path: Path) -> None:
    plain = next(cell for cell in cells(2) if cell["source"] == "bodies")
    asked = {
        "use": "report", "sizes": "fixed", "inputs": "reuse", "outputs": "keep", "constants": None,
        "pools": "three", "remat": False, "split": False, "spill": False, "objective": "cost",
        "cost_limit": None, "memory_limit": None, "capacity": None, "order": "search",
        "ends": "first", "in_place": True, "placement": None, "piece_bytes": 0, "algorithm": None,
        "deterministic": True, "workers": 1, "seed": 0, "suggest": 0.0,
    }  # fmt: skip
    assert false_cell({**plain, **asked}, 293401336, tmp_path) == []


def test_moves_of_pieces_of_which_none_can_be_chosen_have_prices(tmp_path: Path) -> None:
    plain = next(cell for cell in cells(2) if cell["source"] == "program")
    asked = {
        "use": "explain", "sizes": "fixed", "inputs": "reuse", "outputs": "outside",
        "constants": None, "pools": "two limited", "remat": False, "split": True, "spill": True,
        "order": "given", "objective": "preference", "cost_limit": 1.0, "memory_limit": None,
        "capacity": None, "ends": None, "in_place": False, "placement": None, "piece_bytes": 0,
        "algorithm": None, "deterministic": True, "workers": 1, "seed": 0, "suggest": 0.0,
    }  # fmt: skip
    assert false_cell({**plain, **asked}, 315323910, tmp_path) == []


@pytest.mark.skipif(not is_installed("tflite"), reason="needs cpplan[tflite]")
def test_building_a_large_model_takes_no_time_of_other_searches(tmp_path: Path) -> None:
    plain = next(cell for cell in cells(2) if cell["source"] == "tflite")
    asked = {
        "use": "again", "sizes": "fixed", "inputs": "outside", "outputs": "outside",
        "constants": None, "pools": "two limited", "remat": False, "split": True, "spill": True,
        "order": "given", "objective": "time", "cost_limit": None, "memory_limit": None,
        "capacity": None, "ends": None, "in_place": True, "placement": None, "piece_bytes": 0,
        "algorithm": None, "deterministic": True, "workers": 1, "seed": 0, "suggest": 0.5,
    }  # fmt: skip
    assert false_cell({**plain, **asked}, 656718518, tmp_path, time_limit=SLOW_TIME_LIMIT) == []


@pytest.mark.slow
@pytest.mark.parametrize("block", range(SLOW_BLOCKS))
def test_all_triples_of_options_keep_every_rule(block: int, tmp_path: Path) -> None:
    assert false_cells(3, block, SLOW_BLOCKS, tmp_path, SLOW_TIME_LIMIT) == []
