"""``share_storages``: proofs, groups, limits, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.instances import chain, perfect_packing, triangle
from support.storage_oracle import brute_force_total, random_storages

from cpplan import Graph, Op, Problem, Tensor
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.problem import Gap
from cpplan.packing.storage_ids import ALGORITHMS, check_assignment, share_storages
from cpplan.packing.storage_ids.assignment import make_assignment
from cpplan.packing.storage_ids.rank_bound import positional_maxima, rank_bound
from cpplan.runtime.deadline import Deadline


@pytest.mark.parametrize("seed", seeds(40))
def test_the_least_total_is_found_and_proved(seed):
    problem, group = random_storages(1000 + seed, gaps=True)
    keys = {name: str(label) for name, label in zip(problem.names, group.tolist(), strict=True)}
    plan = share_storages(problem, group_by=keys, workers=1)
    assert (plan.status, plan.total) == ("optimal", brute_force_total(problem, group))


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("seed", range(40))
def test_baselines_are_correct_and_never_below_the_least(name, seed):
    problem, group = random_storages(seed, gaps=True)
    storage = ALGORITHMS[name](problem, group, Deadline(60))
    keys = [str(label) for label in group.tolist()]
    plan = make_assignment(problem, storage, keys)
    check_assignment(problem, plan, keys)
    assert plan.total >= brute_force_total(problem, group)


def test_a_met_bound_needs_no_solver():
    plan = share_storages(chain(6, 8))
    assert (plan.status, plan.total, plan.bound_by) == ("optimal", 16, "live buffers by rank")
    assert plan.found_by == "shared_objects"


def test_the_bound_by_rank_is_above_the_live_bytes():
    """6 alone, then 4 and 4: at most 8 live bytes, but one storage of 6 and another of 4."""
    problem = Problem(("a", "b", "c"), lower=[0, 0, 3], upper=[2, 3, 4], size=[4, 4, 6])
    assert int(problem.live_bytes().max()) == 8
    assert positional_maxima(problem).tolist() == [6, 4]
    assert rank_bound(problem, np.zeros(3, np.int64)).value == 10


def test_three_that_meet_in_pairs_only_are_proved_to_need_three():
    """The bound by rank is 2; CP-SAT proves 3."""
    plan = share_storages(triangle(), workers=1)
    assert (plan.status, plan.total, plan.bound_by) == ("optimal", 3, "CP-SAT storages")


def test_a_buffer_that_never_holds_a_byte_still_wants_its_size():
    """b rests throughout: it may lie with a, whose storage grows to 8; c needs its own 3."""
    problem = Problem(
        ("a", "b", "c"), lower=[0, 0, 0], upper=[2, 2, 2], size=[4, 8, 3], gaps={1: [Gap(0, 2)]}
    )
    plan = share_storages(problem, workers=1)
    assert (plan.status, plan.total) == ("optimal", 11)


def test_unproved_total_lies_between_bound_and_baselines():
    problem = perfect_packing(3, 200)
    plan = share_storages(problem, time_limit=1, workers=1)
    assert plan.lower_bound is not None
    assert rank_bound(problem, np.zeros(200, np.int64)).value <= plan.lower_bound <= plan.total
    baselines = [share_storages(problem, algorithm=name).total for name in ALGORITHMS]
    assert plan.total <= min(baselines)


def test_an_endless_search_ends_in_time_with_the_best_so_far():
    problem = perfect_packing(1, 150)
    plan = share_storages(problem, time_limit=1e-9)
    assert (plan.status, plan.found_by) == ("feasible", "bump")
    assert plan.total == int(problem.size.sum())


def test_same_input_gives_the_same_assignment():
    problem = perfect_packing(2, 40, steps=100, height=256)
    one, other = (share_storages(problem, deterministic=True, time_limit=20) for _ in range(2))
    assert one.to_dict() == other.to_dict()


def test_no_buffers_need_no_storage():
    plan = share_storages(Problem((), [], [], []))
    assert (plan.status, plan.total, len(plan)) == ("optimal", 0, 0)


def graph(**dtype: str | None) -> Graph:
    """x -> t -> u -> y, 8 bytes each; in one group x, u and t, y share."""
    kinds = {"x": "input", "y": "output"}
    tensors = tuple(
        Tensor(name, 8, dtype=dtype.get(name, "int8"), kind=kinds.get(name, "intermediate"))
        for name in "xtuy"
    )
    ops = tuple(Op(f"to_{b}", inputs=(a,), outputs=(b,)) for a, b in ("xt", "tu", "uy"))
    return Graph("line", tensors, ops)


def test_dtypes_are_kept_apart_only_if_asked():
    mixed = graph(u="float16")
    assert share_storages(mixed).total == 16
    plan = share_storages(mixed, group_by="dtype")
    assert (plan.status, plan.total) == ("optimal", 24)
    assert sorted(plan.groups or ()) == ["float16", "int8", "int8"]


def test_buffers_of_bodies_and_copies_have_the_dtype_of_their_tensor():
    inner = Graph(
        "body",
        (Tensor("h", 4, dtype="int4"), Tensor("o", 4, dtype="int8", kind="output")),
        (Op("f", outputs=("h",)), Op("g", inputs=("h",), outputs=("o",))),
    )
    outer = Graph("g", (), (Op("call", bodies=(inner,)),))
    plan = share_storages(outer, group_by="dtype")
    assert dict(zip(plan.buffers, plan.storage.tolist(), strict=True)).keys() == {
        "call/0/h",
        "call/0/o",
    }
    assert set(plan.groups or ()) == {"int4", "int8"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "best"}, "algorithm 'best' is not understood: expected one of bump, "),
        ({"group_by": "size"}, "group_by='size' is not understood"),
        ({"group_by": 3}, "group_by must be 'dtype', a mapping or None, not int"),
        ({"group_by": {"x": "global"}}, "buffer 't': expected a group as a string, found none"),
        ({"time_limit": 0}, "time_limit must be a positive number of seconds, not 0"),
        ({"workers": 0}, "workers must be an integer from 1 on, not 0"),
        ({"seed": -1}, "seed must be an integer"),
        ({"deterministic": True, "workers": 2}, "needs workers=1"),
        ({"inputs": "gone"}, "inputs='gone' is not understood"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        share_storages(graph(), **options)


def test_a_tensor_without_dtype_is_named():
    with pytest.raises(InputError, match="buffer 'u': expected a dtype as a string, found none"):
        share_storages(graph(u=None), group_by="dtype")
    with pytest.raises(InputError, match="needs a graph"):
        share_storages(chain(), group_by="dtype")


def test_fixed_offsets_are_refused():
    with pytest.raises(InputError, match="buffer 'b' has a fixed offset"):
        share_storages(Problem(("a", "b"), [0, 0], [1, 1], [4, 4], fixed={1: 8}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"buffers": ("a", "b", "z")}, "not for the buffers of"),
        ({"storage": np.array([1, 1, 0])}, "'a' and 'b' are both live at step 1 in storage 1"),
        ({"storage": np.array([0, 1, 2])}, "'c' is in storage 2, but there are 2"),
        ({"storage": np.array([0.0, 1.0, 0.0])}, "expected one storage number a buffer"),
        ({"bytes": np.array([5, 8])}, "'c' of 6 B does not fit into storage 0 of 5 B"),
        ({"lower_bound": 15}, "a total of 14 B is below the lower bound of 15 B"),
        ({"status": "optimal"}, "status 'optimal' contradicts a total of 14 B"),
        ({"groups": ("p", "q")}, "'b' of group 'p' is in storage 1 of group 'q'"),
        ({"groups": None}, "not every storage has one"),
    ],
)
def test_the_checker_names_what_is_wrong(change, message):
    problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 6])
    keys = ("p", "p", "p")
    plan = make_assignment(problem, np.array([0, 1, 0]), keys)
    check_assignment(problem, plan, keys)
    with pytest.raises(VerificationError, match=message):
        check_assignment(problem, replace(plan, **change), keys)


def test_gaps_count_for_the_checker():
    """a rests while b lives: they may share. Where it keeps a window, they may not."""
    for gap, fine in ((Gap(1, 2), True), (Gap(1, 2, 0, 1), False)):
        problem = Problem(("a", "b"), lower=[0, 1], upper=[3, 2], size=[4, 4], gaps={0: [gap]})
        plan = make_assignment(problem, np.array([0, 0]))
        if fine:
            check_assignment(problem, plan)
        else:
            with pytest.raises(VerificationError, match="both live at step 1"):
                check_assignment(problem, plan)


def test_many_buffers_share_even_when_reading_took_all_the_time():
    problem = chain(3000)
    found = share_storages(problem, time_limit=1e-9)
    assert found.found_by == "storage_tokens"
    assert found.total < problem.size.sum() / 100
