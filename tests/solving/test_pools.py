"""``solve`` with several pools: optima by hand, what verify rejects, sharing, interrupts, bytes."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.instances import perfect_packing
from support.pool_oracles import OBJECTIVES, brute_force_objective
from support.sharing_oracle import random_sharing_graph

from cpplan import Graph, Op, Plan, Pool, Problem, Tensor, simulate, solve, verify
from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.aliasing.alias_sets import SharingRules, form_alias_sets
from cpplan.aliasing.lives import ProgramLives
from cpplan.aliasing.merged import merge_alias_sets, storages_of
from cpplan.aliasing.value_numbers import Origins
from cpplan.io.plan_json import plan_from_dict, plan_text, plan_to_dict
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Placement
from cpplan.model.residency import Residency
from cpplan.packing.pools.objective import objective_levels, objective_value
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem


def planned(source: Graph | Problem, **options: object) -> Plan:
    """A plan that is verified, simulated, and the same once read from its JSON."""
    plan = solve(source, **{"time_limit": 20, "workers": 1, **options})
    again = plan_from_dict(plan_to_dict(plan))
    assert again == plan
    verify(source, again)
    if isinstance(source, Graph):
        simulate(source, plan)
    return plan


def chain(*sizes: int, pools: dict[int, tuple[str, ...]] | None = None, **fields: object) -> Graph:
    """t0 (an input) → t1 → … → an output; the k-th tensor may name pools."""
    kinds = ["input", *["intermediate"] * (len(sizes) - 2), "output"]
    tensors = tuple(
        Tensor(f"t{k}", size, kind=kind, pools=(pools or {}).get(k))
        for k, (size, kind) in enumerate(zip(sizes, kinds, strict=True))
    )
    names = [t.name for t in tensors]
    ops = tuple(
        Op(f"op{k}", inputs=(a,), outputs=(b,), **fields)  # type: ignore[arg-type]
        for k, (a, b) in enumerate(itertools.pairwise(names))
    )
    return Graph("chain", tensors, ops)


def test_tensors_that_fit_go_to_the_first_pool():
    """t0 (12 B) fits nowhere but into slow. t1, t2 and t3, at most 8 B at a time, go to fast."""
    plan = planned(chain(12, 5, 3, 4), pools=(Pool("fast", 8), Pool("slow")))
    assert (plan.status, plan.objective_value) == ("optimal", (12, 12, 8))
    assert [plan.pool_of(f"t{k}") for k in range(4)] == ["slow", "fast", "fast", "fast"]
    assert plan.objective_bound == plan.objective_value
    assert (plan.peak, plan.lower_bound) == (20, 17)


def test_first_pool_that_holds_everything_is_minimised():
    """5 + 3 B at a time, in a pool of 100."""
    plan = planned(chain(5, 3, 4), pools=(Pool("fast", 100), Pool("slow")))
    assert (plan.status, plan.objective_value) == ("optimal", (0, 0, 8))


def test_a_tensor_s_own_order_of_pools_counts():
    """t1 prefers mid to fast: there it is not misplaced; in fast it would be, once."""
    pools = (Pool("fast", 100), Pool("mid", 100), Pool("slow"))
    graph = chain(4, 8, 4, pools={1: ("mid", "fast")})
    plan = planned(graph, pools=pools)
    # The peak of mid comes first: all are in fast, and 8 B are misplaced.
    assert (plan.status, plan.objective_value) == ("optimal", (0, 0, 8, 12))
    # With 8 B in fast, t1 goes to mid, and nothing is misplaced.
    plan = planned(graph, pools=(Pool("fast", 7), *pools[1:]))
    assert (plan.status, plan.objective_value) == ("optimal", (0, 8, 0, 4))


def test_each_objective_has_its_own_optimum():
    """Two of 8 B meet at each step, and fast holds one: t1 goes to slow, t0 and t2 stay.

    Total: 16 B wherever they lie. In fast 8 B cost 24, in slow 8, and 10 for each read there.
    """
    pools = (Pool("fast", 8, cost_per_byte=3), Pool("slow", read_latency=10))
    graph = chain(8, 8, 8)
    problem = to_problem(to_anf(graph), pools=pools)
    assert planned(graph, pools=pools).objective_value == (8, 8, 8)
    for objective in OBJECTIVES:
        plan = planned(graph, pools=pools, objective=objective)
        assert plan.status == "optimal"
        assert plan.objective_value == brute_force_objective(problem, objective)


def test_missing_bytes_and_their_pool_are_named():
    plan = solve(chain(12, 5), pools=(Pool("fast", 8), Pool("slow", 10)), workers=1)
    assert (plan.status, plan.offset, plan.objective_value) == ("infeasible", None, ())
    assert "2 B are missing in pool 'slow' of 10 B" in plan.message
    assert plan_from_dict(plan_to_dict(plan)) == plan


def test_a_heuristic_alone_counts_the_same_levels():
    graph = chain(12, 5, 3, 4)
    pools = (Pool("fast", 8), Pool("slow"))
    plan = planned(graph, pools=pools, algorithm="greedy_by_size")
    assert plan.objective_value >= planned(graph, pools=pools).objective_value
    assert plan.found_by == "greedy_by_size"


def test_zero_capacities_bases_and_alignments():
    graph = chain(5, 3, 4)
    assert planned(graph, pools=(Pool("none", 0), Pool("slow"))).objective_value == (8, 12, 0)
    pools = (Pool("fast", 7, alignment=4, base=1 << 20), Pool("slow", 2**61, alignment=8))
    plan = planned(graph, pools=pools)
    # fast: 5 B end at 5, the next may start at 8, beyond 7. t1 (3 B) goes to slow, or t0 and t2.
    assert (plan.status, plan.objective_value) == ("optimal", (3, 3, 5))


def test_in_place_results_stay_in_the_first_pool():
    """Every op writes over its input: one place of 8 B for all."""
    tensors = tuple(
        Tensor(f"t{k}", 8, kind=kind) for k, kind in enumerate(("input", "intermediate", "output"))
    )
    ops = tuple(
        Op(f"op{k}", inputs=(f"t{k}",), outputs=(f"t{k + 1}",), in_place=((f"t{k + 1}", f"t{k}"),))
        for k in range(2)
    )
    graph = Graph("in place", tensors, ops)
    pools = (Pool("fast", 8), Pool("slow"))
    assert planned(graph, pools=pools).objective_value == (8, 8, 8)
    shared = planned(graph, pools=pools, in_place=True)
    assert (shared.status, shared.objective_value) == ("optimal", (0, 0, 8))
    assert len(shared.relations) == 2


def test_a_part_lies_within_the_whole_only_where_its_pool_s_grid_allows():
    """Parts of 4 B in a whole of 8: the second starts at 4, which is off a grid of 8."""
    tensors = (
        Tensor("a", 4, kind="input"),
        Tensor("b", 4, kind="input"),
        Tensor("whole", 8, kind="output"),
    )
    op = Op("concat", inputs=("a", "b"), outputs=("whole",), placements=(
        Placement("a", "whole", 0), Placement("b", "whole", 4),
    ))  # fmt: skip
    graph = Graph("concat", tensors, (op,))
    fine = planned(graph, pools=(Pool("fast", 8, alignment=4), Pool("slow")), in_place=True)
    assert fine.objective_value == (0, 0, 8)
    coarse = planned(graph, pools=(Pool("fast", 8, alignment=8), Pool("slow")), in_place=True)
    assert coarse.objective_value[0] > 0


def best_by_choice(graph: Graph, pools: tuple[Pool, ...], objective: str):
    """The best value over all choices of candidates, each packed exhaustively, or ``None``."""
    program, residency = to_anf(graph), Residency()
    problem = to_problem(program, residency, pools)
    candidates = find_candidates(graph, residency)
    lives = ProgramLives(program, problem, residency)
    rules = SharingRules(storages_of(problem), lives, Origins(graph, candidates), candidates)
    levels, best, seen = objective_levels(problem, objective), None, set()
    for skipped in itertools.product((False, True), repeat=len(candidates)):
        skip = frozenset(
            candidate for candidate, left in zip(candidates, skipped, strict=True) if left
        )
        alias_sets = form_alias_sets(candidates, rules, skip)
        if (key := tuple(sorted(map(repr, alias_sets.candidates)))) in seen:
            continue
        seen.add(key)
        merged = merge_alias_sets(problem, alias_sets)
        here = [level.merged(merged.row) for level in levels]
        value = brute_force_objective(merged.problem, objective, here)
        if value is not None:
            best = value if best is None else min(best, value)
    return best


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_bound_is_above_the_best_choice_of_what_to_share(objective):
    met = compared = 0
    for seed in seeds(24):
        rng = random.Random(f"shared pools {seed}")
        graph = random_sharing_graph(seed, rng.randint(1, 3))
        pools = (Pool("p", rng.randint(0, 8), cost_per_byte=0.3), Pool("q", read_latency=1))
        if len(find_candidates(graph, Residency())) > 6 or len(graph.tensors) > 7:
            continue
        plan = planned(graph, pools=pools, objective=objective, in_place=True, time_limit=2)
        best = best_by_choice(graph, pools, objective)
        assert plan.objective_bound <= best <= plan.objective_value, seed
        compared += 1
        met += plan.status == "optimal"
    assert compared > 10
    assert met > compared / 3


def two_apart() -> tuple[Graph, Plan]:
    """Two of 8 B that meet, one in each pool, both at offset 0."""
    graph = chain(8, 8)
    plan = planned(graph, pools=(Pool("fast", 8), Pool("slow")))
    assert sorted(plan.pool.tolist()) == [0, 1]
    assert plan.offset.tolist() == [0, 0]
    return graph, plan


def test_one_offset_in_two_pools_is_fine_and_in_one_is_not():
    graph, plan = two_apart()
    together = replace(plan, pool=np.array([1, 1]))
    with pytest.raises(VerificationError, match="'t0' and 't1' overlap at step 0"):
        verify(graph, together)


def test_beyond_a_pool_s_capacity_is_rejected():
    graph, plan = two_apart()
    with pytest.raises(VerificationError, match=r"ends at 16 B, beyond pool 'fast'.* of 8 B"):
        verify(graph, replace(plan, pool=np.array([0, 0]), offset=np.array([0, 8])))


def test_a_pool_that_a_buffer_may_not_lie_in_is_rejected():
    graph = chain(4, 4, pools={0: ("slow",)})
    plan = planned(graph, pools=(Pool("fast"), Pool("slow")))
    assert plan.pool.tolist() == [1, 0]
    with pytest.raises(VerificationError, match="'t0' lies in pool 'fast', but may only lie in 's"):
        verify(graph, replace(plan, pool=np.array([0, 0]), offset=np.array([0, 4])))
    with pytest.raises(VerificationError, match="'t0' lies in no pool"):
        verify(graph, replace(plan, pool=np.array([2, 0])))


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"objective_value": (8, 8, 7)}, r"claims an objective \(preference\) of \[8, 8, 7\]"),
        ({"objective_value": (8, 8)}, "claims an objective"),
        ({"objective": "total"}, r"but it is \[16\]"),
        ({"objective_bound": (8, 9, 0)}, "is above its value"),
        ({"objective_bound": (8, 8)}, "is above its value"),
        ({"objective_bound": ()}, "status 'optimal' contradicts"),
        ({"objective_bound": (8, 7, 8)}, "status 'optimal' contradicts"),
        ({"status": "feasible"}, "status 'feasible' contradicts"),
        ({"peak": 8}, "claims a peak of 8 B, but it is 16 B"),
        ({"lower_bound": 17}, "above the peak"),
    ],
)
def test_wrong_claims_are_rejected(claim, message):
    graph, plan = two_apart()
    with pytest.raises(VerificationError, match=message):
        verify(graph, replace(plan, **claim))


def test_a_bound_that_nothing_proves_is_rejected():
    """Both in slow: only 8 of the 16 B need to be there."""
    graph, plan = two_apart()
    worse = replace(
        plan,
        pool=np.array([1, 1]),
        offset=np.array([0, 8]),
        objective_value=(16, 16, 0),
        objective_bound=(16, 16, 0),
    )
    with pytest.raises(VerificationError, match=r"no objective is below \[16, 16, 0\], but .*\[8,"):
        verify(graph, worse)
    verify(graph, replace(worse, objective_bound=(8, 8, 0), status="feasible"))


def test_one_worker_and_one_seed_give_the_same_bytes():
    problem = replace(perfect_packing(5, 20), pools=(Pool("p", 1500, alignment=2), Pool("q")))
    options = {"time_limit": 4, "deterministic": True, "seed": 3}
    texts = {
        "".join(plan_text(solve(problem, objective="preference", **options))) for _ in range(2)
    }
    assert len(texts) == 1


def test_ctrl_c_at_any_event_returns_the_best_plan_so_far():
    problem = replace(perfect_packing(6, 20), pools=(Pool("p", 1500), Pool("q")))
    whole = solve(problem, time_limit=4, deterministic=True)
    assert len(whole.history) > 3
    for stop in range(len(whole.history)):
        seen = itertools.count()

        def interrupt(event, seen=seen, stop=stop):
            if next(seen) == stop:
                raise KeyboardInterrupt

        plan = solve(problem, time_limit=4, deterministic=True, progress=interrupt)
        assert len(plan.history) == stop + 1
        assert plan.objective_value >= whole.objective_value
        verify(problem, plan)


def test_bad_pools_are_named():
    for pools, message in (
        ((Pool("p"), Pool("p")), "two pools are named 'p'"),
        ((), "at least one pool"),
    ):
        with pytest.raises(InputError, match=message):
            solve(chain(4, 4), pools=pools)
    view = Tensor("v", 4, view_of=("t0", 0), pools=("q",))
    graph = Graph(
        "views",
        (Tensor("t0", 8, kind="input", pools=("p",)), view, Tensor("y", 4, kind="output")),
        (Op("f", inputs=("v",), outputs=("y",)),),
    )
    with pytest.raises(InputError, match="buffer 't0': has no candidate pool among p, q"):
        solve(graph, pools=(Pool("p"), Pool("q")))


def test_bytes_too_many_to_be_added_are_refused():
    pools = (Pool("p"), Pool("q"), Pool("r"))
    problem = Problem(("a", "b"), [0, 0], [1, 1], [2**60, 2**60], pools=pools)
    assert objective_value(problem, "total", np.array([0, 1]), np.array([0, 0])) == (2**61,)
    with pytest.raises(InputError, match="misplaced bytes add up to more than 2"):
        solve(replace(problem, size=np.array([2**60, 2**60 + 2**59 + 2**60 - 2**59])))


def test_the_first_pool_alone_needs_only_its_own_alignment():
    # While f runs, b takes a's bytes and c is apart: 4 + 3 B in the first pool, whose base suits
    # its own alignment only; 3 B in each of the two, together 6 B.
    tensors = (Tensor("a", 3, kind="input"), *(Tensor(name, 3) for name in "bc"), Tensor("d", 1))
    split = Op("f", inputs=("a",), outputs=("b", "c"), in_place=(("b", "a"), ("c", "a")))
    graph = Graph("two pools", tensors, (split, Op("g", outputs=("d",))))
    pools = (Pool("p", alignment=4, base=12), Pool("q", alignment=8))
    plan = solve(graph, pools=pools, objective="total", in_place=True, workers=1, time_limit=1)
    verify(graph, plan)
    simulate(graph, plan)
    assert plan.pool_peaks == {"p": 3, "q": 3}


def test_searched_order_with_aliases_keeps_the_pool_s_name_and_base():
    tensors = tuple(Tensor(name, 128, pools=("sram",)) for name in "abc")
    ops = (
        Op("first", outputs=("a",)),
        Op("second", inputs=("a",), outputs=("b",), in_place=(("b", "a"),)),
        Op("third", inputs=("b",), outputs=("c",), in_place=(("c", "b"),)),
        Op("fourth", inputs=("c",)),
        Op("fifth", inputs=("a",)),
    )
    pool = Pool("sram", capacity=200, base=64)
    plan = planned(Graph("g", tensors, ops), pools=[pool], order="search", in_place=True)
    assert plan.pools == (pool,)
    assert plan.pool_peaks == {"sram": 128}
