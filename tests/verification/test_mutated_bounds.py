"""Every kind of bound that is proved again: claims of more than can be proved are all refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from support.instances import side_by_side
from support.pool_oracles import OBJECTIVES, random_pooled
from support.remat_oracle import remat_chain
from support.split_networks import Network

import cpplan
from cpplan import Gap, Graph, Op, Plan, Pool, Problem, Tensor, verify
from cpplan.model.axes import Axis, Window
from cpplan.model.certificates import (
    Certificate,
    CutDuals,
    CutFlow,
    DualRow,
    LiveBetween,
    Reading,
)
from cpplan.model.errors import VerificationError
from cpplan.model.levels import pool_peaks
from cpplan.packing.heuristics.in_pools import run_in_pools
from cpplan.packing.pools.bounds import objective_bound
from cpplan.packing.pools.objective import objective_value
from cpplan.runtime.deadline import Deadline
from cpplan.verification.bound_table import COST_BOUNDS, PEAK_BOUNDS, POOL_BOUNDS
from cpplan.verification.verifier import check_plan

Case = tuple[Problem | Graph, Plan]
MUTATIONS = 40
# Of problems over pools that cite, together, every bound that random ones do.
SEEDS = (
    0, 1, 3, 4, 5, 6, 9, 10, 11, 19, 21, 32, 39, 45, 47, 62, 70, 86, 89, 90, 95, 96, 98, 114, 121,
    142, 151, 193, 198, 341, 462, 551, 735, 753, 954, 1130, 1443,
)  # fmt: skip


def proved_again(table: object) -> list[str]:
    return [bound.name for bound in table if bound.proof != "searched"]  # type: ignore[attr-defined]


def in_arena(problem: Problem, offset: list[int], bound: int, name: str) -> Case:
    peak = int((np.array(offset) + problem.size).max())
    columns = {"size": problem.size, "lower": problem.lower, "upper": problem.upper}
    return problem, Plan(
        "p", "optimal" if peak == bound else "feasible", tuple(problem.names), **columns,
        offset=np.array(offset, np.int64), gaps=problem.gaps, peak=peak, lower_bound=bound,
        bound_by=name,
    )  # fmt: skip


def live_bytes() -> Case:
    problem = Problem(("a", "b", "c"), [0, 1, 2], [2, 3, 4], [4, 8, 3], alignment=[4, 4, 1])
    return in_arena(problem, [8, 0, 20], 12, "live bytes")


def fixed_offset() -> Case:
    problem = Problem(("a", "b"), [0, 0], [1, 1], [4, 8], fixed={0: 16})
    return in_arena(problem, [16, 20], 20, "fixed offset")


def largest_buffer() -> Case:
    """Half of it is live at a time."""
    gaps = {0: [Gap(0, 1, 0, 4), Gap(1, 2, 4, 8)]}
    problem = Problem(("a", "b"), [0, 0], [2, 1], [8, 1], gaps=gaps)
    return in_arena(problem, [1, 0], 8, "largest buffer")


def chain(**fields: object) -> Graph:
    tensors = (
        Tensor("x", 4, kind="input"),
        *(Tensor(name, 4) for name in "ab"),
        Tensor("y", 4, kind="output"),
    )
    ops = tuple(
        Op(f"f{one}", inputs=(one,), outputs=(other,), in_place=((other, one),))
        for one, other in ("xa", "ab", "by")
    )
    return Graph("chain", tensors, ops)


def shared_bytes() -> Case:
    graph = chain()
    plan = cpplan.solve(graph, in_place=True)
    assert (plan.peak, plan.lower_bound) == (4, 4)
    return graph, replace(plan, bound_by="live bytes, shared")


def forced_bytes() -> Case:
    graph = chain()
    plan = cpplan.solve(graph, order="search")
    assert (plan.peak, plan.lower_bound) == (8, 8)
    return graph, replace(plan, bound_by="forced live bytes", certificate=None)


def least_footprint() -> Case:
    graph = chain()
    plan = cpplan.solve(graph, remat=True, memory_limit=8)
    assert (plan.peak, plan.lower_bound) == (8, 8)
    no_cost = {"cost_bound": None, "cost_bound_by": None, "capacity": None}
    return graph, replace(plan, bound_by="least footprint", **no_cost)


def minimum_cut() -> Case:
    graph = side_by_side()
    return graph, cpplan.solve(graph, order="search")


def least_piece() -> Case:
    """Two ops over four rows of 2 B: with 8 B of input, a row of output more is needed."""

    def over_rows(name: str, source: str, result: str) -> Op:
        rows = Axis("rows", 4, (Window(source, 0), Window(result, 0)))
        return Op(name, inputs=(source,), outputs=(result,), axes=(rows,))

    rows = {"shape": (4, 2), "dtype": "int8"}
    tensors = (
        Tensor("x", kind="input", **rows),
        Tensor("t", **rows),
        Tensor("y", kind="output", **rows),
    )
    graph = Graph("bands", tensors, (over_rows("f", "x", "t"), over_rows("g", "t", "y")))
    plan = cpplan.solve(graph, split=True)
    assert (plan.peak, plan.lower_bound, plan.status) == (10, 10, "optimal")
    return graph, plan


def live_at_cuts() -> Case:
    """a and d stay for h while g takes 8 B of 11: for x, to make them again, there is no room."""
    tensors = Tensor("a", 2), Tensor("d", 1), Tensor("b", 1), Tensor("c", 1)
    tensors += Tensor("w", 6, kind="workspace"), Tensor("x", 3, kind="input")
    ops = (
        Op("f", inputs=("x",), outputs=("a", "d")),
        Op("e", inputs=("a",), outputs=("b",)),
        Op("g", inputs=("b",), outputs=("c",), workspaces=("w",)),
        Op("h", inputs=("a", "d", "c"), outputs=("y",)),
    )
    graph = Graph("held", (*tensors, Tensor("y", 1, kind="output")), ops)
    plan = cpplan.solve(graph, order="search")
    reads = ((1, 1, 0, 0), 2), ((1, 1, 0, 1), 1), ((1, 1, 1, 2), 3)
    rows = DualRow("at cut", (1,), 1), *(DualRow("read", *read) for read in reads)
    duals = CutDuals(("g",), False, (1, 1), 0, ("h", "f"), ("a", "d", "x"), rows)
    return graph, replace(plan, bound_by="live bytes at cuts", certificate=duals)


def cost_at_cuts() -> Case:
    """Two ops more than once each let five nodes forth and back fit into 5 B; 4 B need a third."""
    graph = remat_chain(5)
    plan = cpplan.solve(graph, remat=True, cost_limit=1.2, deterministic=True, time_limit=2)
    assert (plan.peak, plan.lower_bound, plan.bound_by) == (5, 5, "cost at cuts")
    read = (DualRow("read", (1, 1, k, k), 1) for k in range(4))
    rows = DualRow("at cut", (1,), 1), *read
    ops, storages = ("n7", "n8", "n9", "n10"), ("t3", "t2", "t1", "t0")
    return graph, replace(
        plan, certificate=CutDuals(("n6",), False, (1, 1), 0, ops, storages, rows)
    )


def live_between() -> Case:
    """Two convolutions of three taps: 8 B of the image, and 4 B of the first one's rows."""
    net = Network()
    net.conv(net.conv(net.image(4, 1, 2), 2), 1, stride=2)
    graph = net.graph()
    return graph, cpplan.solve(graph, split=True, time_limit=2, workers=1)


PEAK_CASES: dict[str, Callable[[], Case]] = {
    "live bytes": live_bytes,
    "fixed offset": fixed_offset,
    "largest buffer": largest_buffer,
    "live bytes, shared": shared_bytes,
    "forced live bytes": forced_bytes,
    "least footprint": least_footprint,
    "minimum cut": minimum_cut,
    "least piece": least_piece,
    "live between pieces": live_between,
    "live bytes at cuts": live_at_cuts,
    "cost at cuts": cost_at_cuts,
}


@cache
def peak_case(name: str, shift: int) -> Case:
    """A plan with a bound that is the optimum; shifted, its peak is that much larger."""
    source, plan = PEAK_CASES[name]()
    if isinstance(source, Problem) or not shift:
        return source, plan
    return source, replace(
        plan, offset=plan.offset + shift, peak=plan.peak + shift, status="feasible"
    )


def without_a_row(flow: Certificate, rng: random.Random) -> Certificate:
    """A flow that is not kept: a row left out, doubled, or with another amount.

    Of duals: a row left out, or with another rule, index or multiplier. Of a moment: no tensor, one
    that is unknown, or another moment.
    """
    if isinstance(flow, LiveBetween):
        unknown = Reading(("?",), flow.op)
        return rng.choice(
            [
                flow._replace(readings=()),
                flow._replace(readings=(unknown, *flow.readings)),
                flow._replace(interval=flow.parts + 1),
                flow._replace(parts=3, interval=1),
            ]
        )
    if isinstance(flow, CutDuals):
        rows = list(flow.rows)
        k = rng.randrange(len(rows))
        rule, indices, multiplier = rows[k]
        others = {0, -1, 9 if rule == "at cut" else 1} - {multiplier}
        rows[k : k + 1] = rng.choice(
            [
                [],
                [rows[k]._replace(multiplier=rng.choice(sorted(others)))],
                [rows[k]._replace(indices=(0, *indices[1:]))],
                [rows[k]._replace(rule="held" if rule == "at cut" else "waits")],
            ]
        )
        return flow._replace(rows=tuple(rows))
    key = rng.choice(("begun", "ended"))
    rows = list(getattr(flow, key))
    k = rng.randrange(len(rows))
    storage, op, amount = rows[k]
    rows[k : k + 1] = rng.choice([[], [rows[k]] * 2, [(storage, op, amount + rng.choice([-1, 1]))]])
    return flow._replace(**{key: tuple(rows)})


def mutated(plan: Plan, rng: random.Random) -> Plan:
    """A plan for one pool whose bound is larger than the optimum, or contradicts its status."""
    bound, raised = plan.lower_bound, plan.lower_bound + rng.choice([1, 1, 2, 3, 4, 8, 2**40])
    choices: list[dict[str, object]] = [
        {"lower_bound": raised},
        {"lower_bound": raised, "status": "optimal" if raised == plan.peak else "feasible"},
        {"lower_bound": plan.peak + 1, "status": rng.choice(["optimal", "feasible"])},
        {"lower_bound": rng.choice([-1, float(bound), str(bound), (bound,), True])},
        {"status": rng.choice(sorted({"optimal", "feasible", "infeasible", "unknown", ""}
                                     - {plan.status, "feasible" if plan.pieces else ""}))},
        {"objective_bound": (bound,)},
        {"objective_value": (plan.peak,)},
        {"cost_bound": rng.choice([0, 1, bound])},
        {"cost_bound_by": rng.choice(["every op once", "chain program"])},
    ]  # fmt: skip
    if plan.status == "optimal":
        choices += [{"lower_bound": rng.choice([None, *range(bound)])}]
    else:
        choices += [{"lower_bound": plan.peak, "status": "optimal"}] * 3
    if plan.certificate is None:
        choices += [{"certificate": CutFlow("f", (), (), ())}]
    else:
        broken = without_a_row(plan.certificate, rng)
        choices += [{"certificate": None}, *[{"certificate": broken}] * 3]
    return replace(plan, **rng.choice(choices))


def assert_refused(source: Problem | Graph, plan: Plan, changed: Plan, seed: str) -> None:
    try:
        verify(source, changed)
    except VerificationError:
        return
    fields = "status", "lower_bound", "objective_bound", "cost_bound", "certificate"
    told = {f: getattr(changed, f) for f in fields if getattr(changed, f) != getattr(plan, f)}
    raise AssertionError(f"seed {seed!r}: {told} of {plan.bound_by!r} was accepted")


@pytest.mark.parametrize("name", proved_again(PEAK_BOUNDS))
def test_a_mutated_bound_on_the_peak_is_refused(name: str) -> None:
    for shift in (0, 4):
        source, plan = peak_case(name, shift)
        assert plan.bound_by == name
        assert check_plan(source, plan).bound in ("recomputed", "certificate")
        for k in range(MUTATIONS // 2):
            seed = f"{name} {shift} {k}"
            assert_refused(source, plan, mutated(plan, random.Random(seed)), seed)


def pooled(problem: Problem, objective: str) -> Case | None:
    """A layout with the bound that the planner proves of it without a search."""
    layout = run_in_pools("best_fit", problem, Deadline(60))
    if layout is None:
        return None
    pool, offset = layout
    value = objective_value(problem, objective, pool, offset)
    bound, names = objective_bound(problem, objective, value)
    total = objective_bound(problem, "total", (0,))[0][0]
    columns = {"size": problem.size, "lower": problem.lower, "upper": problem.upper}
    return problem, Plan(
        "p", "optimal" if value == bound else "feasible", tuple(problem.names), **columns,
        offset=offset, pool=pool, pools=tuple(problem.pools), gaps=problem.gaps,
        peak=int(pool_peaks(problem, pool, offset).sum()), lower_bound=int(total),
        bound_by="; ".join(dict.fromkeys(names)), objective=objective, objective_value=value,
        objective_bound=bound,
    )  # fmt: skip


@cache
def pooled_cases() -> dict[str, list[Case]]:
    """Some cases for each bound that the planner names."""
    found: dict[str, list[Case]] = {}
    for seed in SEEDS:
        rng = random.Random(f"pooled {seed}")
        case = pooled(random_pooled(rng, 6), rng.choice(OBJECTIVES))
        if case is not None and any(case[1].objective_bound):
            for name in str(case[1].bound_by).split("; "):
                found.setdefault(name, []).append(case)
    return found


def accesses_elsewhere() -> Case:
    """Both are read once, at one cycle in the first pool; one of them must go to the second."""
    pools = (
        Pool("near", 4, read_latency=1, cost_per_byte=0),
        Pool("far", read_latency=3, cost_per_byte=0),
    )
    problem = Problem(("a", "b"), [0, 0], [1, 1], [4, 4], pools=pools)
    case = pooled(problem, "cost")
    assert case is not None
    return case


def shared_in_pools() -> Case:
    graph = chain()
    plan = cpplan.solve(graph, in_place=True, pools=(Pool("p"), Pool("q")))
    assert plan.objective_bound == (0, 0, 4)
    return graph, replace(plan, bound_by="live bytes, shared")


def cases_of(name: str) -> list[Case]:
    more = {
        "accesses and live bytes beyond the preferred pools": accesses_elsewhere,
        "live bytes, shared": shared_in_pools,
    }
    return [more[name]()] if name in more else pooled_cases()[name]


def mutated_in_pools(plan: Plan, rng: random.Random) -> Plan:
    """A plan for several pools with a larger bound, or one that contradicts its status."""
    bound, value = tuple(plan.objective_bound), tuple(plan.objective_value)
    level = rng.randrange(len(bound))
    more = rng.choice([0.5, 1, 2, 4, 2**40])
    raised = (*bound[:level], bound[level] + more, *bound[level + 1 :])
    wrong = (*value[:level], value[level] + more, *value[level + 1 :])
    both = ["optimal", "feasible"]
    choices: list[dict[str, object]] = [
        {"objective_bound": raised, "status": both[raised != value]},
        {"objective_bound": raised},
        {"objective_bound": (*bound, 0)},
        {"objective_bound": wrong, "objective_value": wrong, "status": "optimal"},
        {"objective_value": wrong},
        {"status": rng.choice(sorted({"optimal", "feasible", "unknown", ""} - {plan.status}))},
        {"lower_bound": (plan.lower_bound or 4) + rng.choice([1, 2, 4])},
        {"lower_bound": rng.choice([-1, plan.peak + 1, 0.5, True])},
        {"certificate": CutFlow("f", (), (), ())},
        {"cost_bound": rng.choice([0, 1])},
        {"cost_bound_by": "every op once"},
        {"scope": "every order"},
    ]
    if bound < value:
        choices += [{"objective_bound": value, "status": "optimal"}] * 4
    else:
        choices += [{"objective_bound": ()}, {"objective_bound": (*value[:-1], value[-1] - 0.5)}]
    return replace(plan, **rng.choice(choices))


@pytest.mark.parametrize("name", proved_again(POOL_BOUNDS))
def test_a_mutated_bound_on_an_objective_is_refused(name: str) -> None:
    cases = cases_of(name)
    for k in range(MUTATIONS):
        source, plan = cases[k % len(cases)]
        assert check_plan(source, plan).bound == "recomputed"
        seed = f"{name} {k}"
        assert_refused(source, plan, mutated_in_pools(plan, random.Random(seed)), seed)


@cache
def every_op_once(memory_limit: int) -> Case:
    graph = remat_chain(4)
    plan = cpplan.solve(graph, remat=True, memory_limit=memory_limit, deterministic=True,
                        time_limit=5)  # fmt: skip
    once = {"cost_bound": plan.base_cost, "cost_bound_by": "every op once"}
    return graph, replace(plan, **once, status="optimal" if plan.cost == 9 else "feasible")


def test_a_mutated_bound_on_the_cost_is_refused() -> None:
    """Mutations of the bound "every op once"; see ``test_cut_bound`` for the one from duals."""
    name = "every op once"
    assert proved_again(COST_BOUNDS) == [name, "linear bound at cuts"]
    for memory_limit in (4, 100):
        source, plan = every_op_once(memory_limit)
        assert (plan.cost > plan.base_cost) == (memory_limit == 4)
        assert check_plan(source, plan).cost_bound == "recomputed"
        for k in range(MUTATIONS // 2):
            rng = random.Random(f"{name} {memory_limit} {k}")
            flipped = "feasible" if plan.status == "optimal" else "optimal"
            change = rng.choice(
                [
                    {"cost_bound": plan.cost_bound + rng.choice([-1, 0.5, 1, 2, 2**40])},
                    {"cost_bound": plan.cost + 1, "status": "feasible"},
                    {"cost_bound": plan.cost_bound - 1, "status": "feasible"},
                    {"cost_bound": None},
                    {"status": flipped},
                    {"cost_bound_by": rng.choice([None, "", "every op", "CP-SAT"])},
                    {"capacity": None},
                    {"lower_bound": plan.peak + 1},
                ]
            )
            seed = f"{name} {memory_limit} {k}"
            assert_refused(source, plan, replace(plan, **change), seed)
