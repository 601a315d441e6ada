"""More freedom is never worse: bytes, cost, bytes moved and time, on graphs of every kind.

Each mode has time enough to end or to come close. With far less, sharing, orders and both divide
the same work among more to try, and a part of a percent may be lost.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from support.cases import FACTOR
from support.random_models import random_model
from support.sources import ROOT
from support.split_networks import Network, random_network

from cpplan import Graph, Op, Placement, Plan, Pool, Program, Tensor, load, simulate, solve, verify
from cpplan.model.residency import Residency
from cpplan.ordering import heuristics as orders
from cpplan.ordering.problem import order_problem
from cpplan.runtime.deadline import Deadline
from cpplan.solving import pipeline
from tests.benchmarks.time_limits import GRAPHS, layers

FREEDOM = {
    "given": {},
    "in place": {"in_place": True},
    "searched": {"order": "search"},
    "both": {"order": "search", "in_place": True},
}


def scattered(count: int, seed: int) -> Graph:
    """Ops that each read two results from anywhere before."""
    chance = random.Random(seed)
    return layers(count, lambda k: [chance.randrange(k) for _ in range(2 * (k > 0))], seed=seed)


def check_freedom(graph: Graph, time_limit: float) -> None:
    """Plan a graph in every mode by counted work: each plan holds, and more freedom is no worse."""
    peaks = {}
    for mode, options in FREEDOM.items():
        plan = solve(graph, time_limit=time_limit, deterministic=True, **options)
        verify(graph, plan)
        simulate(graph, plan)
        assert plan.lower_bound <= plan.peak
        assert plan.status == "feasible" or plan.lower_bound == plan.peak
        peaks[mode] = plan.peak
    for less, more in (
        *(("given", "in place"), ("given", "searched")),
        *(("in place", "both"), ("searched", "both")),
    ):
        assert peaks[more] <= peaks[less], (less, more, peaks)


@pytest.mark.parametrize("name", GRAPHS)
def test_more_freedom_never_costs_bytes(name):
    check_freedom(GRAPHS[name](18), 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_more_freedom_never_costs_bytes_of_larger_graphs(name):
    check_freedom(GRAPHS[name](45), 2)


@pytest.mark.parametrize(("count", "seed"), [(90, 4), (60, 15), (90, 17)])
def test_permission_to_share_never_costs_what_exact_search_gains(count, seed):
    graph = scattered(count, seed)
    problem = order_problem(graph, Residency())
    order = orders.get("list_schedule")(problem, Deadline(1, deterministic=True))
    program = Program(graph, tuple(int(op) for op in order))
    plain, shared = (
        solve(program, time_limit=0.2, deterministic=True, in_place=in_place)
        for in_place in (False, True)
    )
    assert "search" in plain.found_by
    assert shared.peak <= plain.peak


def test_order_is_packed_also_if_the_search_for_it_took_all_time():
    graph = scattered(50, 22)
    plain, shared = (
        solve(graph, order="search", time_limit=0.1, deterministic=True, in_place=in_place)
        for in_place in (False, True)
    )
    assert shared.peak <= plain.peak


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "seed", "time_limit"), [(90, 2, 4), (60, 6, 1), (60, 6, 4), (60, 8, 1), (90, 8, 4)]
)
def test_orders_that_need_no_sharing_are_found_with_it(count, seed, time_limit):
    graph = GRAPHS["anywhere"](count) if seed == 2 else scattered(count, seed)
    check_freedom(graph, time_limit)


Goal = Callable[[random.Random, int], dict[str, Any]]

# Goal -> freedoms to choose from, and other options, from the peak without any.
GOALS: dict[str, tuple[str, Goal]] = {
    "fewest bytes": (
        "order in_place placement remat split",
        lambda rng, peak: {"cost_limit": rng.choice([1, 1.1, 1.3])},
    ),
    "fewest bytes and pieces": (
        "order in_place placement split",
        lambda rng, peak: {"piece_bytes": rng.choice([1, 8, 64])},
    ),
    "least cost": (
        "order in_place placement remat split",
        lambda rng, peak: {"memory_limit": part(rng, peak)},
    ),
    "preferred pools": (
        "order in_place placement",
        lambda rng, peak: {
            "pools": [Pool("a", part(rng, peak)), Pool("b")],
            "objective": rng.choice(["preference", "total"]),
        },
    ),
    "least cost in pools": (
        "order in_place placement remat",
        lambda rng, peak: {"pools": [Pool("a", part(rng, peak)), Pool("b", peak)]},
    ),
    "fewest bytes moved": (
        "order in_place split",
        lambda rng, peak: {
            "spill": True,
            "pools": [Pool("a", part(rng, peak)), Pool("b", direct=rng.random() < 0.5)],
        },
    ),
    "least time": (
        "in_place remat",
        lambda rng, peak: {
            "spill": True,
            "objective": "time",
            "pools": [Pool("a", part(rng, peak)), Pool("b", read_bandwidth=1, write_bandwidth=2)],
        },
    ),
}


def part(rng: random.Random, peak: int) -> int:
    """Some of the bytes, at least one."""
    return max(1, int(peak * rng.choice([0.6, 0.75, 0.9])))


def options_of(freedoms: set[str], others: dict[str, Any]) -> dict[str, Any]:
    """Options of a goal with some of its freedoms, without those that need another one."""
    found = {name: name in freedoms for name in ("in_place", "remat", "split")}
    found |= {"order": "search" if "order" in freedoms else "given"}
    if not others.get("spill"):
        found["placement"] = "placement" in freedoms
    unneeded = set() if freedoms & {"remat", "split"} else {"cost_limit"}
    unneeded |= set() if "split" in freedoms else {"piece_bytes"}
    return found | {name: value for name, value in others.items() if name not in unneeded}


def value_of(goal: str, plan: Plan, ops: int, piece_bytes: int) -> tuple[float, ...]:
    """The value of a goal that a plan has."""
    if plan.offset is None:
        return (math.inf,)
    if goal == "preferred pools":
        return plan.objective_value
    found = {
        "least cost": plan.cost,
        "least cost in pools": plan.cost,
        "fewest bytes moved": plan.moved_bytes,
        "least time": plan.time,
    }.get(goal, plan.peak)
    assert found is not None
    return (found + piece_bytes * (len(plan.order) - ops),)


def bound_of(goal: str, plan: Plan) -> tuple[float, ...]:
    """The bound on a goal that a plan claims."""
    if goal == "preferred pools":
        return plan.objective_bound
    found = {
        "least cost": plan.cost_bound,
        "least cost in pools": plan.cost_bound,
        "fewest bytes moved": plan.moved_bytes_bound,
        "least time": plan.time_bound,
    }.get(goal, plan.lower_bound)
    return (found or 0,)


def check_two_sets(goal: str, seed: int, time_limit: float) -> None:
    """Plan a random model with some freedoms, and with some of these: that is no better."""
    rng = random.Random(seed)
    names, others = GOALS[goal]
    graph = random_model(rng)
    while not 0 < len(graph.ops) <= 12 or ("moved" in goal or "time" in goal) * any(
        op.bodies for op in graph.ops
    ):
        graph = random_model(rng)
    peak = solve(graph, time_limit=1, deterministic=True).peak
    assert peak is not None
    asked = others(rng, peak)
    more = {name for name in names.split() if rng.random() < 0.75}
    less = {name for name in sorted(more) if rng.random() < 0.6}
    plans = []
    for freedoms in (less, more):
        options = options_of(freedoms, asked)
        plan = solve(graph, time_limit=time_limit, deterministic=True, **options)
        if plan.offset is not None:
            simulate(graph, plan)
        plans.append(plan)
    fewer, larger = plans
    values = [value_of(goal, plan, len(graph.ops), asked.get("piece_bytes", 0)) for plan in plans]
    told = (seed, sorted(less), sorted(more), asked)
    assert values[1] <= values[0], told
    if fewer.offset is not None:
        assert larger.status != "infeasible", told
        if goal != "fewest bytes and pieces":
            assert bound_of(goal, larger) <= values[0], told


@pytest.mark.parametrize("goal", GOALS)
def test_no_plan_is_worse_than_one_of_fewer_freedoms(goal: str) -> None:
    for seed in range(4):
        check_two_sets(goal, seed, 2)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("goal", GOALS)
def test_no_plan_of_many_is_worse_than_one_of_fewer_freedoms(goal: str, block: int) -> None:
    for seed in range(4 + 12 * block * FACTOR, 16 + 12 * block * FACTOR):
        check_two_sets(goal, seed, 8)


def branches(*layers: str) -> Graph:
    """A convolution whose result two branches read: the layers, and one more; then both joined."""
    net = Network()
    x = net.conv(net.image(6, 6, 2), 4)
    one = x
    for kind in layers:
        one = net.relu(one) if kind == "relu" else net.conv(one, 4, taps=1)
    other = net.relu(x) if layers[0] == "relu" else net.conv(x, 4)
    net.concat(one, other)
    return net.graph()


@pytest.mark.parametrize(
    ("graph", "piece_bytes"), [(branches("conv"), 0), (branches("relu", "relu"), 16)]
)
def test_pieces_need_no_more_if_ops_may_also_overwrite(graph: Graph, piece_bytes: int) -> None:
    """In place, ops are cut where their operands are: other divisions look best, and pack worse."""
    values = []
    for in_place in (False, True):
        plan = solve(
            graph,
            split=True,
            in_place=in_place,
            piece_bytes=piece_bytes,
            time_limit=1,
            deterministic=True,
        )
        simulate(graph, plan)
        values.append(plan.peak + piece_bytes * (len(plan.order) - len(graph.ops)))
    assert values[1] <= values[0]


@pytest.mark.parametrize("objective", ["preference", "time"])
def test_nothing_moves_if_everything_fits_with_results_within_others(objective: str) -> None:
    """A part lies within the concatenation that reads it, which plans with moves do not do."""
    tensors = (
        Tensor("x", 3, kind="input"),
        Tensor("part", 2, kind="output", view_of=("x", 0)),
        Tensor("none", 0),
        Tensor("whole", 2, kind="output"),
        Tensor("unread", 0),
    )
    ops = (
        Op("first", inputs=("x",), outputs=("none",)),
        Op(
            "concat", inputs=("part", "none"), outputs=("whole",),
            placements=(Placement("part", "whole", 0), Placement("none", "whole", 2)),
        ),
        Op("last", inputs=("x",), outputs=("unread",)),
    )  # fmt: skip
    graph = Graph("g", tensors, ops)
    slow = Pool("slow", direct=True, read_bandwidth=1, write_bandwidth=1)
    options: dict[str, Any] = {"spill": True, "objective": objective}
    plan = solve(graph, pools=[Pool("fast", 3), slow], in_place=True, **options)
    verify(graph, plan)
    assert (plan.status, plan.moved_bytes) == ("optimal", 0)
    assert plan.time == (plan.cost if objective == "time" else None)
    assert {relation.kind for relation in plan.relations} == {"placement"}
    less = solve(graph, pools=[Pool("fast", 3), slow], in_place=True, placement=False, **options)
    assert less.moved_bytes == 2


def test_nothing_moves_if_everything_fits_in_pieces() -> None:
    """Pieces in the fast pool alone come before moves, also of little time."""
    graph = branches("conv", "relu", "conv")
    options: dict[str, Any] = {"split": True, "time_limit": 0.2, "deterministic": True}
    whole, pieces = solve(graph, deterministic=True), solve(graph, **options)
    assert pieces.peak < whole.peak
    pools = [Pool("fast", pieces.peak), Pool("slow", direct=True)]
    plan = solve(graph, pools=pools, spill=True, **options)
    simulate(graph, plan)
    assert (plan.status, plan.moved_bytes, plan.pieces != ()) == ("optimal", 0, True)


def test_the_fast_pool_alone_is_tried_again_if_no_plan_moves_tensors(monkeypatch):
    """As for a large model in little time: neither it nor moves find a plan the first time."""
    search, alone = pipeline._search, []

    def brief(source: Any, request: Any, budget: Any) -> Plan:
        if request.spill or not alone:
            alone.append(budget.deadline.remaining())
            return search(source, request, budget.until(budget.deadline.share(1e-9)))
        alone.append(budget.deadline.remaining())
        return search(source, request, budget)

    graph = branches("conv", "relu", "conv")
    pieces = solve(graph, split=True, time_limit=0.5, deterministic=True)
    monkeypatch.setattr(pipeline, "_search", brief)
    plan = solve(
        graph, pools=[Pool("fast", pieces.peak), Pool("slow")], spill=True, split=True,
        time_limit=1, deterministic=True,
    )  # fmt: skip
    assert (plan.status, plan.moved_bytes) == ("optimal", 0)
    assert len(alone) == 3
    assert alone[2] > alone[0]


def test_inputs_that_pieces_leave_unread_are_no_defect() -> None:
    """The last row of an image is read by no window of three rows with a step of two."""
    plan = solve(
        load(ROOT / "datasets" / "light_squeezenet.json"), split=True, spill=True, time_limit=2,
        pools=[Pool("fast", 1 << 20), Pool("slow")], deterministic=True, workers=1,
    )  # fmt: skip
    assert plan.moved_bytes is not None


def test_the_best_smaller_search_goes_on_in_the_time_left(monkeypatch):
    search, asked = pipeline._search, []

    def noting(source: Any, request: Any, budget: Any) -> Plan:
        asked.append((request.freedoms, budget.deadline.remaining()))
        return search(source, request, budget)

    monkeypatch.setattr(pipeline, "_search", noting)
    graph = random_network(random.Random(5))
    plan = solve(graph, split=True, remat=True, cost_limit=1.1, deterministic=True, time_limit=1.5)
    assert plan.status == "feasible"
    times = [seconds for freedoms, seconds in asked if freedoms == {"remat", "split"}]
    assert len(times) == 2
    assert times[1] > times[0]
    # Pieces without repetitions, and repetitions of whole ops, are parts of the search for both.
    assert [freedoms for freedoms, _ in asked[:3]] == [
        {"order", "remat", "split"}, {"remat", "split"}, {"remat", "split"}
    ]  # fmt: skip
    alone = solve(graph, split=True, order="search", deterministic=True, time_limit=1.5)
    assert plan.peak <= alone.peak
    # To fit into less, each has a search of its own.
    asked.clear()
    options = {"memory_limit": plan.peak - 1, "deterministic": True, "time_limit": 1.5}
    solve(graph, split=True, remat=True, **options)
    assert {frozenset({"order", "remat"}), frozenset({"order", "split"})} <= {f for f, _ in asked}


def test_any_freedoms_are_left_out_in_the_time_left(monkeypatch):
    search, asked = pipeline._search, []

    def noting(source: Any, request: Any, budget: Any) -> Plan:
        asked.append(request.freedoms)
        return search(source, request, budget)

    monkeypatch.setattr(pipeline, "_search", noting)
    graph = random_network(random.Random(2))
    options = {"order": "search", "split": True, "in_place": True}
    solve(graph, **options, deterministic=True, time_limit=2)
    every = {"order", "split", "in place", "placement"}
    left_out = [every - freedoms for freedoms in asked]
    assert left_out[:3] == [set(), {"order"}, {"split"}]
    assert left_out[-2:] == [{"in place"}, {"in place", "order"}]


def test_pieces_take_no_time_from_moves_where_time_is_short_and_ops_fit() -> None:
    """Half a millisecond for each of 409 ops; the search for pieces would take most of it."""
    graph = load(ROOT / "datasets/zoo/mobilenet_v2.train.json.gz")
    options = {"order": "search", "in_place": True, "time_limit": 0.2, "deterministic": True}
    pools = Pool("fast", 1800 << 20), Pool("slow")
    less, more = (
        solve(graph, spill=True, split=split, pools=pools, **options) for split in (False, True)
    )
    assert less.moved_bytes is not None
    assert more.moved_bytes is not None
    assert more.moved_bytes <= less.moved_bytes
    assert more.message is not None
    assert more.message.startswith("too little time is left to look for pieces; ")


def test_two_freedoms_at_once_may_have_to_be_left_out() -> None:
    """The best pieces are those of a given order in which no op overwrites its operands."""
    check_two_sets("fewest bytes and pieces", 40, 2)


def test_pieces_that_no_op_can_have_take_no_time(monkeypatch):
    """Without axes, the search with ``split`` has all the time that it has without."""
    search, asked = pipeline._search, []

    def noting(source: Any, request: Any, budget: Any) -> Plan:
        asked.append(budget.deadline.remaining())
        return search(source, request, budget)

    monkeypatch.setattr(pipeline, "_search", noting)
    graph = load(ROOT / "datasets/ordering/vgg11_training.json")
    options = {"spill": True, "order": "search", "deterministic": True, "time_limit": 0.5}
    pools = [Pool("fast", 60 << 20), Pool("slow")]
    solve(graph, pools=pools, split=True, **options)
    with_split = asked[0]
    asked.clear()
    solve(graph, pools=pools, **options)
    assert with_split == asked[0]


@pytest.mark.parametrize("capacity", [3, 4])
def test_an_unread_input_beside_placed_parts_proves_nothing(capacity: int) -> None:
    """Both parts lie within x, which leaves no room for u in 3 B; but u need not be there."""
    parts = Placement("a", "x", 0), Placement("b", "x", 1)
    tensors = Tensor("x", 3, kind="input"), Tensor("u", 1, kind="input"), Tensor("a", 1)
    tensors += Tensor("b", 2, kind="output"), Tensor("y", 1, kind="output")
    ops = (
        Op("split", inputs=("x",), outputs=("a", "b"), placements=parts),
        Op("o", inputs=("a",), outputs=("y",)),
    )
    pools = Pool("fast", capacity), Pool("slow")
    plan = solve(Graph("parts", tensors, ops), spill=True, in_place=True, pools=pools)
    assert plan.status != "infeasible"


@pytest.mark.parametrize("constant", [False, True])
def test_constants_that_are_kept_beside_placed_parts_prove_nothing(constant: bool) -> None:
    """Without constants, both parts lie within x, and nothing moves."""
    parts = Placement("a", "x", 0), Placement("b", "x", 1)
    tensors = Tensor("x", 3, kind="input"), Tensor("a", 1), Tensor("b", 2, kind="output")
    tensors += (Tensor("y", 1, kind="output"),)
    tensors += (Tensor("c", 1, kind="constant"),) * constant
    read = ("a", "c") if constant else ("a",)
    ops = (
        Op("split", inputs=("x",), outputs=("a", "b"), placements=parts),
        Op("o", inputs=read, outputs=("y",)),
    )
    pools = Pool("fast", 5 if constant else 4), Pool("slow")
    graph = Graph("parts", tensors, ops)
    plan = solve(graph, spill=True, in_place=True, constants="keep", pools=pools)
    assert plan.status == ("unknown" if constant else "optimal")
