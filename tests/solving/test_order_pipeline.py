"""``solve(order="search")``: proved where it can be, never worse than given, constraints kept."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest
from support.instances import chain
from support.orders_oracle import layered, least_pressure, random_graph
from support.published import olla_graph, published

import cpplan
from cpplan.io.graph_json import read_graph
from cpplan.io.plan_json import plan_text
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.small_graphs import two_chains
from cpplan.ordering.bounds import topological_order
from cpplan.ordering.solve import search_order
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

DATASETS = Path(__file__).resolve().parents[2] / "datasets"


def test_one_chain_after_the_other():
    assert cpplan.solve(two_chains()).peak == 17
    plan = cpplan.solve(two_chains(), order="search")
    assert (plan.status, plan.peak, plan.lower_bound) == ("optimal", 10, 10)
    assert plan.scope == "every order"
    assert plan.order in {("a", "c", "b", "d"), ("b", "d", "a", "c")}
    cpplan.simulate(two_chains(), plan)


def test_first_and_last_are_kept():
    """With b first, the other chain has to wait: b d a c."""
    plan = cpplan.solve(two_chains(), order="search", first=["b"])
    assert plan.order == ("b", "d", "a", "c")
    forced = cpplan.solve(two_chains(), order="search", first=["a", "b"], last=["d"])
    assert (forced.order, forced.status, forced.peak) == (("a", "b", "c", "d"), "optimal", 17)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": ["nobody"]}, "nobody"),
        ({"first": ["a"], "last": ["a"]}, "'a'"),
        ({"first": ["c"]}, "'a'"),
        ({"last": ["a"]}, "'c'"),
    ],
)
def test_contradictory_constraints_name_the_ops(options, message):
    with pytest.raises(InputError, match=message):
        cpplan.solve(two_chains(), order="search", **options)


def test_constraints_need_a_search_and_a_search_needs_a_graph():
    with pytest.raises(InputError, match="need order='search'"):
        cpplan.solve(two_chains(), first=["a"])
    with pytest.raises(InputError, match="needs a graph"):
        cpplan.solve(chain(), order="search")
    with pytest.raises(InputError, match="expected one of given, search"):
        cpplan.solve(two_chains(), order="best")


def test_control_edges_count_in_the_order():
    """d must not run before b has, and b waits for c: no constraint on the first chain."""
    graph = two_chains()
    ops = tuple(
        Op(o.name, inputs=o.inputs, outputs=o.outputs, after=("d",) if o.name == "a" else ())
        for o in graph.ops
    )
    plan = cpplan.solve(Graph("controlled", graph.tensors, ops), order="search")
    assert plan.order == ("b", "d", "a", "c")


def test_peaks_are_the_optimum_over_all_orders():
    """Every peak of these is the least live bytes."""
    for seed in range(100):
        graph = random_graph(seed, 1 + seed % 8)
        plan = cpplan.solve(graph, order="search", workers=1, time_limit=20)
        best = least_pressure(graph)
        assert plan.status == "optimal", seed
        assert plan.peak == best, seed


@pytest.mark.parametrize("path", sorted(DATASETS.glob("light_*.json")), ids=lambda p: p.stem)
def test_given_order_is_never_beaten_downwards(path):
    graph = read_graph(path)
    given = cpplan.solve(graph, time_limit=20)
    searched = cpplan.solve(graph, order="search", time_limit=20, workers=1)
    assert searched.peak <= given.peak
    assert searched.status == "optimal"
    cpplan.verify(graph, searched)


def test_olla_s_cases_are_proved():
    for case in published("olla")["ordering"]:
        graph = olla_graph(case, Tensor("resident", case["resident"], kind="constant"))
        plan = cpplan.solve(graph, order="search", constants="keep", time_limit=20)
        assert (plan.status, plan.peak) == ("optimal", case["expected_optimal_peak"]), case["name"]


def test_a_layered_graph_of_100_ops_is_proved():
    graph = read_graph(DATASETS / "ordering/layered_100.json")
    plan = cpplan.solve(graph, order="search", workers=1)
    assert (plan.status, plan.peak) == ("optimal", 34270)


def test_given_orders_are_proved_optimal():
    for name in ("transformer.train", "resnet50.infer"):
        graph = read_graph(DATASETS / "zoo" / f"{name}.json.gz")
        plan = cpplan.solve(graph, order="search", workers=1)
        assert (plan.status, plan.bound_by) == ("optimal", "forced live bytes")
        assert plan.order == cpplan.to_anf(graph).names


def test_interrupted_search_returns_the_best_order_so_far():
    seen = []

    def interrupt(outcome):
        seen.append(outcome)
        if len(seen) > 2:
            raise KeyboardInterrupt

    problem = layered(0, layers=40, width=10)
    start = np.array(topological_order(problem))
    with pytest.raises(KeyboardInterrupt):
        search_order(problem, start, Budget(Deadline(60)), report=interrupt)
    assert problem.is_order(seen[-1].order.tolist())
    assert seen[-1].peak < problem.peak(start)


def test_interrupt_in_the_order_search_still_gives_a_verified_plan():
    graph = _as_graph(layered(0, layers=40, width=10))
    events = []

    def interrupt(event):
        events.append(event)
        if len(events) == 3:
            raise KeyboardInterrupt

    plan = cpplan.solve(graph, order="search", progress=interrupt)
    assert plan.status == "feasible"
    assert plan.peak < cpplan.solve(graph, time_limit=1).peak


def test_an_interrupt_at_any_event_gives_a_verified_plan():
    graph = _as_graph(layered(3, layers=6, width=5))
    events: list[object] = []
    cpplan.solve(graph, order="search", time_limit=5, workers=1, progress=events.append)
    assert len(events) > 3
    for last in range(1, len(events) + 1):
        seen = []

        def interrupt(event, seen=seen, last=last):
            seen.append(event)
            if len(seen) == last:
                raise KeyboardInterrupt

        plan = cpplan.solve(graph, order="search", time_limit=5, workers=1, progress=interrupt)
        assert plan.offset is not None


def test_search_without_time_limit_ends_with_a_proof():
    graph = _as_graph(layered(2, layers=4, width=3))
    assert cpplan.solve(graph, order="search", time_limit=math.inf).status == "optimal"


def test_an_unused_input_counts_whichever_op_is_first():
    """100 B that nobody reads are there while the first op runs: 10 + 100, better than 50 + 100."""
    graph = Graph(
        "two trees",
        (
            Tensor("unused", 100, kind="input"),
            Tensor("a", 50),
            Tensor("a_", 1, kind="output"),
            Tensor("b", 10),
            Tensor("b_", 10, kind="output"),
        ),
        (
            Op("a", outputs=("a",)),
            Op("b", outputs=("b",)),
            Op("a_", inputs=("a",), outputs=("a_",)),
            Op("b_", inputs=("b",), outputs=("b_",)),
        ),
    )
    plan = cpplan.solve(graph, order="search")
    assert (plan.status, plan.peak, plan.order[0]) == ("optimal", 110, "b")


def test_tensors_named_like_a_body_s_are_not_a_body_s():
    """``loop/y`` is the loop's own output, as ONNX exporters name them: 100 B once, not twice."""
    body = Graph(
        "body",
        (Tensor("k", 2, kind="input"), Tensor("s", 4)),
        (Op("inner", inputs=("k",), outputs=("s",)),),
    )
    graph = Graph(
        "slashes",
        (Tensor("loop/y", 100, kind="output"),),
        (Op("loop", outputs=("loop/y",), bodies=(body,)),),
    )
    given = cpplan.solve(graph)
    searched = cpplan.solve(graph, order="search")
    assert given.peak == searched.peak == 106
    assert searched.status == "optimal"


def test_graph_without_ops_is_bounded_by_its_inputs():
    graph = Graph("idle", (Tensor("x", 4, kind="input"),), ())
    plan = cpplan.solve(graph, order="search")
    assert (plan.status, plan.peak) == ("optimal", 4)


def test_time_ends_with_an_order_no_worse_than_given():
    graph = _as_graph(layered(1, layers=60, width=10))
    given = cpplan.solve(graph, time_limit=1)
    plan = cpplan.solve(graph, order="search", time_limit=2)
    assert plan.peak <= given.peak
    assert plan.lower_bound <= plan.peak


def test_same_seed_and_one_worker_give_the_same_bytes():
    graph = random_graph(7, 9)
    texts = {"".join(plan_text(cpplan.solve(graph, order="search", workers=1))) for _ in range(2)}
    assert len(texts) == 1


def test_a_limit_below_every_order_is_infeasible():
    plan = cpplan.solve(two_chains(), order="search", memory_limit=9)
    assert (plan.status, plan.lower_bound) == ("infeasible", 10)
    assert "1 B are missing" in plan.message


def test_capacity_ends_the_search_at_the_first_order_that_fits():
    plan = cpplan.solve(two_chains(), order="search", capacity=17)
    assert plan.peak <= 17


def _as_graph(problem) -> Graph:
    """A graph whose ordering problem this is: one output an op, read by those that access it."""
    sizes = problem.size.tolist()
    tensors = tuple(Tensor(f"t{k}", size) for k, size in enumerate(sizes))
    ops = tuple(
        Op(f"op{k}", inputs=tuple(f"t{p}" for p in before), outputs=(f"t{k}",))
        for k, before in enumerate(problem.predecessors)
    )
    return Graph("layered", tensors, ops)


@pytest.mark.parametrize("options", [{}, {"in_place": True}])
def test_an_order_is_packed_also_where_its_search_took_all_the_time(monkeypatch, options):
    """Without a search the given order is the answer, packed as heuristics do, not one by one."""

    def late(problem, start, deadline, **_):
        time.sleep(deadline.seconds * 3)

    graph = cpplan.load(DATASETS / "light_squeezenet.json")
    given = cpplan.solve(graph, time_limit=10, **options)
    monkeypatch.setattr("cpplan.ordering.solve.search_order", late)
    plan = cpplan.solve(graph, order="search", time_limit=0.1, **options)
    assert plan.peak == given.peak < sum(plan.size)
