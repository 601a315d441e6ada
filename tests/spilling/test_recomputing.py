"""Recomputation and spilling together: ops run again where that is cheaper than moving."""

from __future__ import annotations

import random
from dataclasses import replace

import onnx.parser
import pytest
from support.cases import seeds
from support.spill_oracle import random_spill_case

import cpplan
from cpplan import Graph, Op, Plan, Pool, Tensor
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.runtime.budget import make_budget
from cpplan.spilling.recomputing import Start, spill_or_recompute
from cpplan.spilling.search.again import Schedules

SPEED = {"read_bandwidth": 1, "write_bandwidth": 1}


def late_reader(cost: int) -> Graph:
    """Tensor a, made from a small x at some cost, is needed at once and again in the end."""
    tensors = Tensor("x", 2, kind="input"), *(Tensor(name, 8) for name in "abc")
    ops = (
        Op("f", inputs=("x",), outputs=("a",), cost=cost),
        Op("g", inputs=("a",), outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c")),
    )
    return Graph("late reader", tensors, ops)


def solved(graph: Graph, **options) -> Plan:
    pools = [Pool("fast", 18), Pool("slow", **SPEED)]
    options = {"objective": "time", "time_limit": 10, "deterministic": True, **options}
    return cpplan.solve(graph, pools=pools, spill=True, **options)


def test_a_cheap_op_runs_again_instead_of_a_spill() -> None:
    plan = solved(late_reader(4), remat=True)
    assert plan.order == ("f", "g", "h", "f", "k")
    assert (plan.moved_bytes, plan.cost, plan.base_cost, plan.time) == (0, 11, 7, 11)
    assert (plan.time_bound, plan.time_bound_by, plan.scope) == (7, "every op once", "every order")
    cpplan.simulate(late_reader(4), plan)


def test_a_dear_op_does_not_run_again() -> None:
    plan = solved(late_reader(40), remat=True)
    assert sorted(plan.order) == sorted(("f", "g", "h", "k", "spill a", "reload a"))
    assert plan.time == 43 + 16


def forth_and_back(seed: int) -> Graph:
    """A chain of seven ops, whose results a second chain reads again from the last one on."""
    rng = random.Random(seed)
    sizes = [rng.choice((4, 8, 12, 16)) for _ in range(14)]
    there = [Tensor(f"a{k}", size) for k, size in enumerate(sizes[:7])]
    back = [Tensor(f"b{k}", size) for k, size in enumerate(sizes[7:])]
    ops = [
        Op(
            f"f{k}",
            inputs=(f"a{k - 1}" if k else "x",),
            outputs=(f"a{k}",),
            cost=rng.randint(1, 30),
        )
        for k in range(7)
    ]
    for k in range(7):
        again = (f"b{k - 1}",) if k else ()
        ops.append(Op(f"g{k}", inputs=(f"a{6 - k}", *again), outputs=(f"b{k}",), cost=1))
    return Graph("forth and back", (Tensor("x", 2, kind="input"), *there, *back), tuple(ops))


def test_single_changes_are_planned_though_eviction_rules_move_more_then(monkeypatch) -> None:
    graph = forth_and_back(1)
    capacity = cpplan.solve(graph).peak * 60 // 100
    pools = [Pool("fast", capacity), Pool("slow", **SPEED)]
    options = {"objective": "time", "time_limit": 3, "deterministic": True, "remat": True}
    options["tuning"] = {"solving": {"smaller_ops": 0}}  # moves alone take 189, too
    found = cpplan.solve(graph, pools=pools, spill=True, **options)
    monkeypatch.setattr(Schedules, "changed", lambda self, known: iter(()))
    assert found.time <= 189 < cpplan.solve(graph, pools=pools, spill=True, **options).time
    cpplan.simulate(graph, found)


def test_a_plan_with_runs_and_moves_is_checked_and_survives_json(tmp_path) -> None:
    graph = late_reader(4)
    plan = solved(graph, remat=True)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan
    for changed in (
        {"order": ("f", "g", "h", "k")},
        {"order": ("f", "g", "h", "g", "k")},
        {"cost": 10},
        {"base_cost": 11},
        {"time": 10},
        {"time_bound": 8},
        {"time_bound_by": "room prices"},
        {"scope": "given order"},
    ):
        with pytest.raises(VerificationError):
            cpplan.verify(graph, replace(plan, **changed))


def test_a_plan_in_which_nothing_moves_keeps_its_offsets() -> None:
    graph, schedule = late_reader(4), ("f", "g", "h", "f", "k")
    # Neither side is where packing by itself puts them.
    places = {"x": 16, "a": 8, "b": 0, "c": 8, "a~1": 0}
    pools = Pool("fast", 18), Pool("slow", **SPEED)
    start, budget = Start(schedule, places), make_budget(5, deterministic=True)
    found = spill_or_recompute(to_anf(graph), Residency(), pools, budget, schedules=[start])
    assert found.layout is not None
    names, offsets = found.layout.problem.names, found.layout.offset.tolist()
    assert dict(zip(names, offsets, strict=True)) == places
    assert found.choice is not None
    assert found.choice.paid == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(8, 6000))
def test_both_together_take_no_longer_than_recomputation_alone(seed: int) -> None:
    case = random_spill_case(seed)
    rng = random.Random(seed)
    ops = tuple(replace(op, cost=rng.choice([1, 5, 20])) for op in case.graph.ops)
    graph = Graph("random", case.graph.tensors, ops)
    fast = case.pools[0]
    options = {"in_place": True, "time_limit": 10, "deterministic": True, "remat": True}
    alone = cpplan.solve(graph, memory_limit=fast.capacity, order="given", **options)
    if alone.offset is None:
        return
    pools = [fast, Pool("slow", **SPEED)]
    both = cpplan.solve(graph, pools=pools, spill=True, objective="time", **options)
    assert both.time <= alone.cost


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(10, 4000))
def test_both_together_take_no_longer_than_moves_alone(seed: int) -> None:
    case = random_spill_case(seed)
    case = replace(case, pools=(case.pools[0], replace(case.pools[1], **SPEED)))
    alone = case.solve(objective="time", time_limit=5)
    both = case.solve(None, objective="time", time_limit=5, remat=True)
    if alone.time is None:
        assert both.time is None
        return
    assert both.time is not None
    assert both.time <= alone.time
    cpplan.simulate(case.graph, both)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(5))
def test_runs_and_moves_compute_the_same_bytes(seed: int) -> None:
    rng = random.Random(seed)
    names, lines = ["x"], []
    for k in range(10):
        inputs = names[-1], rng.choice(names)
        lines.append(f"t{k} = Add({inputs[0]}, {inputs[1]})")
        names.append(f"t{k}")
    text = "\n".join([*lines, "y = Mul(t9, t1)"])
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[16] x) => (float[16] y) {{ {text} }}'
    )
    pools = [Pool("fast", 192), Pool("slow", read_bandwidth=0.5, write_bandwidth=0.5)]
    plan = cpplan.solve(
        cpplan.load(model), pools=pools, spill=True, remat=True, objective="time", time_limit=5,
        deterministic=True,
    )  # fmt: skip
    assert plan.offset is not None
    assert cpplan.execute(model, plan, seed=seed).steps == len(plan.order)


def test_moves_and_work_are_weighed_by_time_only() -> None:
    with pytest.raises(InputError, match="needs objective='time'"):
        solved(late_reader(4), remat=True, objective="preference")
    with pytest.raises(InputError, match="cannot be combined with order='search'"):
        solved(late_reader(4), remat=True, order="search")
