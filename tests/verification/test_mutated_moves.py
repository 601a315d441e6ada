"""``verify`` rejects every plan with moves that was right before something in it was changed.

Here are the changes of more than one value; ``test_mutated_plans`` changes one at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.plan_mutations import unexplained
from support.plan_verdicts import accepts
from support.spill_oracle import random_spill_graph

import cpplan
from cpplan import Graph, Op, Plan, Pool, Tensor
from cpplan.model.errors import VerificationError
from cpplan.model.moves import Move
from cpplan.model.plan_data import Relation
from cpplan.model.residency import Residency
from cpplan.model.small_graphs import kept_meanwhile
from cpplan.program.anf import to_anf
from cpplan.spilling.problem import spill_problem
from cpplan.verification import program_plans

Mutation = Callable[[random.Random, Plan], "Plan | None"]


def _plan(seed: int) -> tuple[Graph, Plan]:
    """A plan with moves of a small graph, the first that there is from this seed on."""
    while True:
        rng = random.Random(seed)
        graph, direct = random_spill_graph(rng), rng.random() < 0.4
        pools = Pool("fast", 1 << 30), Pool("slow", direct=direct)
        problem = spill_problem(to_anf(graph), Residency(), pools, share=True)
        most = int(problem.load(problem.all_kept()).max())
        least = int(problem.least_load().max())
        if least < most:
            capacity = rng.randint(least, most - 1)
            plan = cpplan.solve(
                graph,
                pools=[Pool("fast", capacity), pools[1]],
                spill=True,
                in_place=True,
                time_limit=20,
                deterministic=True,
            )
            if plan.moves:
                return graph, plan
        seed += 100_000


def _without_a_move(rng: random.Random, plan: Plan) -> Plan:
    gone = rng.choice(plan.moves)
    order = tuple(name for name in plan.order if not (gone.is_copy and name == gone.name))
    return replace(plan, order=order, moves=tuple(m for m in plan.moves if m != gone))


def _turned_around(rng: random.Random, plan: Plan) -> Plan:
    number = rng.randrange(len(plan.moves))
    moves, move = list(plan.moves), plan.moves[number]
    moves[number] = move._replace(source=move.target, target=move.source)
    return replace(plan, moves=tuple(moves))


def _of_another_tensor(rng: random.Random, plan: Plan) -> Plan | None:
    number = rng.randrange(len(plan.moves))
    moves, move = list(plan.moves), plan.moves[number]
    names = sorted({name.split("~")[0].split("@")[0] for name in plan.buffers} - {move.tensor})
    if not names:
        return None
    moves[number] = move._replace(tensor=rng.choice(names))
    return replace(plan, moves=tuple(moves))


def _bound_of_no_proof(rng: random.Random, plan: Plan) -> Plan:
    return replace(
        plan,
        moved_bytes_bound=plan.moved_bytes,
        moved_bytes_bound_by="nothing moves",
        moved_certificate=None,
        status="optimal",
    )


def _another_pool(rng: random.Random, plan: Plan) -> Plan:
    pool = plan.pool.copy()
    row = rng.randrange(len(pool))
    pool[row] = 1 - pool[row]
    return replace(plan, pool=pool)


def _smaller_pool(rng: random.Random, plan: Plan) -> Plan | None:
    assert plan.pool_peaks is not None
    fast, slow = plan.pools
    used = plan.pool_peaks[fast.name]
    return replace(plan, pools=(replace(fast, capacity=used - 1), slow)) if used else None


def _overlapping(rng: random.Random, plan: Plan) -> Plan | None:
    related = {name for relation in plan.relations for name in relation[1:3]}
    pairs = [
        (i, j)
        for i in range(len(plan.buffers))
        for j in range(len(plan.buffers))
        if i != j
        and plan.pool[i] == plan.pool[j]
        and plan.lower[i] < plan.upper[j]
        and plan.lower[j] < plan.upper[i]
        and plan.size[i] > 0
        and plan.size[j] > 0
        and not related.intersection((plan.buffers[i], plan.buffers[j]))
    ]
    if not pairs:
        return None
    i, j = rng.choice(pairs)
    offset = np.array(plan.offset)
    offset[i] = offset[j]
    ends = np.zeros(2, np.int64)
    np.maximum.at(ends, plan.pool, offset + plan.size)
    return replace(plan, offset=offset, peak=int(ends.sum()))


def _move_at_another_time(rng: random.Random, plan: Plan) -> Plan | None:
    copies = [move.name for move in plan.moves if move.is_copy]
    if not copies:
        return None
    order, name = list(plan.order), rng.choice(copies)
    at = order.index(name)
    order.remove(name)
    order.insert(0 if at else len(order), name)
    return replace(plan, order=tuple(order)) if tuple(order) != plan.order else None


def _moved_for_nothing(rng: random.Random, plan: Plan) -> Plan | None:
    spilled = {move.tensor for move in plan.moves if move.kind in ("spill", "write")}
    if not spilled:
        return None
    fast, slow = (pool.name for pool in plan.pools)
    tensor = rng.choice(sorted(spilled))
    size = next(move.size for move in plan.moves if move.tensor == tensor)
    again = Move("spill", "spill again", tensor, size, fast, slow)
    return replace(plan, order=(*plan.order, again.name), moves=(*plan.moves, again))


def _views_elsewhere(rng: random.Random, plan: Plan) -> Plan | None:
    if not plan.views:
        return None
    name = rng.choice(sorted(plan.views))
    base, at = plan.views[name]
    return replace(plan, views={**plan.views, name: (base, at + 1)})


MUTATIONS: list[Mutation] = [
    _without_a_move,
    _turned_around,
    _of_another_tensor,
    _bound_of_no_proof,
    _smaller_pool,
    _overlapping,
    _move_at_another_time,
    _moved_for_nothing,
]


def rejected(seed: int) -> int:
    """Plans changed in one thing that are rejected; all of those of one seed are."""
    graph, plan = _plan(seed)
    cpplan.verify(graph, plan)
    rng, count = random.Random(seed), 0
    for mutate in MUTATIONS:
        changed = mutate(rng, plan)
        if changed is None or changed == plan:
            continue
        with pytest.raises(VerificationError) as caught:
            cpplan.verify(graph, changed)
        assert "\n" not in str(caught.value)
        count += 1
    assert unexplained(graph, plan, few=20) == []
    return count


@pytest.mark.parametrize("seed", seeds(8))
def test_mutated_plans_are_rejected(seed: int) -> None:
    assert rejected(seed)


@pytest.mark.slow
def test_three_hundred_mutated_plans_are_rejected() -> None:
    assert sum(rejected(seed) for seed in range(100, 150)) >= 300


def test_tensors_lie_only_in_pools_that_they_name() -> None:
    graph, pools = kept_meanwhile(), [Pool("fast", 16), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, time_limit=20)
    for moved, pool in (("a", "fast"), ("a", "slow"), ("b", "slow")):
        tensors = [replace(t, pools=(pool,)) if t.name == moved else t for t in graph.tensors]
        named = replace(graph, tensors=tuple(tensors))
        other = {"fast": "slow", "slow": "fast"}[pool]
        with pytest.raises(VerificationError, match=f"{moved!r} may not lie in pool {other!r}"):
            cpplan.verify(named, plan)


def test_plan_of_a_model_that_writes_into_an_input_is_accepted() -> None:
    """``new`` is the second half of the state ``s``, which the caller brings."""
    tensors = (
        Tensor("s", 8, kind="input"),
        Tensor("t", 4),
        Tensor("new", 4, view_of=("s", 4)),
        Tensor("y", 8, kind="output"),
    )
    ops = (
        Op("read", inputs=("s",), outputs=("t",)),
        Op("write", inputs=("t",), outputs=("new",)),
        Op("read again", inputs=("s", "new"), outputs=("y",)),
    )
    graph, pools = Graph("state", tensors, ops), [Pool("fast", 16), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, time_limit=20)
    assert (plan.status, plan.moved_bytes) == ("optimal", 0)
    cpplan.verify(graph, plan)
    cpplan.simulate(graph, plan)


@pytest.mark.parametrize("seed", seeds(4))
def test_plan_with_moves_survives_json(seed: int, tmp_path) -> None:
    graph, plan = _plan(seed)
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again == plan
    assert again.moved_bytes == plan.moved_bytes
    cpplan.verify(graph, again)


def _other_relations(rng: random.Random, plan: Plan) -> Plan:
    """A plan with a relation less, one turned around, or one of two other buffers."""
    relations = list(plan.relations)
    what = rng.randrange(3)
    if relations and what == 0:
        relations.pop(rng.randrange(len(relations)))
    elif relations and what == 1:
        k = rng.randrange(len(relations))
        relations[k] = relations[k]._replace(tensor=relations[k].other, other=relations[k].tensor)
    else:
        relations.append(Relation("in place", *rng.sample(plan.buffers, 2)))
    return replace(plan, relations=tuple(relations))


def _another_offset(rng: random.Random, plan: Plan) -> Plan:
    offset = np.array(plan.offset)
    offset[rng.randrange(len(offset))] = rng.choice(offset.tolist())
    ends = np.zeros(2, np.int64)
    np.maximum.at(ends, plan.pool, offset + plan.size)
    return replace(plan, offset=offset, peak=int(ends.sum()))


def test_check_in_bulk_accepts_the_moves_that_the_access_trace_accepts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_bulk, taken, rng = program_plans._check_pooled, [], random.Random(7)
    verdicts = {True: 0, False: 0}
    for seed in range(12):
        graph, plan = _plan(seed)
        changes = [_other_relations, _another_offset, _another_pool, _views_elsewhere] * 3
        for changed in [plan, *(change(rng, plan) for change in changes)]:
            if changed is None:
                continue
            with monkeypatch.context() as only:
                only.setattr(program_plans, "_check_pooled", lambda *given: None)
                expected = accepts(cpplan.verify, graph, changed)
            with monkeypatch.context() as both:
                both.setattr(
                    program_plans,
                    "_check_pooled",
                    lambda *given: taken.append(found := in_bulk(*given)) or found,
                )
                assert accepts(cpplan.verify, graph, changed) == expected
            verdicts[expected] += 1
    assert min(verdicts.values()) > 20
    assert sum(found is not None for found in taken) > 20
    assert any(found is not None and found.disjoint for found in taken)
