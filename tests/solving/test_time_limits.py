"""Time and memory grow in proportion to a graph; models are built only while there is time."""

import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cpplan import Graph, Op, Tensor, solve
from cpplan.aliasing import alias_sets, segments
from cpplan.aliasing.alias_candidates import _candidates, candidate_relations
from cpplan.aliasing.lives import ProgramLives
from cpplan.aliasing.segments import _handed_over, share_in_any_order
from cpplan.aliasing.solve import SharingSearch
from cpplan.aliasing.tuning import AliasingTuning
from cpplan.model.certificates import ForcedAt
from cpplan.model.errors import DefectWarning, InputError, VerificationError
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.ordering import bounds as bounds_module
from cpplan.ordering.bounds import order_bounds
from cpplan.ordering.problem import order_problem
from cpplan.ordering.search.order_pieces import cut_into_pieces
from cpplan.ordering.solve import OrderSearch
from cpplan.packing.problem import as_problem, as_program
from cpplan.packing.storage_ids.cp_sat_storages import count_entries, improve
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import Program, to_anf
from cpplan.runtime.budget import Budget
from cpplan.runtime.build_in_time import build_in_time
from cpplan.runtime.deadline import Deadline
from cpplan.solving.best_pieces import NO_TIME_TO_SPLIT
from cpplan.solving.best_schedule import NO_TIME_TO_REPEAT
from cpplan.solving.order_turns import NO_TIME_TO_ORDER
from cpplan.solving.run import NO_TIME_TO_SHARE
from cpplan.splitting import lines
from cpplan.splitting.bounds import least_piece
from cpplan.splitting.lines import Lines, can_split
from cpplan.splitting.problem import SplitProblem
from cpplan.verification import lowering, program_plans
from cpplan.verification.access_trace import replay
from cpplan.verification.piece_bound import least_piece as checked_least_piece
from cpplan.verification.shared_bound import Sharing
from cpplan.verification.storages import relaxed_storages
from cpplan.verification.verifier import verify
from formulations.polled_model import PolledModel
from tests.benchmarks.time_limits import GRAPHS, with_axes

BIG = ("t1000", "t1001")


def with_no_repeats(graph: Graph) -> Graph:
    """The graph with ops that may run again only in its second half."""
    half = len(graph.ops) // 2
    ops = [replace(op, recomputable=k >= half) for k, op in enumerate(graph.ops)]
    return replace(graph, ops=tuple(ops))


def random_order_problem(seed: int, ops: int, storages: int) -> OrderProblem:
    """Ops that wait for earlier ones, storages that any of them access."""
    rng = np.random.default_rng(seed)
    density = rng.choice([0.1, 0.3, 0.6])
    return OrderProblem(
        predecessors=tuple(tuple(np.flatnonzero(rng.random(k) < density)) for k in range(ops)),
        extra=rng.integers(0, 4, ops),
        size=rng.integers(1, 10, storages),
        accessed_by=tuple(
            tuple(sorted(rng.choice(ops, min(ops, int(rng.integers(1, 5))), replace=False)))
            for _ in range(storages)
        ),
        present=rng.random(storages) < 0.3,
        kept=rng.random(storages) < 0.3,
        base=int(rng.integers(0, 4)),
    )


def forced_by_definition(problem: OrderProblem) -> list[int]:
    """Forced bytes of every op from sets of ancestors."""
    ops = range(len(problem))
    upto: list[set[int]] = []
    for op in ops:
        upto.append({op}.union(*(upto[other] for other in problem.predecessors[op])))
    forced = []
    for op in ops:
        live = problem.base + int(problem.extra[op])
        for storage, accessed in enumerate(problem.accessed_by):
            born = problem.present[storage] or any(other in upto[op] for other in accessed)
            needed = problem.kept[storage] or any(op in upto[other] for other in accessed)
            live += int(problem.size[storage]) if born and needed else 0
        forced.append(live)
    return forced


@pytest.mark.parametrize("columns", [1, 3, 1024])
def test_forced_bytes_do_not_depend_on_how_many_ops_are_looked_at_together(columns, monkeypatch):
    monkeypatch.setattr(bounds_module, "MOST_BITS", 1)
    monkeypatch.setattr(bounds_module, "LEAST_COLUMNS", columns)
    for seed in range(60):
        problem = random_order_problem(seed, ops=1 + seed % 9, storages=seed % 7)
        forced = forced_by_definition(problem)
        assert order_bounds(problem).forced.tolist() == forced
        some = order_bounds(problem, order=np.arange(len(problem)))
        assert some.bound == max(forced)
        assert (some.forced <= np.array(forced)).all()


def test_forced_bytes_at_an_expired_deadline_are_bounds(monkeypatch):
    monkeypatch.setattr(bounds_module, "MOST_BITS", 1)
    monkeypatch.setattr(bounds_module, "LEAST_COLUMNS", 1)
    for seed in range(30):
        problem = random_order_problem(seed, ops=8, storages=6)
        hasty = order_bounds(problem, deadline=Deadline(0))
        assert (hasty.forced <= np.array(forced_by_definition(problem))).all()


def test_bounds_and_pieces_of_many_ops_take_linear_memory(monkeypatch):
    """Bit sets of all ops would have 2 × 5,000² bits, 6 MiB."""
    monkeypatch.setattr(bounds_module, "MOST_BITS", 1 << 20)
    problem = order_problem(GRAPHS["diamonds"](5000))
    order = np.arange(len(problem))
    assert problem.successors  # made before memory is counted
    assert problem.accesses
    tracemalloc.start()
    bounds = order_bounds(problem, order=order)
    pieces = cut_into_pieces(problem, order, bounds, "given", 0)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(pieces) > 100
    assert most < 1000 * len(problem)


def test_a_piece_is_made_only_when_it_is_searched():
    problem = order_problem(GRAPHS["diamonds"](410))
    pieces = cut_into_pieces(problem, np.arange(410), order_bounds(problem), "given", 0)
    assert not any("problem" in vars(piece) or "windows" in vars(piece) for piece in pieces)
    assert max(piece.peak for piece in pieces) == problem.peak(range(410))
    assert [piece.problem.peak(piece.order) for piece in pieces] == [p.peak for p in pieces]


def test_chained_views_are_walked_once(monkeypatch):
    """Walking from each of n views to its base would look up n²/2 tensors."""
    graph = GRAPHS["views"](3000)
    looked_up = 0

    class Counted(dict):
        def __getitem__(self, name):
            nonlocal looked_up
            looked_up += 1
            return super().__getitem__(name)

    vars(graph)["tensor"] = Counted(graph.tensor)
    vars(graph).pop("holder", None)
    plan = solve(graph, algorithm="size_classes")
    assert plan.peak == 72
    assert looked_up < 100 * len(graph.tensors)


def test_the_holder_of_a_view_is_what_an_op_writes_or_the_base():
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("v", 8, view_of=("x", 0)),
        Tensor("w", 8, view_of=("v", 0)),
        Tensor("u", 4, view_of=("w", 4)),
    )
    graph = Graph("views", tensors, (Op("write", inputs=("v",), outputs=("w",)),))
    assert graph.holder == {"x": "x", "v": "x", "w": "w", "u": "w"}
    assert graph.source("v") is None
    assert graph.source("u") is graph.ops[0]


def test_storages_that_live_together_are_found_without_all_pairs():
    """Against the definition, for more storages than one block holds."""
    rng = np.random.default_rng(0)
    names = [f"b{k}" for k in range(700)]
    lower = rng.integers(0, 300, len(names))
    problem = Problem(names, lower, lower + rng.integers(1, 90, len(names)), np.ones(700, int))
    program = as_program(Graph("empty", (), ()))
    lives = ProgramLives(program, problem, Residency())
    live_with = lives.together(names)
    for name in names[::37]:
        expected = {other for other in names if other != name and not lives.apart(name, other)}
        assert set(live_with(name)) == expected
    assert len(names) > alias_sets._FEW_MEMBERS


def test_in_place_chains_of_very_many_ops_take_linear_memory():
    """Pairs of a storage and an op would take 4.9 MiB, one byte each."""
    graph = GRAPHS["chain"](segments._ANY_ORDER_OPS + 200)
    ordering = order_problem(graph)
    tracemalloc.start()
    shared, _ = share_in_any_order(graph, ordering, Residency())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1500 * len(graph.ops)
    given = np.arange(len(graph.ops))
    assert shared.peak(given) < ordering.peak(given)


def test_linear_sharing_holds_in_any_order(monkeypatch):
    """The linear way shares no more than the exact one, and a chain as much."""
    graph = GRAPHS["chain"](60)
    ordering = order_problem(graph)
    exact, _ = share_in_any_order(graph, ordering, Residency())
    monkeypatch.setattr(segments, "_ANY_ORDER_OPS", 0)
    linear, complete = share_in_any_order(graph, ordering, Residency())
    assert linear.peak(range(60)) == exact.peak(range(60))
    assert not complete
    other = GRAPHS["local"](60)
    ordering = order_problem(other)
    linear, _ = share_in_any_order(other, ordering, Residency())
    assert linear.peak(range(60)) <= ordering.peak(range(60))


def test_a_build_ends_when_time_is_up():
    from formulations.storage_classes import build

    problem = as_problem(as_program(GRAPHS["local"](200)), Residency())
    group = np.zeros(len(problem), np.int64)
    upper = int(problem.size.sum())
    make = lambda: build(problem, group, upper=upper)  # noqa: E731
    assert build_in_time(make, Deadline(0)) is None
    assert build_in_time(make, Deadline(60)) is not None


def test_rows_of_a_model_are_counted_while_it_is_built() -> None:
    deadline = Deadline(0.01, deterministic=True)

    def make() -> list[object]:
        model = PolledModel()
        return [model.new_bool_var("") for _ in range(10**6)]

    assert build_in_time(make, deadline) is None
    assert deadline.elapsed() < 0.012


def test_storages_build_no_model_of_too_many_entries(monkeypatch):
    """5,000 buffers of four sizes are few literals, but hundreds of them live at every step."""
    problem = as_problem(as_program(GRAPHS["local"](5000)), Residency())
    assert count_entries(problem) > PackingTuning().section_entries
    monkeypatch.setattr("formulations.storage_classes.build", None)  # would be called
    improve(
        problem,
        np.zeros(len(problem), np.int64),
        np.arange(len(problem)),
        Budget(Deadline(60)),
        found=lambda storage: None,
        proved=lambda bound: None,
    )


def test_live_sets_are_those_of_the_definition():
    from formulations.shared_storage import live_sets

    rng = np.random.default_rng(1)
    for _ in range(30):
        count = int(rng.integers(1, 12))
        lower = rng.integers(0, 9, count)
        upper = lower + rng.integers(1, 6, count)
        problem = Problem([f"b{k}" for k in range(count)], lower, upper, rng.integers(0, 3, count))
        rows = np.flatnonzero(rng.random(count) < 0.8)
        held = [row for row in rows.tolist() if problem.size[row]]
        live = [{row for row in held if lower[row] <= step < upper[row]} for step in range(15)]
        maximal = [one for one in live if one and not any(one < other for other in live)]
        unique = [one for k, one in enumerate(maximal) if one not in maximal[:k]]
        assert [set(clique.tolist()) for clique in live_sets(problem, rows)] == unique


def test_where_nothing_can_be_shared_the_plan_is_the_one_without_sharing():
    graph = GRAPHS["local"](60)
    graph = replace(graph, ops=tuple(replace(op, in_place=()) for op in graph.ops))
    plain = solve(graph, order="search", deterministic=True, time_limit=0.1)
    shared = solve(graph, order="search", in_place=True, deterministic=True, time_limit=0.1)
    assert shared.offset.tolist() == plain.offset.tolist()
    assert shared.order == plain.order
    assert shared.sharing == ()


def test_sharing_among_many_buffers_starts_from_the_plan_without_it():
    """Cut off at once, what may be shared must not cost bytes."""
    from cpplan.aliasing.solve import SharingSearch

    program = as_program(GRAPHS["local"](AliasingTuning().many_buffers + 100))
    problem = as_problem(program, Residency())
    search = SharingSearch(program, problem, Residency(), kinds=("in place", "placement"))
    assert search.best.alias_sets.candidates == []
    search.run(Budget(Deadline(0.2, deterministic=True)))
    assert search.best.peak < problem.size.sum()


def test_bytes_are_reused_even_when_reading_took_all_the_time():
    """The last plan without reuse is of no use: a linear heuristic takes less than reading did."""
    problem = as_problem(as_program(GRAPHS["chain"](3000)), Residency())
    plan = solve(problem, time_limit=1e-9)
    assert plan.method.startswith("size_classes")
    assert plan.peak < problem.size.sum() / 100


@pytest.mark.parametrize(
    ("options", "search"),
    [
        ({"in_place": True}, SharingSearch),
        ({"order": "search"}, OrderSearch),
        ({"order": "search", "in_place": True}, OrderSearch),
    ],
)
def test_time_for_the_checker_is_kept_before_a_search_begins(options, search, monkeypatch):
    kept: list[float] = []
    known: list[int] = []

    def run(self, given: Budget | Deadline) -> None:
        known.append(len(kept))
        (given.deadline if isinstance(given, Budget) else given).cancel()

    monkeypatch.setattr(Deadline, "reserve", lambda self, seconds: kept.append(seconds))
    monkeypatch.setattr(search, "run", run)
    solve(GRAPHS["residual"](2200), time_limit=30, workers=1, **options)
    assert known[0] == 1
    assert kept[0] > 0


def test_one_pool_derives_no_never_shared_bytes(monkeypatch):
    monkeypatch.setattr(program_plans, "never_shared", None)
    plan = solve(GRAPHS["concatenations"](27), in_place=True, deterministic=True, time_limit=1)
    assert plan.relations


def calls(work: Callable[[], object]) -> int:
    """Python and C functions that some work calls."""
    count = 0

    def event(frame: object, kind: str, value: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    sys.setprofile(event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def wide(count: int) -> Graph:
    """Ops that each write over what they read, and one that may write over any of its inputs."""
    names = [f"t{k}" for k in range(count)]
    tensors = [Tensor(name, 8) for name in names]
    ops = [Op(f"op{name}", outputs=(name,)) for name in names]
    over = tuple(("y", name) for name in names)
    end = Op("end", inputs=tuple(names), outputs=("y",), in_place=over)
    return Graph("wide", (*tensors, Tensor("y", 8, kind="output")), (*ops, end))


def fused(count: int) -> Graph:
    """One op that may write each of its results over an input, as optimizers of many tensors do."""
    given = [Tensor(f"x{k}", 8, kind="input") for k in range(count)]
    made = [Tensor(f"y{k}", 8, kind="output") for k in range(count)]
    over = tuple((f"y{k}", f"x{k}") for k in range(count))
    op = Op("step", "", tuple(t.name for t in given), tuple(t.name for t in made), in_place=over)
    return Graph("fused", (*given, *made), (op,))


@pytest.mark.parametrize("make", [wide, fused])
def test_ops_of_many_tensors_take_linear_work(make):
    def work(count: int) -> None:
        graph = make(count)
        ordering, kinds = order_problem(graph, Residency()), ("in place",)
        candidates = [*_candidates(graph, set(), lambda: None)]
        assert len(candidates) == count
        assert len([r for op in graph.ops for r in candidate_relations(graph, op)]) == count
        _handed_over(ordering, candidates)
        over = [(c.relation.tensor, c.relation.other) for c in candidates]
        accesses, runs = replay(to_anf(graph), Residency(), over)
        relaxed_storages(graph, Residency(), kinds, accesses, runs)
        Sharing(kinds, accesses, runs).at(len(runs) - 1, [])

    work(10)
    assert calls(lambda: work(800)) < 5 * calls(lambda: work(200))


def test_the_least_piece_of_an_op_of_many_tensors_takes_linear_work():
    def work(count: int) -> None:
        graph = with_axes(GRAPHS["fan_in"](count))
        found = least_piece(SplitProblem(as_program(graph), Residency())).bytes
        assert found == checked_least_piece(graph, Residency(), ())

    work(10)
    assert calls(lambda: work(800)) < 5 * calls(lambda: work(200))


def test_a_plan_without_pieces_is_checked_without_an_access_trace(monkeypatch):
    graph = with_axes(GRAPHS["residual"](40))
    plan = solve(graph, split=True, deterministic=True, time_limit=0.01)
    assert (plan.pieces, plan.copied_bytes, plan.bound_by) == ((), 0, "least piece")
    monkeypatch.setattr(lowering, "replay", None)
    verify(graph, plan)
    with pytest.raises(VerificationError, match="copied bytes"):
        verify(graph, replace(plan, copied_bytes=1))


def test_axes_that_may_be_cut_are_found_once(monkeypatch):
    graph, found = with_axes(GRAPHS["residual"](40)), []
    monkeypatch.setattr(lines, "_find_lines", lambda graph: found.append(graph) or Lines(*[{}] * 5))
    can_split(graph)
    SplitProblem(as_program(graph), Residency()).lines  # noqa: B018
    assert len(found) == 1


def test_without_time_to_read_what_may_be_shared_nothing_is(monkeypatch):
    tuning = {"solving": {"sharing_reading": 1e9}}
    plan = solve(GRAPHS["fan_out"](2200), in_place=True, time_limit=60, workers=1, tuning=tuning)
    assert not plan.relations
    assert plan.sharing == ("in place", "placement")
    assert plan.bound_by == "largest buffer"
    assert NO_TIME_TO_SHARE in plan.message
    assert plan.peak < plan.size.sum() + 1


def test_reading_what_may_be_shared_ends_in_the_middle():
    graph = GRAPHS["concatenations"](90)
    program = as_program(graph)
    problem = as_problem(program, Residency())
    for polls in (0, 5, 15, 25):
        vars(graph).pop("_alias_candidates", None)
        reading = Deadline(polls + 0.5, deterministic=True)
        reading.check = lambda work=0.0, d=reading: Deadline.check(d, 1.0)
        kinds = ("in place", "placement")
        search = SharingSearch(program, problem, Residency(), kinds=kinds, reading=reading)
        assert search.late
        search.run(Budget(Deadline(1, deterministic=True)))
        assert search.best.peak == 1024
        assert search.bound.value <= 512


def test_without_time_to_search_for_orders_the_given_one_is_packed():
    graph = GRAPHS["fan_out"](2200)
    tuning = {"solving": {"order_reading_shared": 1e9}}
    options = {"order": "search", "in_place": True, "time_limit": 60, "workers": 1}
    plan = solve(graph, tuning=tuning, **options)
    assert plan.order == tuple(op.name for op in graph.ops)
    assert (plan.status, plan.scope) == ("feasible", "every order")
    assert (plan.lower_bound, plan.bound_by) == (max(plan.size), "largest buffer")
    assert NO_TIME_TO_ORDER in plan.message


@pytest.mark.parametrize("shared", [False, True])
def test_without_time_to_look_for_repetition_ops_run_once(shared, monkeypatch):
    graph, tuning = GRAPHS["residual"](2200), {"remat": {"seconds_an_op": 1e9}}
    monkeypatch.setattr("cpplan.remat.solve.RematSearch", None)
    options = {"remat": True, "in_place": shared, "time_limit": 60, "workers": 1, "tuning": tuning}
    plan = solve(graph, cost_limit=1.2, order="given", **options)
    assert plan.order == tuple(op.name for op in graph.ops)
    assert plan.bound_by == ("largest buffer" if shared else "least footprint")
    assert plan.status == "optimal" or NO_TIME_TO_REPEAT in plan.message
    for order in ("given", "search"):
        fitting = solve(graph, memory_limit=plan.peak, order=order, **options)
        assert (fitting.status, fitting.cost) == ("optimal", plan.cost)
        assert fitting.bound_by == plan.bound_by
    limit = plan.peak - 1
    unknown = solve(graph, memory_limit=limit, order="given", **options)
    assert (unknown.status, unknown.offset) == ("unknown" if shared else "infeasible", None)


def test_many_units_name_the_op_that_needs_the_most(monkeypatch):
    graph = with_no_repeats(GRAPHS["training"](5000))
    plan = solve(graph, remat=True, cost_limit=1.2, order="given", time_limit=5, workers=1)
    assert plan.bound_by == "least footprint"
    assert isinstance(plan.certificate, ForcedAt)
    monkeypatch.setattr("cpplan.verification.footprint.bytes_beside", None)  # of groups of ops
    verify(graph, plan)


def test_without_time_to_look_for_pieces_ops_run_whole(monkeypatch):
    graph, options = with_axes(GRAPHS["residual"](2200)), {"split": True, "workers": 1}
    tuning = {"splitting": {"seconds_an_op": 1e9}}
    with monkeypatch.context() as patched:
        patched.setattr(lines, "_find_lines", None)
        plan = solve(graph, time_limit=60, tuning=tuning, **options)
    assert (plan.status, plan.scope, plan.pieces) == ("feasible", "every splitting", ())
    assert (plan.lower_bound, plan.bound_by, plan.copied_bytes) == (0, "least piece", 0)
    assert NO_TIME_TO_SPLIT in plan.message
    limit = plan.peak - 1
    unknown = solve(graph, time_limit=60, tuning=tuning, memory_limit=limit, **options)
    assert (unknown.status, unknown.offset) == ("unknown", None)


def test_pieces_that_take_too_long_to_derive_are_not_derived(monkeypatch):
    graph = with_axes(GRAPHS["chain"](2200))
    big = [replace(t, size=2**20, shape=(8, 2**17)) if t.name in BIG else t for t in graph.tensors]
    graph = Graph("hill", tuple(big), tuple(replace(op, in_place=()) for op in graph.ops))
    monkeypatch.setattr("cpplan.splitting.solve.schedule", None)  # would be called
    with monkeypatch.context() as expected:
        expected.setattr("cpplan.splitting.solve._FIRST_DERIVED", 1e9)
        plan = solve(graph, split=True, time_limit=60, workers=1)
    assert (plan.pieces, NO_TIME_TO_SPLIT in plan.message) == ((), True)
    with pytest.raises(DefectWarning, match="TypeError"):
        solve(graph, split=True, time_limit=60, workers=1)


def test_a_program_that_repeats_ops_has_no_order_to_search_with_little_time_either():
    graph = GRAPHS["chain"](2200)
    again = Program(graph, (*range(2200), 0))
    with pytest.raises(InputError, match="runs every op once"):
        solve(again, order="search", workers=1, time_limit=0.001)
