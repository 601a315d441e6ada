"""Addresses of buffers in ``simulate``: computed all at once against one by one."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.oracles import plan_for, random_problem

import cpplan
from cpplan import Graph, Op, Pool, Problem, Tensor, to_anf
from cpplan.model.errors import VerificationError
from cpplan.verification import arena
from cpplan.verification.script import from_problem


def one_by_one(problem, plan):
    """Address of every buffer of the problem, or what is wrong with the first that is misplaced."""
    end = dict.fromkeys(range(len(plan.pools)), 0)
    for pool, offset, size in zip(plan.pool, plan.offset, plan.size, strict=True):
        end[int(pool)] = max(end[int(pool)], int(offset) + int(size))
    addresses, top = [], 0
    for row, name in enumerate(problem.names):
        here = f"buffer {name!r}, used at step {problem.lower[row]}"
        if name not in plan.buffers:
            return f"{here}, is not in the plan"
        k = plan.buffers.index(name)
        offset, size, unit = int(plan.offset[k]), int(problem.size[row]), problem.alignment[row]
        start = sum(end[pool] for pool in range(int(plan.pool[k])))
        if offset % unit:
            return f"{here}: address {offset} is not a multiple of its alignment {unit}"
        most, span = min(plan.peak, 2**63 - 1), f"{offset}..{offset + size}"
        if offset < 0 or start + offset + size > most:
            return f"{here}: bytes {span} lie outside the arena of {most} B"
        addresses.append(start + offset)
        top = max(top, start + offset + size)
    if top < plan.peak:
        claim = f"the plan claims a peak of {plan.peak} B"
        return f"{claim}, but nothing accesses its bytes from {top} on"
    return addresses


def all_at_once(problem, plan):
    try:
        return arena._placed(from_problem(problem), plan)[1].tolist()
    except VerificationError as error:
        return str(error)


@pytest.mark.parametrize("seed", seeds(60))
def test_bulk_and_single_checks_agree(seed):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(1, 9))
    plan, count = plan_for(problem), len(problem)
    rows = list(range(count))
    rng.shuffle(rows)
    columns = {c: getattr(plan, c)[rows] for c in ("size", "lower", "upper", "offset")}
    names = [plan.buffers[row] for row in rows]
    pools = (Pool("near"), Pool("far"))[: 1 + seed % 2]
    pool = np.array([rng.randrange(len(pools)) for _ in rows])
    plan = replace(plan, buffers=tuple(names), gaps={}, pools=pools, pool=pool, **columns)
    peaks = [int(max((plan.offset + plan.size)[pool == k], default=0)) for k in range(len(pools))]
    plan = replace(plan, peak=sum(peaks))
    assert all_at_once(problem, plan) == one_by_one(problem, plan)
    for _ in range(4):
        wrong, kind = plan.offset.copy(), rng.randrange(4)
        for row in rng.sample(range(count), rng.randint(1, count)):
            if kind == 0:
                wrong[row] += rng.choice([-200, -1, 1, 200])
            elif kind == 1:
                names[row] = f"lost {row}"
        peak = max(0, plan.peak + (rng.choice([-3, -1, 1, 1 << 80]) if kind == 2 else 0))
        changed = replace(plan, offset=wrong, buffers=tuple(names), peak=peak)
        assert all_at_once(problem, changed) == one_by_one(problem, changed)


@pytest.mark.parametrize("offset", [2**62, 2**63 - 8, 2**63 - 1])
@pytest.mark.parametrize("peak", [12, 2**62, 2**63 - 1, 2**80])
def test_addresses_that_exceed_64_bits(offset, peak):
    """``b`` ends beyond what a 64-bit integer holds, or lies there once ``a``'s pool is below it.

    Sizes in the plan are claims: these make the pools end at 8 and 4.
    """
    problem = Problem(("a", "b"), [0, 0], [1, 1], [8, 8], pools=(Pool("p"), Pool("q")))
    plan = replace(
        plan_for(problem),
        peak=peak, offset=np.array([0, offset]), pool=np.array([0, 1]), size=np.array([8, -offset]),
    )  # fmt: skip
    found = one_by_one(problem, plan)
    assert isinstance(found, str) or offset + 16 <= 2**63
    assert all_at_once(problem, plan) == found


def test_a_plan_of_nothing():
    problem = Problem(("a",), [3], [4], [8])
    none = np.zeros(0, np.int64)
    plan = cpplan.Plan("p", "feasible", (), none, none, none, none, peak=0)
    assert all_at_once(problem, plan) == "buffer 'a', used at step 3, is not in the plan"


def test_an_alignment_that_exceeds_64_bits():
    """The alignment of a storage is the least common multiple of its tensors' alignments."""
    tensors = (
        Tensor("x", 8, alignment=2**61, kind="input"),
        Tensor("v", 8, alignment=3, view_of=("x", 0)),
        Tensor("y", 8, kind="output"),
    )
    graph = Graph("g", tensors, (Op("f", "", ("v",), ("y",)),))
    plan = cpplan.Plan(
        "p", "feasible", ("x", "y"), *np.array([[8, 8], [0, 0], [1, 1], [0, 8]]),
        order=("f",), peak=16, cost=1, base_cost=1, views={"v": ("x", 0)}, inputs=("x",),
        outputs=("y",),
    )  # fmt: skip
    for check in (cpplan.verify, cpplan.simulate):
        with pytest.raises(VerificationError, match=r"alignment of the model exceeds? 2\*\*62"):
            check(to_anf(graph), plan)
