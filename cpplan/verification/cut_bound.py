"""The bounds "linear bound at cuts" and "live bytes at cuts", proved again from duals.

The rows that a certificate cites are derived from the graph (:mod:`cpplan.verification.cut_rows`),
multiplied by the duals and added up in integers. The sum, with the least value that the remaining
coefficients allow, is at most the cost of every schedule within the limit (weak duality). If it is
positive although all costs are zero, no schedule is within the limit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from cpplan.model.certificates import MOST_COLUMNS, MOST_PLACES, MOST_TERMS, CutDuals
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.residency import Residency
from cpplan.verification.access_trace import Access
from cpplan.verification.cut_rows import Column, CutRows
from cpplan.verification.footprint import bytes_in_bodies
from cpplan.verification.groups import Groups
from cpplan.verification.runs import Run


def least_cost(
    graph: Graph,
    residency: Residency,
    duals: CutDuals,
    limit: int,
    order: Sequence[str],
    accesses: Sequence[Access],
    runs: Sequence[Run],
) -> int | float:
    """Lower bound on the cost of every schedule within a limit on live bytes, from duals.

    Parameters
    ----------
    graph, residency
        The graph planned, and the boundary tensors that the arena holds.
    duals
        The certificate.
    limit
        Live bytes that no schedule exceeds.
    order
        Ops in the plan's order, for a certificate about schedules with first runs in this order.
    accesses, runs
        Accesses and runs of any program of the graph.

    Raises
    ------
    VerificationError
        If the certificate cites a row that does not exist, or too many terms.
    """
    _check_scale(duals)
    inside = bytes_in_bodies(graph, accesses, runs)
    groups = Groups(graph, residency, inside, order if duals.given_order else None)
    unit = Fraction(*duals.cost_unit)
    costs = [math.floor(cost / unit) for cost in groups.cost]
    total = _added_up(CutRows(groups, duals, limit), duals, costs)
    # Costs are rounded down to multiples of the unit, so their sum is one as well: round it up.
    more = -(-total >> duals.places)
    exact = sum((Fraction(op.cost) for op in graph.ops), max(0, more) * unit)
    if any(isinstance(op.cost, float) for op in graph.ops):
        return float(exact)  # rounded to the nearest float, like a plan's cost
    return math.ceil(exact)


def holds_no_schedule(
    graph: Graph,
    residency: Residency,
    duals: CutDuals,
    limit: int,
    order: Sequence[str],
    accesses: Sequence[Access],
    runs: Sequence[Run],
) -> bool:
    """True if duals prove that no schedule is within a limit on live bytes.

    It has the same parameters and errors as :func:`least_cost`.
    """
    _check_scale(duals)
    inside = bytes_in_bodies(graph, accesses, runs)
    groups = Groups(graph, residency, inside, order if duals.given_order else None)
    return _added_up(CutRows(groups, duals, limit), duals, [0] * len(groups)) > 0


def _check_scale(duals: CutDuals) -> None:
    """Raise unless the unit of costs is positive, and the binary places are a small number."""
    places = duals.places
    whole = all(type(number) is int and number > 0 for number in duals.cost_unit)
    if len(duals.cost_unit) != 2 or not whole:
        raise VerificationError(
            "cost_unit of the certificate must be two positive integers, "
            f"not {duals.cost_unit!r:.120}"
        )
    if type(places) is not int or not 0 <= places <= MOST_PLACES:
        raise VerificationError(
            f"places of the certificate must be from 0 to {MOST_PLACES}, not {places!r:.120}"
        )


def _added_up(rows: CutRows, duals: CutDuals, costs: Sequence[int]) -> int:
    """Least cost beyond one run of every group, in units of ``2**-places``."""
    if len({(rule, indices) for rule, indices, _ in duals.rows}) < len(duals.rows):
        raise VerificationError("the certificate has the same row twice")
    left: defaultdict[Column, int] = defaultdict(int)
    total, terms = 0, 0
    for cited in duals.rows:
        row, at_least = rows.row(cited)
        terms += len(row)
        if terms > MOST_TERMS or len(left) > MOST_COLUMNS:
            raise VerificationError(
                f"the certificate has more than {MOST_TERMS} terms or {MOST_COLUMNS} columns"
            )
        total += cited.multiplier * at_least
        for coefficient, column in row:
            left[column] -= cited.multiplier * coefficient
    for group, cost in enumerate(costs):
        # Subtract the first run: the sum below counts every cited run of the group.
        if not rows.fixed(group):
            total -= cost << duals.places
    for column, rest in left.items():
        least, most = rows.domain(column)
        if column.letter == "r":
            cost = costs[int(column.of)] << duals.places
            rest += cost
            total -= least * cost
        total += min(least * rest, most * rest)
    return total
