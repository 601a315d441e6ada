"""Plans in pieces for given or random cuts, without a search for them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import cpplan
from cpplan import Graph, Plan
from cpplan.model.pieces import Pieces
from cpplan.splitting.copies import count_copied_bytes
from cpplan.splitting.lines import find_lines
from cpplan.splitting.piece_graph import split_graph
from cpplan.verification.piece_bound import least_piece


def random_pieces(rng: random.Random, graph: Graph) -> list[Pieces]:
    """Cuts of some ops along one axis or two; of one op at least, if one can be cut."""
    lines = find_lines(graph)
    steps = {(op.name, a.name): lines.steps(op, a) for op in graph.ops for a in op.axes}
    there = {op.name: [a for a in op.axes if steps[op.name, a.name]] for op in graph.ops}
    found: list[Pieces] = []
    while any(there.values()) and not found:
        for name, axes in there.items():
            if not axes or rng.random() < 0.3:
                continue
            chosen = rng.sample(axes, min(len(axes), rng.choice([1, 1, 2])))
            places = [(w.tensor, w.axis) for axis in chosen for w in axis.windows]
            chosen = chosen if len(set(places)) == len(places) else chosen[:1]
            cuts = []
            for axis in chosen:
                apart = steps[name, axis.name] or 1
                count = rng.randint(1, min(3, axis.extent // apart - 1))
                cuts.append(tuple(sorted(rng.sample(range(apart, axis.extent, apart), count))))
            found.append(Pieces(name, tuple(axis.name for axis in chosen), tuple(cuts)))
    return found


def plan_in_pieces(graph: Graph, pieces: Sequence[Pieces]) -> Plan:
    """A plan with these cuts, and the bound that holds for every splitting."""
    found = split_graph(graph, pieces)
    options = {"time_limit": 0.2, "workers": 1, "deterministic": True}
    plan = cpplan.solve(found.graph, order="search", in_place=True, **options)
    places = {name: (0, int(at)) for name, at in zip(plan.buffers, plan.offset, strict=True)}
    copied = count_copied_bytes(found, cpplan.to_anf(found.graph, plan.order), places)
    bound = least_piece(graph, plan.residency, plan.sharing)
    return replace(
        plan,
        pieces=tuple(pieces),
        copied_bytes=copied,
        lower_bound=bound,
        bound_by="least piece",
        scope="every splitting",
        status="optimal" if bound == plan.peak else "feasible",
        certificate=None,
    )
