"""The checker proves no more bytes moved than brute force, whatever a certificate says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.cases import seeds
from support.spill_oracle import Case, random_unused_case

from cpplan import solve
from cpplan.model.certificates import ForcedAt, ForcedMoves, RoomPrices
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.verification.forced_moves import forced_moves_floor
from cpplan.verification.moved_bound import moved_bytes_floor
from cpplan.verification.moves import BareProgram

# A result that nothing reads does not fit beside the input.
UNUSED = Case(
    Graph(
        "unused",
        (Tensor("x", 2, kind="input"), Tensor("a", 4)),
        (Op("f", inputs=("x",), outputs=("a",)),),
    ),
    Residency(),
    (Pool("fast", 3), Pool("slow", direct=True)),
    in_place=False,
)


def _read(case: Case) -> tuple[BareProgram, Plan]:
    """The ops in the given order and what a plan says of the pools, without moves and offsets."""
    program, none = to_anf(case.graph), np.zeros(0, np.int64)
    plan = Plan(
        "p", "feasible", (), none, none, none, none, pools=case.pools, order=program.names,
        residency=case.residency, sharing=("in place",) if case.in_place else (),
        time_bound=0 if case.time else None,
    )  # fmt: skip
    return BareProgram(program, case.residency), plan


def _prices(case: Case, rng: random.Random) -> RoomPrices:
    amounts = [rng.choice([0, 0, 1, 1, 2, 3]) for _ in case.graph.ops]
    return RoomPrices(1, tuple(zip((op.name for op in case.graph.ops), amounts, strict=True)))


def test_room_prices_let_an_unused_result_go_to_the_slow_pool() -> None:
    """Writing ``a`` there moves 4 B, and leaves the fast pool to ``x``."""
    still, plan = _read(UNUSED)
    prices = RoomPrices(0, (("f", 10),))
    assert UNUSED.least(any_order=False) == 4
    assert moved_bytes_floor(UNUSED.graph, still, plan, prices) <= 4
    assert forced_moves_floor(UNUSED.graph, still, plan, ForcedMoves((ForcedAt("f"),))) <= 4


def test_what_an_output_in_place_of_an_input_shows_is_not_written_over() -> None:
    """``same`` shows the bytes of ``x``, and is an output: ``b`` cannot take them over."""
    graph = Graph(
        "shown",
        (
            Tensor("x", 2, kind="input"),
            Tensor("same", 2, kind="output", view_of=("x", 0)),
            Tensor("a", 3, kind="output"),
            Tensor("b", 2, kind="output"),
        ),
        (
            Op("reshape", inputs=("x",), outputs=("same",)),
            Op("f", inputs=("x",), outputs=("a",)),
            Op("g", inputs=("same",), outputs=("b",), in_place=(("b", "same"),)),
        ),
    )
    pools = Pool("fast", 5), Pool("slow", direct=True)
    case = Case(graph, Residency(), pools, in_place=True)
    still, plan = _read(case)
    assert case.least(any_order=False) == 2
    assert moved_bytes_floor(graph, still, plan, RoomPrices(0, (("g", 1),))) == 2
    solved = solve(graph, spill=True, pools=pools, in_place=True)
    assert (solved.status, solved.moved_bytes) == ("optimal", 2)


@pytest.mark.parametrize("seed", seeds(80))
def test_no_certificate_proves_more_than_brute_force(seed: int) -> None:
    case, rng = random_unused_case(seed), random.Random(seed)
    (still, plan), least = _read(case), case.least(any_order=False)
    for _ in range(5):
        floor = moved_bytes_floor(case.graph, still, plan, _prices(case, rng))
        assert least is None or floor <= least
    least = case.least(any_order=True)
    for op in case.graph.ops:
        floor = forced_moves_floor(case.graph, still, plan, ForcedMoves((ForcedAt(op.name),)))
        assert least is None or floor <= least
