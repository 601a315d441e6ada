"""``solve`` with in-place results and placements: by brute force, by hand, and at the edges."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from support.cases import seeds
from support.random_orders import every_order
from support.sharing_instances import (
    concat,
    contested,
    contradiction,
    halves,
    relu_chain,
    two_branches,
    unary,
)
from support.sharing_oracle import least_peak, random_sharing_graph

from cpplan import Graph, Op, Plan, Problem, Tensor, simulate, solve
from cpplan.aliasing.solve import SharingSearch
from cpplan.io.plan_json import plan_to_dict
from cpplan.model.errors import InputError
from cpplan.model.graph import Placement
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

Pairs = list[tuple[str, str]]


def plan_of(graph: Graph, **options) -> Plan:
    """A plan with sharing; ``solve`` verifies it, and here it is simulated too."""
    options = {"in_place": True, "time_limit": 20, "workers": 1, **options}
    plan = solve(graph, **options)
    simulate(graph, plan)
    return plan


def optimum(graph: Graph, **options) -> int:
    plan = plan_of(graph, **options)
    assert plan.status == "optimal"
    return plan.peak


def pairs(plan: Plan) -> Pairs:
    return [(r.tensor, r.other) for r in plan.relations]


def graph_of(ops: list[Op], output: str, **sizes: int) -> Graph:
    """Tensors by their sizes: inputs are what no op writes, ``output`` is the output."""
    written = {name for op in ops for name in op.outputs}
    kinds = {name: "intermediate" if name in written else "input" for name in sizes} | {
        output: "output"
    }
    tensors = tuple(Tensor(name, size, kind=kinds[name]) for name, size in sizes.items())
    return Graph("by hand", tensors, tuple(ops))


def small_graphs(first: int, count: int, storages: int, aligned: bool = False):
    """``count`` random graphs with at most ``storages`` storages, few enough for the oracle."""
    found, seed = 0, first
    while found < count:
        graph, rng = random_sharing_graph(seed, 1 + seed % 5), random.Random(seed)
        if sum(t.view_of is None for t in graph.tensors) <= storages:
            found += 1
            if aligned:
                tensors = [
                    t if t.view_of else replace(t, alignment=rng.choice((1, 1, 2, 3, 4)))
                    for t in graph.tensors
                ]
                graph = Graph(graph.name, tuple(tensors), graph.ops)
            yield graph
        seed += 1


@pytest.mark.parametrize("block", range(6))
def test_the_given_order_against_brute_force(block):
    """180 graphs, all choices of in-place results and placements.

    The model of candidates and offsets also lets equal values meet that no op has copied from one
    to the other. Its bound may then be one that no plan reaches; these graphs have no such case.
    """
    for graph in small_graphs(1000 * block, 30, storages=7):
        order = tuple(range(len(graph.ops)))
        plan = plan_of(graph, time_limit=20)
        assert (plan.peak, plan.status) == (least_peak(graph, order), "optimal"), graph.name


@pytest.mark.parametrize("block", range(4))
def test_alignments_against_brute_force(block):
    for graph in small_graphs(1000 * block, 15, storages=6, aligned=True):
        plan = plan_of(graph, time_limit=20)
        assert plan.peak == least_peak(graph, tuple(range(len(graph.ops)))), graph.name


@pytest.mark.parametrize("block", seeds(3))
def test_all_orders_against_brute_force(block):
    """Graphs with an input that no op reads have no joint model."""
    for graph in small_graphs(500 * block, 7, storages=6):
        plan = plan_of(graph, order="search", time_limit=20)
        least = min(least_peak(graph, order) for order in every_order(graph))
        assert plan.peak == least, graph.name
        assert plan.lower_bound <= least
        read = {graph.root[name][0] for op in graph.ops for name in op.inputs}
        unread = any(t.kind == "input" and t.name not in read for t in graph.tensors)
        assert plan.status == "optimal" or unread, graph.name


def test_switches_and_that_more_freedom_never_costs_bytes():
    saved = set()
    for graph in [halves(), two_branches(), *(random_sharing_graph(seed, 7) for seed in seeds(16))]:
        peak = {}
        for in_place, placement in itertools.product((False, True), repeat=2):
            plan = plan_of(graph, in_place=in_place, placement=placement)
            wanted = [("in place", in_place), ("placement", placement)]
            assert plan.sharing == tuple(kind for kind, use in wanted if use)
            assert {r.kind for r in plan.relations} <= set(plan.sharing)
            assert plan.status == "optimal"
            peak[in_place, placement] = plan.peak
        for one in ((False, True), (True, False)):
            assert peak[True, True] <= peak[one] <= peak[False, False]
            saved |= {one} if peak[one] < peak[False, False] else set()
    assert saved == {(False, True), (True, False)}


def test_placement_goes_with_in_place_unless_said_otherwise():
    assert solve(two_branches(), in_place=True).sharing == ("in place", "placement")
    assert solve(two_branches()).sharing == ()
    assert solve(two_branches(), placement=True).sharing == ("placement",)
    assert solve(two_branches(), in_place=True, placement=False).sharing == ("in place",)


def test_a_chain_takes_the_bytes_of_one():
    plan = plan_of(relu_chain(6, size=8))
    assert (plan.status, plan.peak, len(plan.relations)) == ("optimal", 8, 6)


@pytest.mark.parametrize(
    ("graph", "peak"), [(two_branches(), 10), (contested(), 12), (halves(), 9)]
)
def test_optimum_with_sharing_equals_the_one_found_by_hand(graph, peak):
    assert optimum(graph) == peak


def test_contradicting_concatenations_share_one_part():
    """a and b (8), y (8) and z: y and z in b 12, a beside z's b: y = a b over z = b a, 12 B."""
    assert optimum(contradiction()) == 12


def test_constants_are_never_overwritten():
    tensors = (Tensor("w", 4, kind="constant"), Tensor("y", 4, kind="output"))
    graph = Graph("g", tensors, (unary("f", "w", "y"),))
    for constants, peak in (("outside", 4), ("keep", 8)):
        plan = plan_of(graph, constants=constants)
        assert (plan.peak, plan.relations) == (peak, ())


def test_inputs_that_are_kept_are_never_overwritten():
    graph = relu_chain(1, size=4)
    assert optimum(graph) == 4
    plan = plan_of(graph, inputs="keep")
    assert (plan.peak, plan.relations) == (8, ())


def test_a_kept_input_may_still_lie_within_another():
    """A concatenation of x with itself: x stays whole in y."""
    graph = graph_of([concat("cat", ["x"], "y", [2])], "y", x=4, y=8)
    assert optimum(graph, inputs="keep") == 8


def test_what_is_outside_the_arena_shares_nothing():
    for outside in ({"inputs": "outside"}, {"outputs": "outside"}):
        plan = plan_of(relu_chain(1, size=4), **outside)
        assert (plan.peak, plan.relations) == (4, ())


def test_an_input_with_later_readers_waits_for_the_last_of_them():
    """g, the last reader of x, may write over it; f may not."""
    ops = [
        unary("f", "x", "a"),
        unary("g", "x", "b"),
        Op("end", "", ("a", "b"), ("y",)),
    ]
    plan = plan_of(graph_of(ops, "y", x=4, a=4, b=4, y=1))
    assert (plan.peak, pairs(plan)) == (9, [("b", "x")])


def test_the_last_op_may_not_overwrite_an_output():
    """t is an output and f's input: y needs bytes of its own."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("t", 4, kind="output"),
        Tensor("y", 4, kind="output"),
    )
    plan = plan_of(Graph("g", tensors, (unary("g", "x", "t"), unary("f", "t", "y"))))
    assert (plan.peak, pairs(plan)) == (8, [("t", "x")])


def test_an_input_read_twice_is_overwritten():
    graph = graph_of([Op("add", "", ("x", "x"), ("y",), in_place=(("y", "x"),))], "y", x=4, y=4)
    assert optimum(graph) == 4


@pytest.mark.parametrize("both", [False, True])
def test_an_input_read_under_two_names(both):
    """add(x, reshape(x)): only if y may write over the second name too."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("v", 4, view_of=("x", 0)),
        Tensor("y", 4, kind="output"),
    )
    allowed = (("y", "x"), ("y", "v")) if both else (("y", "x"),)
    ops = (
        Op("reshape", "", ("x",), ("v",)),
        Op("add", "", ("x", "v"), ("y",), in_place=allowed),
    )
    assert optimum(Graph("g", tensors, ops)) == (4 if both else 8)


def test_two_results_over_one_input():
    """Two outputs may overwrite x, and one of them does."""
    op = Op("both", "", ("x",), ("y", "z"), in_place=(("y", "x"), ("z", "x")))
    tensors = (Tensor("x", 4, kind="input"), *(Tensor(n, 4, kind="output") for n in "yz"))
    assert optimum(Graph("g", tensors, (op,))) == 8


def test_nested_concatenations():
    """a, b in the inner one, that and c in the outer one: all of it in 6 B."""
    ops = [concat("in", ["a", "b"], "t", [0, 2]), concat("out", ["t", "c"], "y", [0, 4])]
    assert optimum(graph_of(ops, "y", a=2, b=2, c=2, t=4, y=6)) == 6


def test_a_tensor_concatenated_with_itself():
    graph = graph_of([concat("cat", ["x", "x"], "y", [0, 4])], "y", x=4, y=8)
    plan = plan_of(graph)
    assert (plan.status, plan.peak, len(plan.relations)) == ("optimal", 8, 1)


def test_a_split_of_a_concatenation():
    """a, b joined, and cut at another byte: p and q lie in t as a and b do."""
    split = Op(
        "cut", "", ("t",), ("p", "q"), placements=(Placement("p", "t"), Placement("q", "t", 3))
    )
    ops = [concat("cat", ["a", "b"], "t", [0, 2]), split, Op("end", "", ("p", "q"), ("y",))]
    assert optimum(graph_of(ops, "y", a=2, b=2, t=4, p=3, q=1, y=1)) == 5


@pytest.mark.parametrize("start", [0, 2, 5])
def test_views_at_byte_offsets_are_ends_of_relations(start):
    """v is 3 B of x (8 B): r takes its place."""
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("v", 3, view_of=("x", start)),
        Tensor("r", 3),
        Tensor("y", 1, kind="output"),
    )
    graph = Graph("g", tensors, (unary("f", "v", "r"), Op("end", "", ("r",), ("y",))))
    plan = plan_of(graph)
    assert (plan.status, plan.peak) == ("optimal", 8)
    assert plan.offset_of("r") == plan.offset_of("v") == plan.offset_of("x") + start


def test_a_part_of_a_view_within_a_whole():
    """v, bytes 2..6 of x, at byte 1 of y: x lies one byte below y."""
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("v", 4, view_of=("x", 2)),
        Tensor("y", 8, kind="output"),
    )
    copy = Op("pad", "", ("v",), ("y",), placements=(Placement("v", "y", 1),))
    plan = plan_of(Graph("g", tensors, (copy,)))
    # Only v's bytes are copies; the rest of x and y may not meet.
    assert (plan.peak, plan.relations) == (16, ())
    apart = Graph(
        "g", (replace(tensors[0], size=6), tensors[1], replace(tensors[2], size=5)), (copy,)
    )
    # x = 2 bytes and v; y = 1 byte and v: y's first byte would be x's second.
    assert plan_of(apart).peak == 11


def test_alignment_forbids_a_placement():
    tensors = (
        Tensor("a", 2, kind="input"),
        Tensor("b", 4, kind="input", alignment=4),
        Tensor("y", 6, kind="output", alignment=4),
    )
    graph = Graph("g", tensors, (concat("cat", ["a", "b"], "y", [0, 2]),))
    plan = plan_of(graph)
    assert (plan.status, plan.peak, pairs(plan)) == ("optimal", 10, [("a", "y")])
    # With y free, it lies at 2 and b at 4.
    free = Graph("g", (*tensors[:2], replace(tensors[2], alignment=1)), graph.ops)
    assert optimum(free) == 8


def test_workspaces_lie_beside_what_is_shared():
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("w", 3, kind="workspace"),
        Tensor("y", 4, kind="output"),
    )
    op = Op("f", "", ("x",), ("y",), ("w",), in_place=(("y", "x"),))
    assert optimum(Graph("g", tensors, (op,))) == 7


def test_an_op_with_a_body_shares_only_with_other_ops():
    """t over x by f; call's y beside t, for its body reads t while it writes y."""
    given, wanted = Tensor("t", 4, kind="input"), Tensor("y", 4, kind="output")
    body = Graph("body", (given, wanted), (unary("inner", "t", "y"),))
    call = replace(unary("call", "t", "y"), bodies=(body,))
    plan = plan_of(graph_of([unary("f", "x", "t"), call], "y", x=4, t=4, y=4))
    assert (plan.peak, pairs(plan)) == (8, [("t", "x")])


def test_an_in_place_result_must_not_hide_a_better_placement():
    """u may write over t or be placed in y, not both where v reads t: choosing takes a search."""
    ops = [
        unary("f", "x", "t"),
        concat("one", ["t", "b"], "y", [0, 4]),
        unary("g", "t", "u"),
        concat("two", ["u", "y"], "z", [0, 4]),
    ]
    graph = graph_of(ops, "z", x=4, b=4, t=4, u=4, y=8, z=12)
    assert optimum(graph) == least_peak(graph, (0, 1, 2, 3))


def test_a_bare_problem_has_nothing_to_share():
    problem = Problem(("a",), lower=[0], upper=[1], size=[4])
    for option in ("in_place", "placement"):
        with pytest.raises(InputError, match="a bare problem has no ops"):
            solve(problem, **{option: True})


@pytest.mark.parametrize("options", [{"in_place": "yes"}, {"placement": 1}])
def test_switches_are_true_or_false(options):
    with pytest.raises(InputError, match="must be true or false"):
        solve(relu_chain(), **options)


def test_capacity_and_memory_limit():
    graph = two_branches()
    assert plan_of(graph, capacity=15).peak <= 15
    assert plan_of(graph, memory_limit=10).peak == 10
    plan = solve(graph, in_place=True, memory_limit=9)
    assert (plan.status, plan.offset, plan.relations) == ("infeasible", None, ())
    assert "\n" not in plan.message


def busy() -> Graph:
    """One that keeps all stages at work: heuristics, candidates one by one, CP-SAT, order."""
    return random_sharing_graph(10, 12)


@pytest.mark.parametrize("order", ["given", "search"])
def test_an_interrupt_at_any_event_gives_a_verified_plan(order):
    events: list[object] = []
    plan_of(busy(), order=order, time_limit=20, progress=events.append)
    assert len(events) > 4
    # The first, the last, and every second between.
    for last in sorted({*range(0, len(events), 2), len(events) - 1}):
        seen: list[object] = []

        def interrupt(event, seen=seen, last=last):
            seen.append(event)
            if len(seen) == last + 1:
                raise KeyboardInterrupt

        plan = plan_of(busy(), order=order, time_limit=20, progress=interrupt)
        assert plan.offset is not None
        assert plan.peak >= plan.lower_bound


@pytest.mark.parametrize("order", ["given", "search"])
@pytest.mark.parametrize("seed", range(5))
def test_same_input_seed_and_one_worker_give_the_same_bytes(order, seed):
    graph = random_sharing_graph(seed, 8)
    options = {"order": order, "seed": seed, "deterministic": True, "time_limit": 2}
    one, other = (plan_to_dict(solve(graph, in_place=True, **options)) for _ in range(2))
    assert one == other


def test_history_improves_and_ends_at_the_answer():
    plan = plan_of(busy(), time_limit=2)
    peaks = [event.peak for event in plan.history if event.peak is not None]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] == plan.peak


def deep(ops: int) -> Graph:
    """Blocks of a residual chain and a concatenation, as in real models; sizes by turns."""
    tensors, made, last = [Tensor("x", 64, kind="input")], list[Op](), "x"
    for k in range(ops // 5):
        a, b, c, d, y = (f"{letter}{k}" for letter in "abcdy")
        tensors += [Tensor(name, 64) for name in (a, b)]
        tensors += [Tensor(c, 64), Tensor(d, 32 + 16 * (k % 3)), Tensor(y, 96 + 16 * (k % 3))]
        made += [
            Op(f"conv {k}", "conv", (last,), (a,)),
            unary(f"relu {k}", a, b),
            Op(f"add {k}", "add", (b, a), (c,), in_place=((c, a), (c, b))),
            Op(f"conv2 {k}", "conv", (c,), (d,)),
            concat(f"cat {k}", [c, d], y, [0, 64]),
        ]
        last = y
    tensors[-1] = replace(tensors[-1], kind="output")
    return Graph("deep", tuple(tensors), tuple(made))


@pytest.mark.parametrize("order", ["given", "search"])
def test_a_thousand_ops_within_counted_time(order):
    graph = deep(1000)
    plan = plan_of(graph, order=order, time_limit=3, deterministic=True)
    assert plan.peak <= solve(graph, time_limit=3, workers=1, deterministic=True).peak
    assert plan.relations


def test_a_thousand_random_ops_within_a_short_limit():
    graph = random_sharing_graph(5, 1000)
    plan = plan_of(graph, time_limit=0.5)
    assert plan.lower_bound <= plan.peak


def test_packing_quickly_needs_no_more_with_placements_than_without():
    for seed in seeds(40):
        program = to_anf(random_sharing_graph(seed, 12))
        problem = to_problem(program, Residency())
        peaks = []
        for kinds in (("in place", "placement"), ("in place",)):
            search = SharingSearch(program, problem, Residency(), kinds=kinds)
            search.pack_quickly(Deadline(1e9, deterministic=True))
            peaks.append(search.best.peak)
        assert peaks[0] <= peaks[1], f"seed {seed}"


def test_search_after_packing_quickly_reaches_what_it_does_alone():
    for seed in seeds(4):
        program = to_anf(random_sharing_graph(seed, 7))
        problem = to_problem(program, Residency())
        peaks = []
        for quickly in (True, False):
            search = SharingSearch(program, problem, Residency(), kinds=("in place", "placement"))
            if quickly:
                search.pack_quickly(Deadline(1e9, deterministic=True))
            search.run(Budget(Deadline(2, deterministic=True)))
            peaks.append(search.best.peak)
        assert peaks[0] == peaks[1], f"seed {seed}"
