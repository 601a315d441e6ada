"""Plans in which tensors move take work in proportion to the graph."""

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from cpplan import Graph, Op, Plan, Pool, Residency, Tensor, solve, verify
from cpplan.program import moved, storages
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.runtime.deadline import Deadline
from cpplan.spilling import heuristics, packed, problem
from cpplan.spilling import moves as order_moves
from cpplan.spilling.bounds import bound_by_prices
from cpplan.spilling.loads import Loads
from cpplan.spilling.search import one_order
from cpplan.verification import lowering, moves
from tests.benchmarks.time_limits import GRAPHS, with_axes


def lines_run(work: Callable[[], object]) -> int:
    """Lines of Python that some work runs; each turn of a comprehension is one."""
    count = 0

    def event(frame: object, kind: str, value: object) -> object:
        nonlocal count
        count += kind == "line"
        return event

    before = sys.gettrace()
    sys.settrace(event)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def in_half(graph: Graph, *, time_limit: float = 0.01, **options: object) -> Plan:
    """A plan in a fast pool that holds half the live bytes."""
    live = int(to_problem(to_anf(graph)).live_bytes().max())
    pools = [Pool("fast", live // 2), Pool("slow", direct=True)]
    return solve(
        graph,
        pools=pools,
        spill=True,
        in_place=True,
        deterministic=True,
        time_limit=time_limit,
        **options,
    )


@pytest.mark.parametrize("name", ["fan_in", "fan_out", "local"])
def test_lines_that_verify_moves_grow_in_proportion_to_the_ops(name):
    graphs = [GRAPHS[name](ops) for ops in (90, 360)]
    plans = [in_half(graph) for graph in graphs]
    assert all(plan.moved_bytes for plan in plans)
    few, many = (
        lines_run(lambda graph=graph, plan=plan: verify(graph, plan))
        for graph, plan in zip(graphs, plans, strict=True)
    )
    assert many < 5 * few


def test_storages_are_found_once_to_plan_and_once_to_check(monkeypatch):
    calls = []

    def find(*given):
        calls.append(given)
        return storages.find_storages(*given)

    for module in problem, moved:
        monkeypatch.setattr(module, "find_storages", find)
    assert in_half(GRAPHS["residual"](60), time_limit=0.1).status == "optimal"
    assert len(calls) == 2


def test_the_check_makes_the_graph_of_moves_by_itself(monkeypatch):
    made = []

    def make(*given):
        made.append(given)
        return moved.program_with_moves(*given)

    monkeypatch.setattr(lowering, "program_with_moves", make)
    assert in_half(GRAPHS["residual"](60), time_limit=0.1).status == "optimal"
    assert len(made) == 1


def test_steps_that_fit_cost_an_eviction_rule_next_to_nothing():
    program = to_anf(GRAPHS["residual"](600))
    everything = Pool("fast", 1 << 40), Pool("slow", direct=True)
    roomy = problem.spill_problem(program, Residency(), everything)
    rule = heuristics.get("cost per byte and step")
    fixed = lines_run(lambda: Loads(roomy, roomy.all_kept()))
    assert lines_run(lambda: rule(roomy, Deadline(100))) < fixed + 5 * roomy.steps


def test_storages_at_no_priced_step_are_not_walked_for_the_bound():
    program = to_anf(GRAPHS["local"](400))
    pools = Pool("fast", 1 << 12), Pool("slow", direct=True)
    found = problem.spill_problem(program, Residency(), pools)
    one, every = {200: 2.0}, dict.fromkeys(range(400), 2.0)
    of_one, of_every = (
        lines_run(lambda prices=prices: bound_by_prices(found, prices)) for prices in (one, every)
    )
    assert 2 * of_one < of_every


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def over_any(count: int) -> Graph:
    """Results that one op reads, and that it may write its own result over."""
    names = tuple(Name(f"t{k}") for k in range(count))
    tensors = (*(Tensor(name, 64) for name in names), Tensor("y", 64, kind="output"))
    ops = [Op(f"make {name}", outputs=(name,)) for name in names]
    over = tuple(("y", name) for name in names)
    return Graph("over any", tensors, (*ops, Op("join", "", names, ("y",), in_place=over)))


def test_an_op_with_many_inputs_to_overwrite_is_checked_in_proportion_to_them():
    compared = []
    for count in 100, 400:
        graph = over_any(count)
        plan = in_half(graph)
        Name.compared = 0
        verify(graph, plan)
        compared.append(Name.compared)
    assert compared[1] < 6 * compared[0]


def test_moves_are_checked_without_an_access_trace(monkeypatch):
    graph = GRAPHS["residual"](60)
    plan = in_half(graph)
    plan = replace(plan, moved_bytes_bound=0, moved_bytes_bound_by="nothing moves")
    plan = replace(plan, moved_certificate=None, status="feasible")
    monkeypatch.setattr(moves, "replay", None)
    verify(graph, plan)


def test_numbers_of_repeated_moves_are_not_counted_up_each_time():
    class Counted(set):
        looked_up = 0

        def __contains__(self, name):
            Counted.looked_up += 1
            return super().__contains__(name)

    names = order_moves._Names(["reload x #3"])
    names.taken = Counted(names.taken)
    found = [names.of("reload x") for _ in range(500)]
    assert found[:3] == ["reload x", "reload x #2", "reload x #4"]
    assert len(set(found)) == 500
    assert Counted.looked_up < 1100


POOLS = [Pool("fast", 3072), Pool("slow", read_bandwidth=16, write_bandwidth=16)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": "search"},
        {"split": True},
        {"objective": "time"},
        {"objective": "time", "remat": True},
    ],
)
def test_without_time_to_plan_moves_there_is_no_plan(options, monkeypatch):
    graph, tuning = with_axes(GRAPHS["residual"](2200)), {"solving": {"spill_seconds_an_op": 1e9}}
    monkeypatch.setattr("cpplan.spilling.solve.spill_problem", None)
    monkeypatch.setattr("cpplan.spilling.search.one_order.spill_problem", None)
    given = {"pools": POOLS, "spill": True, "time_limit": 60, "workers": 1}
    plan = solve(graph, tuning=tuning, **given, **options)
    assert (plan.status, plan.offset, plan.moves) == ("unknown", None, ())
    assert "was found in time" in plan.message


@pytest.mark.parametrize("options", [{"split": True}, {"objective": "time", "remat": True}])
def test_with_time_for_moves_alone_nothing_else_is_tried(options, monkeypatch):
    graph = with_axes(GRAPHS["residual"](2200))
    monkeypatch.setattr("cpplan.solving.best_moves.split_ops", None)
    monkeypatch.setattr("cpplan.solving.best_moves.rematerialize", None)
    tuning = {"solving": {"spill_seconds_an_op": 0.4, "spill_grace": 1000.0}}
    plan = solve(graph, pools=POOLS, spill=True, time_limit=60, workers=1, tuning=tuning, **options)
    assert (plan.status, plan.pieces, len(plan.order)) == ("optimal", (), 2200)


def test_with_time_for_one_layout_only_one_is_made(monkeypatch):
    made = []

    def lay_out(*given, **options):
        made.append(given)
        return packed.lay_out(*given, **options)

    monkeypatch.setattr(one_order, "lay_out", lay_out)
    monkeypatch.setattr(one_order, "_MANY_LAID_OUT", 1e6)
    monkeypatch.setattr(one_order, "_LAID_OUT_AND_CHECKED", 0.0)
    graph = GRAPHS["residual"](2200)
    plan = solve(graph, pools=POOLS, spill=True, time_limit=20, workers=1)
    assert plan.moves
    assert len(made) == 1


def test_without_time_for_a_layout_and_its_check_none_is_made(monkeypatch):
    monkeypatch.setattr(one_order, "lay_out", None)
    monkeypatch.setattr(one_order, "_MANY_LAID_OUT", 1e6)
    plan = solve(GRAPHS["residual"](2200), pools=POOLS, spill=True, time_limit=20, workers=1)
    assert (plan.status, plan.offset, plan.moves) == ("unknown", None, ())
    assert "was found in time" in plan.message
