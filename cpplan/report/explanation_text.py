"""Why a plan is not smaller, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpplan.byte_sizes import format_bytes
from cpplan.printable import printable
from cpplan.report.tables import format_table

if TYPE_CHECKING:
    from cpplan.explanation.explained import Explanation, Relaxation

# Tensors listed unless all are asked for.
MOST = 10


def format_explanation(found: Explanation, most: int | None = MOST) -> str:
    """The fullest step with its tensors, the largest first, and what each rule costs.

    Examples
    --------
    >>> import cpplan
    >>> problem = cpplan.Problem(("a", "b"), [0, 0], [1, 2], size=[5, 8], alignment=[8, 8])
    >>> print(format_explanation(cpplan.solve(problem).explain(problem)))
    why not smaller  problem
    peak             13 B, optimal
    lower bound      13 B: live bytes, given order
    fullest step     0 of 2: 13 B filled, all of the peak
    <BLANKLINE>
    tensor  size  share  steps   offset  within
    b        8 B  61.5%  [0, 2)       0
    a        5 B  38.5%  [0, 1)       8
    <BLANKLINE>
    without    saves at most        needs at least  needs  instead
    alignment            0 B  0.0%            13 B   13 B  offsets of any byte
    <BLANKLINE>
    """
    rows = {
        "why not smaller": printable(found.name),
        "peak": f"{_exact(found.peak)}, {found.status}",
        "lower bound": _bound(found),
        "at this order": _order_bound(found),
        "fullest step": _step(found),
    }
    text = "".join(f"{key:<16} {value}\n" for key, value in rows.items() if value is not None)
    if found.fullest.tensors:
        text += f"\n{_tensors(found, most)}"
    if found.relaxations:
        text += f"\n{_relaxations(found.relaxations)}"
    return text


def _bound(found: Explanation) -> str:
    by = "" if found.bound_by is None else f": {printable(found.bound_by)}, {found.scope}"
    return f"{_exact(found.lower_bound)}{by}"


def _order_bound(found: Explanation) -> str | None:
    """Only where the plan's own bound is another one."""
    if found.order_bound is None or found.order_bound == found.lower_bound:
        forced = found.forced_by
        return None if forced is None else f"buffer {printable(forced)} alone makes the bound"
    by = "" if found.forced_by is None else f" of {printable(found.forced_by)}"
    return f"{_exact(found.order_bound)}: {found.order_bound_by}{by}"


def _step(found: Explanation) -> str:
    full = found.fullest
    if full.step is None:
        return "nothing is live"
    op = "" if full.op is None else f", op {printable(full.op)}"
    kind = "" if not full.kind else f" ({printable(full.kind)})"
    waste = ""
    if found.waste is not None:
        less = f"{format_bytes(found.waste)} less than the peak"
        waste = f", {less if found.waste else 'all of the peak'}"
    return f"{full.step} of {found.steps}{op}{kind}: {format_bytes(full.filled)} filled{waste}"


def _tensors(found: Explanation, most: int | None) -> str:
    tensors = found.fullest.tensors
    shown = tensors if most is None else tensors[:most]
    pools = len({tensor.pool for tensor in tensors}) > 1
    header = ["tensor", "size", "share", "steps", "offset", "within"]
    cells = [
        [
            printable(tensor.name),
            format_bytes(tensor.size),
            f"{tensor.share:.1%}",
            f"[{tensor.lower}, {tensor.upper})",
            "" if tensor.offset is None else str(tensor.offset),
            "" if tensor.within is None else printable(tensor.within),
            *([printable(tensor.pool)] if pools else []),
        ]
        for tensor in shown
    ]
    if pools:
        header.append("pool")
    text = format_table(header, cells, left=(0, 3, 5, 6))
    rest = tensors[len(shown) :]
    if rest:
        text += f"and {len(rest)} more, {format_bytes(sum(t.own for t in rest))}\n"
    return text


def _relaxations(relaxations: tuple[Relaxation, ...]) -> str:
    header = ("without", "saves at most", "", "needs at least", "needs", "instead")
    cells = [
        (
            r.rule,
            "" if r.at_most is None else format_bytes(r.at_most),
            "" if (share := r.share(r.at_most)) is None else f"{share:.1%}",
            format_bytes(r.bound),
            "" if r.peak is None else format_bytes(r.peak),
            r.instead,
        )
        for r in relaxations
    ]
    return format_table(header, cells, left=(0, 5))


def _exact(count: int | None) -> str:
    exact = "" if count is None or count < 10240 else f" ({count} B)"
    return f"{format_bytes(count)}{exact}"
