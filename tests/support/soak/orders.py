"""Orders: a graph at its given order, and at the best of all orders."""

from __future__ import annotations

import random

from cpplan import simulate, solve, verify

from .boxes import least_height
from .case import Case, python_of
from .made import random_graph
from .packing import arguments, false_peak
from .runs import live_boxes, orders, without_empty


def order(rng: random.Random) -> Case:
    """A graph packed at one order, or at the best."""
    graph = random_graph(rng, rng.randint(0, 6))
    options = {"order": rng.choice(["given", "search", "search"]), "deterministic": True}
    options["time_limit"] = 3.0
    lines = (f"graph = {python_of(graph)}", f"plan = solve(graph, {arguments(options)})")

    def false() -> list[str]:
        plan = solve(graph, **options)
        verify(graph, plan)
        simulate(graph, plan)
        given = tuple(range(len(graph.ops)))
        allowed = [given] if options["order"] == "given" else list(orders(graph))
        number = {op.name: k for k, op in enumerate(graph.ops)}
        chosen = tuple(number[name] for name in plan.order)
        wrong = [] if chosen in allowed else [f"assert plan.order != {plan.order}  # no order"]
        least: int | None = None
        full = without_empty(graph)
        for one in allowed:
            found = least_height(live_boxes(full, one), None if least is None else least - 1)
            least = least if found is None else found
        return wrong + false_peak(plan, least)

    return Case(lines, false)
