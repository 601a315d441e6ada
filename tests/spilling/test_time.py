"""Plans of least time: what copies take, and how much of it ops hide."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.cases import seeds
from support.spill_oracle import random_spill_case

import cpplan
from cpplan import Graph, Op, Plan, Pool, Tensor
from cpplan.model.errors import InputError, VerificationError

SPEED = {"read_bandwidth": 2, "write_bandwidth": 1, "read_latency": 3, "write_latency": 5}


def chain() -> Graph:
    """Tensor a is written first and read last; b to e follow one another, each op for 20 cycles.

    In 24 B there is room for two tensors at work and a third, so that a has to go only where the
    op "big" needs all of it.
    """
    tensors = (*(Tensor(name, 8) for name in "abce"), Tensor("w", 8), Tensor("d", 16))
    reads = {"a": "", "b": "", "c": "b", "d": "c", "e": "d"}
    ops = tuple(Op(f"make {k}", inputs=tuple(v), outputs=(k,), cost=20) for k, v in reads.items())
    last = Op("last", inputs=("a", "e"), outputs=("w",), cost=20)
    return Graph("chain", tensors, (*ops, last))


def solved(graph: Graph, **options) -> Plan:
    pools = [Pool("fast", 24), Pool("slow", **SPEED, **options)]
    return cpplan.solve(graph, pools=pools, spill=True, objective="time", time_limit=20)


def test_copies_in_turn_take_their_latency_and_bytes() -> None:
    plan = solved(chain())
    # Tensor a leaves and comes back: 5 + 8 / 1 and 3 + 8 / 2 cycles beside six ops of 20.
    assert (plan.status, plan.moved_bytes, plan.time) == ("optimal", 16, 120 + 13 + 7)


def test_an_engine_hides_copies_behind_ops_where_there_is_room() -> None:
    plan = solved(chain(), engine=True)
    # The spill runs beside "make b", where there is room; after "make e" there is none to reload.
    assert plan.time is not None
    assert plan.time == plan.time_bound + 7
    assert [move.kind for move in plan.moves] == ["spill", "wait", "reload"]
    cpplan.simulate(chain(), plan)


def test_a_copy_without_an_engine_cannot_run_beside_ops() -> None:
    plan = solved(chain(), engine=True)
    pools = plan.pools[0], replace(plan.pools[1], engine=False)
    with pytest.raises(VerificationError, match="has no copy engine"):
        cpplan.verify(chain(), replace(plan, pools=pools))


def test_a_wait_left_out_is_found() -> None:
    plan = solved(chain(), engine=True)
    wait = next(move for move in plan.moves if move.kind == "wait")
    order = tuple(name for name in plan.order if name != wait.name)
    moves = tuple(move for move in plan.moves if move != wait)
    with pytest.raises(VerificationError):
        cpplan.verify(chain(), replace(plan, order=order, moves=moves))


def test_another_time_is_refused() -> None:
    plan = solved(chain())
    for changed in ({"time": 139}, {"time_bound": 141}, {"time_bound": 0}):
        with pytest.raises(VerificationError):
            cpplan.verify(chain(), replace(plan, **changed))


@pytest.mark.parametrize("seed", seeds(6))
def test_least_time_of_equal_speeds_moves_the_fewest_bytes(seed: int) -> None:
    case = random_spill_case(seed)
    bytes_ = case.solve()
    slow = replace(case.pools[1], read_bandwidth=1, write_bandwidth=1)
    timed = replace(case, pools=(case.pools[0], slow)).solve(objective="time")
    assert timed.status == bytes_.status
    if bytes_.moved_bytes is not None:
        assert timed.time == timed.cost + bytes_.moved_bytes
        cpplan.simulate(case.graph, timed)


def test_time_needs_bandwidths_and_moves() -> None:
    pools = [Pool("fast", 24), Pool("slow")]
    with pytest.raises(InputError, match="needs a read_bandwidth"):
        cpplan.solve(chain(), pools=pools, spill=True, objective="time")
    with pytest.raises(InputError, match="needs spill=True"):
        cpplan.solve(chain(), pools=pools, objective="time")


def test_wrong_gap_of_a_time_plan_names_the_time(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    solved(chain(), engine=True).save(path)
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "gap": 0.5}))
    with pytest.raises(InputError, match=r"gap is 0\.5, but time and time_bound make"):
        Plan.load(path)
