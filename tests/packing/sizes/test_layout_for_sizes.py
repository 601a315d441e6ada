"""One layout for several sizes: by hand, against brute force, and what must hold of any."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.instances import perfect_packing
from support.oracles import brute_force_peak
from support.sizes_oracle import all_layouts, arenas, pushed_down, random_sizes

from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.sizes.solve import layout_for_sizes
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets


def together(count: int) -> Problem:
    """Buffers that are all live at one step."""
    names = tuple("abcdefg"[:count])
    ones = np.ones(count, np.int64)
    return Problem(names, lower=0 * ones, upper=ones, size=0 * ones)


def plan(problem, bytes, **options):
    return layout_for_sizes(
        problem, np.array(bytes), Budget(Deadline(60, deterministic=True)), **options
    )


def test_fastest_growing_buffer_lies_on_top():
    """a grows from 1 to 100, b from 2 to 50. With b below, small needs 50 + 1, else 100 + 2."""
    found = plan(together(2), [[1, 2], [100, 50]], prefix_stable=True)
    assert found.status == "optimal"
    assert found.offset.tolist() == [50, 0]
    assert found.arena.tolist() == [51, 150]
    assert found.alone.tolist() == [3, 150]
    assert found.price.tolist() == [17.0, 1.0]


def test_without_prefix_stable_only_the_largest_arena_counts():
    found = plan(together(2), [[1, 2], [100, 50]])
    assert found.status == "optimal"
    assert found.levels == ("largest arena",)
    assert found.value == found.bound == (150,)


def test_sizes_that_are_not_largest_together_cost_more_than_each_alone():
    """Each size needs 5; whichever lies below needs room for 4: the other ends at 5 or at 8."""
    found = plan(together(2), [[1, 4], [4, 1]], prefix_stable=True)
    assert found.status == "optimal"
    assert sorted(found.arena.tolist()) == [5, 8]
    assert found.alone.tolist() == [5, 5]


def test_three_deep_needs_the_room_of_two():
    """The top buffer is the one whose growth costs the small size least.

    Sizes are 2, 3, 4 at n = 1 and 20, 30, 40 at n = 10. With c on top n = 1 takes 50 + 4, with b
    60 + 3, with a 70 + 2: so c.
    """
    found = plan(together(3), [[2, 3, 4], [20, 30, 40]], prefix_stable=True)
    assert found.arena.tolist() == [54, 90]
    assert found.lower_bound.tolist() == [54, 90]


def test_empty_buffers_leave_their_room_to_others():
    """a is empty at size 1 and b at size 0: both lie at 0. c, with both, lies above or below."""
    found = plan(together(3), [[5, 0, 2], [0, 6, 2]], prefix_stable=True)
    assert found.status == "optimal"
    assert found.offset.tolist() == [2, 2, 0]
    assert found.arena.tolist() == [7, 8]
    assert found.price.tolist() == [1.0, 1.0]


def test_worst_price_and_largest_arena_disagree():
    """One of two lies below.

    b grows from 1 to 8, a from 6 to 7: 7 and 15 at least. b below, a ends at 14 and 15, at worst
    twice the least; a below, b at 8, its alignment, ends at 9 and 16, at worst 1.286 times.
    """
    problem = replace(together(2), alignment=np.array([1, 8]))
    largest = plan(problem, [[6, 1], [7, 8]], prefix_stable=True)
    assert largest.arena.tolist() == [14, 15]
    ratio = plan(problem, [[6, 1], [7, 8]], objective="ratio", prefix_stable=True)
    assert ratio.status == "optimal"
    assert ratio.arena.tolist() == [9, 16]
    assert ratio.value == (1286, 16, 9)


def test_capacities_come_first():
    """Capacities hold before the objective counts.

    With 52 B at the small size only a on top fits (51 and 150 B); with 3 B no layout fits.
    """
    bytes = [[1, 2], [100, 50]]
    assert plan(together(2), bytes, capacities=[52, None]).offset.tolist() == [50, 0]
    none = plan(together(2), bytes, capacities=[3, None])
    assert none.status == "infeasible"
    assert none.offset is none.arena is none.price is None
    assert none.to_frame()["price"].isna().all()


def test_capacities_may_cost_at_the_largest_size():
    """As above: 9 bytes at the small size cost one at the large one; 9 and 15 cannot both be."""
    problem = replace(together(2), alignment=np.array([1, 8]))
    found = plan(problem, [[6, 1], [7, 8]], capacities=[9, None])
    assert (found.status, found.arena.tolist()) == ("optimal", [9, 16])
    assert plan(problem, [[6, 1], [7, 8]], capacities=[9, 15]).status == "infeasible"


def best(problem, bytes, found, layouts=None):
    """The values of the levels of a plan, smallest first, over all layouts."""
    alone = [lower_bound(replace(problem, size=row)).value for row in bytes]
    bounds = np.maximum(alone, 1)

    def values(offset):
        needed = arenas(bytes, offset)
        table = {f"arena at {k}": needed[k] for k in range(len(needed))}
        table["largest arena"] = max(needed)
        table["worst price"] = max(
            -(-1000 * a // int(b)) for a, b in zip(needed, bounds, strict=True)
        )
        return tuple(table[name] for name in found.levels)

    return min(map(values, layouts or pushed_down(problem, bytes)))


@pytest.mark.parametrize("objective", ["largest", "ratio"])
@pytest.mark.parametrize("seed", range(25))
def test_agrees_with_every_order_of_first_fit(seed, objective):
    problem, bytes = random_sizes(random.Random(seed), 1 + seed % 5)
    found = plan(problem, bytes, objective=objective, prefix_stable=True)
    assert found.status == "optimal"
    assert found.value == best(problem, bytes, found)
    for k, row in enumerate(bytes):
        assert found.alone[k] == brute_force_peak(replace(problem, size=row))


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_all_offsets(seed):
    """No canonical form is assumed: a fixed buffer, and every offset of the others."""
    problem, bytes = random_sizes(random.Random(100 + seed), 1 + seed % 3, fixed=True)
    found = plan(problem, bytes, prefix_stable=True)
    assert found.status == "optimal"
    assert found.value == best(problem, bytes, found, all_layouts(problem, bytes, 24))


@pytest.mark.parametrize("seed", range(40))
def test_capacities_are_kept_wherever_some_layout_keeps_them(seed):
    rng = random.Random(seed)
    problem, bytes = random_sizes(rng, 2 + seed % 4)
    needed = [arenas(bytes, offset) for offset in pushed_down(problem, bytes)]
    # About what the best layouts need, so that some sets of capacities fit and some do not.
    limits = [
        rng.choice((None, min(column) + rng.randint(-1, 2))) for column in zip(*needed, strict=True)
    ]
    limits = [limit if limit is None else max(0, limit) for limit in limits]
    found = plan(problem, bytes, capacities=limits)
    fitting = [
        max(each)
        for each in needed
        if all(limit is None or a <= limit for a, limit in zip(each, limits, strict=True))
    ]
    assert found.status == ("optimal" if fitting else "infeasible")
    if fitting:
        assert found.arena.max() == min(fitting)


def test_layout_prints_one_line_a_size():
    bytes = [[1024, 2048], [102400, 51200]]
    found = plan(together(2), bytes, labels=["n=1", "n=100"], prefix_stable=True)
    assert str(found).splitlines() == [
        "problem: optimal, 2 buffers",
        "  n=1: 51.00 KiB, 17.000 x 3072 B alone",
        "  n=100: 150 KiB, 1.000 x 150 KiB alone",
    ]


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_every_plan_is_valid_at_every_size_and_in_between(seed):
    rng = random.Random(seed)
    problem, part = random_sizes(rng, rng.randint(0, 8))
    constant = part[0] * rng.randint(0, 3)

    def at(n):
        return constant + part[-1] * n

    ns = sorted(rng.sample(range(1, 40), 3))
    bytes = np.array([at(n) for n in ns])
    found = layout_for_sizes(
        problem, bytes, Budget(Deadline(2, deterministic=True)), prefix_stable=True
    )
    for n in range(1, ns[-1] + 1):
        check_offsets(replace(problem, size=at(n)), found.offset, "sizes")
        index = next(k for k, listed in enumerate(ns) if n <= listed)
        # Nothing lies beyond the arena of the next larger size of the set.
        assert (found.offset + at(n)).max(initial=0) <= found.arena[index]
    assert (found.arena >= found.lower_bound).all()
    assert (found.lower_bound >= found.alone_bound).all()
    assert (found.alone >= found.alone_bound).all()
    assert (found.arena >= found.alone).all()


def test_same_input_and_seed_give_the_same_offsets():
    problem = perfect_packing(3, 25)
    bytes = np.array([problem.size // 7 + 1, problem.size])

    def offsets():
        budget = Budget(Deadline(3, deterministic=True), seed=5)
        return layout_for_sizes(problem, bytes, budget, prefix_stable=True).offset.tolist()

    assert offsets() == offsets()


def test_the_pool_aligns_everything():
    """Alignment 16: 4 bytes below, 20 end at 36; with 20 below, 4 end at 36 too; small: 17."""
    problem = replace(together(2), pools=(Pool(alignment=16),))
    found = plan(problem, [[1, 1], [4, 20]], prefix_stable=True)
    assert found.offset.tolist() == [0, 16]
    assert found.arena.tolist() == [17, 36]


def test_no_buffers_need_nothing():
    problem = Problem((), lower=[], upper=[], size=[])
    found = plan(problem, np.zeros((2, 0), np.int64), prefix_stable=True)
    assert found.status == "optimal"
    assert found.arena.tolist() == [0, 0]
    assert found.price.tolist() == [1.0, 1.0]


def test_improvements_are_reported_in_order():
    seen = []
    plan(
        together(3),
        [[2, 3, 4], [20, 30, 40]],
        prefix_stable=True,
        report=lambda values, bounds, source: seen.append((values, bounds)),
    )
    values = [each[0] for each in seen]
    assert values == sorted(values, reverse=True)
    assert values[-1] == seen[-1][1] == (90, 90, 54)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bytes": [1, 2]}, r"bytes has shape \(2,\): expected \(sizes, 2\)"),
        ({"bytes": [[1, -2]]}, "buffer 'b': size must not be negative at size '0'"),
        ({"bytes": [[1.5, 2]]}, "bytes must hold integers"),
        ({"labels": ["x", "x"]}, "two sizes have the label 'x'"),
        ({"labels": ["x"]}, "there are 1 labels for 2 sizes"),
        ({"objective": "least"}, "objective='least' is not understood .*: expected one of largest"),
        ({"capacities": [4]}, "there are 1 capacities for 2 sizes"),
        ({"capacities": [4, -1]}, "the capacity at size '1' must be bytes"),
        ({"gaps": {0: [Gap(0, 1, 0, 1)]}}, "buffer 'a': its gaps have windows"),
        ({"pools": (Pool("p"), Pool("q"))}, "needs a problem of one pool"),
    ],
)
def test_bad_input_is_named(options, message):
    options = {"bytes": [[1, 2], [3, 4]], **options}
    size = np.array([4, 4]) if "gaps" in options else np.zeros(2, np.int64)
    changes = {key: options.pop(key) for key in ("gaps", "pools") if key in options}
    problem = replace(together(2), size=size, **changes)
    with pytest.raises(InputError, match=message):
        plan(problem, options.pop("bytes"), **options)
