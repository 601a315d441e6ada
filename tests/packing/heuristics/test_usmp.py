"""USMP as published: its figures, and its defects; and that what cpplan plans has neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.pool_oracles import check_pooled
from support.published import published

from cpplan.model.errors import InfeasibleError, InputError, VerificationError
from cpplan.model.pool import Pool
from cpplan.packing.heuristics.by_usmp import usmp_hill_climb
from cpplan.packing.heuristics.in_pools import PoolLayout, run_in_pools
from cpplan.packing.heuristics.usmp import (
    Allocations,
    UsmpBuffer,
    UsmpProblem,
    pool_totals,
    usmp_greedy_by_conflicts,
    usmp_greedy_by_size,
)
from cpplan.packing.pools.solve import pack_pools
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

PUBLISHED = {
    "greedy_by_size": usmp_greedy_by_size,
    "greedy_by_conflicts": usmp_greedy_by_conflicts,
    "hill_climb": usmp_hill_climb,
}


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, Any]]:
    """TVM's planner tests, and cases made to show the defects."""
    values = published("tvm")
    listed = values["usmp"] + values["usmp_known_defects_regressions"]
    return {case["id"]: case for case in listed if "buffers" in case}


def read(case: dict[str, Any]) -> UsmpProblem:
    """Conflict lists as the source has them."""
    lists = {b["name"]: b["conflicts"] for b in case["buffers"]}
    lists.update(case.get("as_given_directed_conflicts", {}))
    if "conflict_order_of_C" in case:
        lists["C"] = case["conflict_order_of_C"]
    alignment = {b["name"]: b["alignment"] for b in case["buffers"]} | case.get("alignments", {})
    buffers = tuple(
        UsmpBuffer(
            b["name"], b["size"], tuple(lists[b["name"]]), tuple(b["pools"]), alignment[b["name"]]
        )
        for b in case["buffers"]
    )
    pools = (
        Pool(p["name"], None if p["size_hint"] == -1 else p["size_hint"]) for p in case["pools"]
    )
    return UsmpProblem(buffers, tuple(pools))


def check(problem: UsmpProblem, allocations: Allocations) -> None:
    """Against the conflicts in both directions."""
    meant = problem.to_problem()
    number = {pool.name: k for k, pool in enumerate(problem.pools)}
    found = [allocations[name] for name in meant.names]
    pool = np.array([number[each.pool] for each in found])
    check_pooled(meant, pool, np.array([each.offset for each in found]))


def test_published_totals_are_reproduced(cases):
    compared = 0
    for case in cases.values():
        for name, totals in case.get("expect", {}).get("pool_total", {}).items():
            problem = read(case)
            assert pool_totals(problem, PUBLISHED[name](problem)) == totals, (case["id"], name)
            compared += 1
    assert compared == 12


def test_published_offsets_are_reproduced(cases):
    ties = cases["usmp/name_based_ordering"]
    for name, offsets in ties["expect"]["offsets"].items():
        found = PUBLISHED[name](read(ties))
        assert {buffer: at.offset for buffer, at in found.items()} == offsets
    for name in ("mobilenet_subgraph", "resnet_subgraph"):
        case = cases[f"usmp/{name}"]
        found = usmp_greedy_by_size(read(case))
        expected = case["expect"]["offsets_greedy_by_size"]
        assert {buffer: list(at) for buffer, at in found.items()} == expected


def test_published_hill_climbing_comes_within_5_percent_of_live_bytes(cases):
    for name in ("intervals_alloc_max", "intervals_simple"):
        case = cases[f"usmp/{name}"]
        totals = pool_totals(read(case), usmp_hill_climb(read(case), case["max_live"]))
        assert totals["default"] <= 1.05 * case["max_live"]


def test_published_algorithms_say_what_exceeds_the_pools(cases):
    problem = read(cases["usmp/no_pool_error"])
    for algorithm in PUBLISHED.values():
        with pytest.raises(InfeasibleError, match="the space in the pools is exceeded by"):
            algorithm(problem)


def test_conflicts_listed_one_way_overlap(cases):
    problem = read(cases["usmp/fanout"])
    assert "bi_b" in problem.lists()["bi_d"]
    assert "bi_d" not in problem.lists()["bi_b"]
    with pytest.raises(VerificationError, match="overlap"):
        check(problem, usmp_greedy_by_size(problem))


def test_published_alignment_is_the_neighbour_s(cases):
    """A (10 B) at 0, B must be aligned to 16, and lies at 10."""
    problem = read(cases["defect/alignment_of_wrong_buffer"])
    for algorithm in PUBLISHED.values():
        assert algorithm(problem)["B"].offset == 10
        with pytest.raises(VerificationError, match=r"'B'.*not a multiple of the alignment"):
            check(problem, algorithm(problem))


@pytest.mark.parametrize("name", ["greedy_by_size", "greedy_by_conflicts"])
def test_published_greedy_comes_back_to_a_pool_it_gave_up(name, cases):
    """C is too large for what X leaves of p; then Y puts p back, at an address within X."""
    problem = read(cases["defect/reinserted_pool_overlap"])
    found = PUBLISHED[name](problem)
    assert {buffer: tuple(at) for buffer, at in found.items()} == {
        "Y": ("p", 0),
        "X": ("p", 50),
        "C": ("p", 50),
    }
    with pytest.raises(VerificationError, match="overlap"):
        check(problem, found)


def test_published_greedy_finds_no_room_below(cases):
    """Z at 0, X at 60, and Y, which meets X only, would fit below it."""
    problem = read(cases["defect/false_infeasible_no_gap_fill"])
    with pytest.raises(InfeasibleError, match="'Y'"):
        usmp_greedy_by_size(problem)


def test_hill_climbing_may_draw_nothing_to_swap():
    """b's only conflict is a: TVM's planner would draw for a second buffer for ever."""
    pair = (UsmpBuffer("a", 8, ("b",)), UsmpBuffer("b", 4, ("a",)))
    found = usmp_hill_climb(UsmpProblem(pair, (Pool("arena"),)))
    assert {name: at.offset for name, at in found.items()} == {"a": 0, "b": 8}


def test_corrected_variants_are_valid_on_every_case(cases):
    placed = 0
    for case in cases.values():
        problem = read(case).to_problem()
        for name in PUBLISHED:
            layout = run_in_pools(name, problem, Deadline(60))
            assert (layout is None) == (case["id"] == "usmp/no_pool_error"), (case["id"], name)
            if isinstance(layout, PoolLayout):
                check_pooled(problem, *layout)
                placed += 1
    assert placed == 3 * (len(cases) - 1) >= 33


def test_every_proved_optimum_is_reached_and_proved(cases):
    optimum = {
        "defect/alignment_of_wrong_buffer": 14,
        "defect/reinserted_pool_overlap": 140,
        "defect/false_infeasible_no_gap_fill": 100,
    }
    for name, case in cases.items():
        problem = read(case).to_problem()
        expected = case.get("proven_optimum_bytes", optimum.get(name))
        if not isinstance(expected, int):
            continue
        packing = pack_pools(problem, "total", Budget(Deadline(60)))
        assert (packing.status, packing.objective_value) == ("optimal", (expected,)), name
        check_pooled(problem, packing.pool, packing.offset)
        optimum[name] = expected
    assert len(optimum) == 10


def test_mobilenet_s_fast_pool_is_filled_first(cases):
    """Slow needs 1117462 B at least while fast has 200704; all in slow is 256 B less in total."""
    problem = read(cases["usmp/mobilenet_subgraph"]).to_problem()
    packing = pack_pools(problem, "preference", Budget(Deadline(60)))
    assert packing.status == "optimal"
    assert packing.objective_value[0] == 1117462
    assert packing.objective_value[-1] <= 200704
    packing = pack_pools(problem, "total", Budget(Deadline(60)))
    assert (packing.status, packing.objective_value) == ("optimal", (1117718,))


def test_a_triangle_of_10_bytes_misses_20_in_a_pool_of_10(cases):
    packing = pack_pools(
        read(cases["usmp/no_pool_error"]).to_problem(), "total", Budget(Deadline(60))
    )
    assert packing.status == "infeasible"
    assert packing.message == (
        "does not fit: 20 B are missing in pool 'tiny_workspace' of 10 B (live bytes); "
        "live at step 0: bi_a (10 B), bi_b (10 B), bi_c (10 B)"
    )


def test_bad_lists_are_named():
    pools = (Pool("arena"),)
    with pytest.raises(InputError, match="buffer 'a': unknown conflict 'z'"):
        UsmpProblem((UsmpBuffer("a", 4, ("z",)),), pools)
    with pytest.raises(InputError, match="buffer 'a': unknown pool 'sram'"):
        UsmpProblem((UsmpBuffer("a", 4, (), ("sram",)),), pools)
    with pytest.raises(InputError, match="two buffers have the same name"):
        UsmpProblem((UsmpBuffer("a", 4), UsmpBuffer("a", 4)), pools)
