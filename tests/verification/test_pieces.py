"""Plans in pieces, checked against the original graph by code of the checker's own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.cases import examples, seeds
from support.split_networks import Network, random_network
from support.split_plans import plan_in_pieces, random_pieces

import cpplan
from cpplan import Graph, Plan
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.pieces import Pieces
from cpplan.model.plan_data import RelationKind
from cpplan.model.residency import Residency
from cpplan.splitting import bounds
from cpplan.splitting.piece_graph import split_graph
from cpplan.splitting.problem import SplitProblem
from cpplan.verification.piece_bound import least_piece
from cpplan.verification.pieces import describe_pieces

Mutation = Callable[[random.Random, Plan], "Plan | None"]
PLANS: list[tuple[Graph, Plan]] = []


@pytest.mark.parametrize("seed", seeds(60))
def test_the_planner_and_the_checker_derive_one_graph_of_pieces(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_network(rng)
    pieces = random_pieces(rng, graph)
    if not pieces:
        return
    ours, theirs = split_graph(graph, pieces).graph, describe_pieces(graph, pieces).graph
    assert set(ours.ops) == set(theirs.ops)
    assert set(ours.tensors) == set(theirs.tensors)
    assert [op.name for op in ours.ops] == [op.name for op in theirs.ops]
    sharing = frozenset({"in place"} if seed % 2 else set[RelationKind]())
    problem = SplitProblem(cpplan.to_anf(graph), Residency(), sharing)
    assert bounds.least_piece(problem).bytes == least_piece(graph, Residency(), sharing)


def split_plan(rng: random.Random) -> tuple[Graph, Plan]:
    """A plan of a random network with random cuts."""
    graph = random_network(rng)
    pieces = random_pieces(rng, graph)
    while not pieces:
        graph = random_network(rng)
        pieces = random_pieces(rng, graph)
    return graph, plan_in_pieces(graph, pieces)


def _cut(change: Callable[[random.Random, tuple[int, ...]], tuple[int, ...]]) -> Mutation:
    def mutate(rng: random.Random, plan: Plan) -> Plan | None:
        k = rng.randrange(len(plan.pieces))
        entry = plan.pieces[k]
        cuts = (change(rng, entry.cuts[0]), *entry.cuts[1:])
        if cuts == entry.cuts or not cuts[0]:
            return None
        try:
            changed = Pieces(entry.op, entry.axes, cuts)
        except InputError:
            return None
        return replace(plan, pieces=(*plan.pieces[:k], changed, *plan.pieces[k + 1 :]))

    return mutate


def _moved(rng: random.Random, plan: Plan) -> Plan | None:
    """One band at the place of another that is live with it."""
    rows = range(len(plan.buffers))
    related = {pair for r in plan.relations for pair in ((r.tensor, r.other), (r.other, r.tensor))}
    pairs = [
        (a, b)
        for a in rows
        for b in rows
        if a != b and plan.lower[a] < plan.upper[b] and plan.lower[b] < plan.upper[a]
        and plan.offset[a] != plan.offset[b]
        and plan.offset[a] + plan.size[b] <= plan.peak
        and (plan.buffers[a], plan.buffers[b]) not in related
    ]  # fmt: skip
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    offset = plan.offset.copy()
    offset[b] = offset[a]
    return replace(plan, offset=offset)


def _order(change: Callable[[random.Random, list[str]], object]) -> Mutation:
    def mutate(rng: random.Random, plan: Plan) -> Plan | None:
        order = list(plan.order)
        change(rng, order)
        return replace(plan, order=tuple(order)) if tuple(order) != plan.order else None

    return mutate


def _without_one(rng: random.Random, plan: Plan) -> Plan | None:
    k = rng.randrange(len(plan.pieces))
    return replace(plan, pieces=(*plan.pieces[:k], *plan.pieces[k + 1 :]))


def _column(name: str, by: int) -> Mutation:
    def mutate(rng: random.Random, plan: Plan) -> Plan | None:
        values = getattr(plan, name).copy()
        values[rng.randrange(len(values))] += by
        return replace(plan, **{name: values})

    return mutate


def _other_axis(rng: random.Random, plan: Plan) -> Plan | None:
    k = rng.randrange(len(plan.pieces))
    entry = plan.pieces[k]
    name = next(n for n in ("rows", "columns", "channels", "depth") if n not in entry.axes)
    changed = Pieces(entry.op, (name, *entry.axes[1:]), entry.cuts)
    return replace(plan, pieces=(*plan.pieces[:k], changed, *plan.pieces[k + 1 :]))


MUTATIONS: dict[str, Mutation] = {
    "a cut moved": _cut(
        lambda rng, cuts: tuple(sorted({*cuts[1:], cuts[0] + rng.choice([-1, 1])}))
    ),
    "a cut more": _cut(lambda rng, cuts: tuple(sorted({*cuts, rng.randint(1, 12)}))),
    "a cut less": _cut(lambda rng, cuts: tuple(c for c in cuts if c != cuts[0])),
    "a cut beyond": _cut(lambda rng, cuts: (*cuts, 99)),
    "another axis": _other_axis,
    "an op whole": _without_one,
    "an op cut twice": lambda rng, plan: replace(plan, pieces=(*plan.pieces, plan.pieces[0])),
    "an unknown op": lambda rng, plan: replace(
        plan, pieces=(*plan.pieces, Pieces("conv99", ("rows",), ((1,),)))
    ),
    "a piece left out": _order(lambda rng, order: order.pop(rng.randrange(len(order)))),
    "pieces exchanged": _order(lambda rng, order: order.insert(0, order.pop())),
    "a band in another's place": _moved,
    "a band larger": _column("size", 1),
    "a band later": _column("lower", 1),
    "a band freed early": _column("upper", -1),
    "other work": lambda rng, plan: replace(plan, cost=plan.cost - 1),
    "other work at first": lambda rng, plan: replace(plan, base_cost=plan.base_cost + 1),
    "other bytes copied": lambda rng, plan: replace(plan, copied_bytes=plan.copied_bytes + 1),
    "no bytes copied": lambda rng, plan: replace(plan, copied_bytes=None),
    "a bound raised": lambda rng, plan: (
        replace(plan, lower_bound=plan.peak, status="optimal")
        if plan.status == "feasible"
        else None
    ),
    "a peak too low": lambda rng, plan: replace(plan, peak=plan.peak - 1),
}


@pytest.mark.parametrize("kind", MUTATIONS)
def test_mutated_plans_in_pieces_are_rejected(kind: str) -> None:
    rng = random.Random(kind)
    rejected = tried = 0
    if not PLANS:
        PLANS.extend(split_plan(random.Random(seed)) for seed in range(8))
    while rejected < examples(2):
        tried += 1
        assert tried < 500
        graph, plan = rng.choice(PLANS)
        mutated = MUTATIONS[kind](rng, plan)
        if mutated is None:
            continue
        with pytest.raises(VerificationError):
            cpplan.verify(graph, mutated)
        rejected += 1


def test_plans_in_pieces_are_simulated_on_the_original_graph() -> None:
    for seed in seeds(10):
        graph, plan = split_plan(random.Random(seed))
        cpplan.verify(graph, plan)
        done = cpplan.simulate(graph, plan)
        assert done.arena_bytes == plan.peak
        assert done.ops == len(plan.order)


def test_a_simulation_finds_a_band_destroyed() -> None:
    found = 0
    for seed in range(6):
        rng = random.Random(seed)
        graph, plan = split_plan(rng)
        mutated = _moved(rng, plan)
        if mutated is not None:
            with pytest.raises(VerificationError, match="are no longer those of"):
                cpplan.simulate(graph, mutated)
            found += 1
    assert found


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Pieces("conv0", ("depth",), ((1,),)), "pieces of op 'conv0': it has no axis 'depth'"),
        (Pieces("conv0", ("rows",), ((8,),)), r"'rows': \[8\] are not ascending positions within"),
        (Pieces("conv9", ("rows",), ((8,),)), "pieces of op 'conv9': the model has no such op"),
    ],
)
def test_a_wrong_cut_is_named(entry: Pieces, message: str) -> None:
    net = Network()
    net.conv(net.image(8, 4, 2), 4)
    with pytest.raises(VerificationError, match=message):
        describe_pieces(net.graph(), [entry])


def test_pieces_of_an_op_in_place_wait_for_their_bands_alone() -> None:
    net = Network()
    y = net.relu_over(net.conv(net.image(8, 4, 2), 4))
    net.ops[-1] = replace(net.ops[-1], after=("conv0",))
    net.conv(y, 2)
    graph = net.graph()
    cuts = [Pieces(name, ("rows",), ((4,),)) for name in ("conv0", "relu_1")]
    for found in (split_graph(graph, cuts).graph, describe_pieces(graph, cuts).graph):
        assert found.op["relu_1[0:4]"].after == ()
    assert cpplan.solve(graph, split=True, in_place=True, time_limit=5).pieces


def test_readers_of_a_view_wait_for_the_bands_written_before_it_was_made() -> None:
    net = Network()
    y = net.turn(net.relu_over(net.conv(net.image(8, 4, 2), 4)))
    net.conv(y, 2)
    net.ops[-1] = replace(net.ops[-1], after=("relu_1",))
    graph = net.graph()
    cuts = [Pieces("relu_1", ("rows",), ((4,),)), Pieces("conv3", ("columns",), ((4,),))]
    for found in (split_graph(graph, cuts).graph, describe_pieces(graph, cuts).graph):
        assert found.op["conv3[0:4]"].after == ()
    # An op that runs whole waits for all pieces.
    for found in (split_graph(graph, cuts[:1]).graph, describe_pieces(graph, cuts[:1]).graph):
        assert found.op["conv3"].after == ("relu_1[0:4]", "relu_1[4:8]")
