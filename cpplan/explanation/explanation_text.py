"""Explanations of a plan's peak, as text."""

from __future__ import annotations

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.explained import Explanation, LiveTensor, MovesExplanation, Relaxation
from cpplan.model.printable import printable
from cpplan.model.text_table import format_table

# Number of tensors listed by default.
MOST = 10
# Number of moved tensors listed.
_MOST_MOVED = 20
# Rules that are listed even if dropping them saves no bytes: that is worth knowing.
_ALWAYS = ("nothing", "objective", "order found", "cost limit", "memory limit", "pools")


def format_explanation(found: Explanation, most: int | None = MOST) -> str:
    """Text of an explanation: the fullest step with its tensors, and the cost of each rule."""
    rows = {
        "why not smaller": printable(found.name),
        "peak": _peak(found),
        "lower bound": _bound(found),
        "needed by": found.least_piece,
        "at this order": _order_bound(found),
        "fullest step": _step(found),
        "of these": _needed(found),
    }
    text = "".join(f"{key:<16} {value}\n" for key, value in rows.items() if value is not None)
    if found.fullest.tensors:
        text += f"\n{_tensors(found, most)}"
    if found.relaxations:
        text += f"\n{_relaxations(found)}"
    return text


def format_moves(found: MovesExplanation) -> str:
    """Text of an explanation of moves: bytes moved, and the tensors that move most."""
    bound = format_bytes(found.moved_bytes_bound)
    rows = {
        "moved": f"{format_bytes(found.moved_bytes)}, {found.status}",
        "bound": f"{bound}: {printable(str(found.bound_by))}",
        "fast pool": format_bytes(found.capacity),
        "1 KiB more": None
        if found.saved_by_kib is None
        else f"saves about {format_bytes(round(found.saved_by_kib))}",
        "reason": found.message and printable(found.message),
    }
    text = "".join(f"{key:<16} {value}\n" for key, value in rows.items() if value is not None)
    if not found.tensors:
        return text
    cells = [
        (
            printable(row.tensor),
            format_bytes(row.size),
            format_bytes(row.moved),
            f"{row.moved / (found.moved_bytes or 1):.1%}",
            ", ".join(f"{count} {kind}" for kind, count in row.kinds.items()),
        )
        for row in found.tensors[:_MOST_MOVED]
    ]
    table = format_table(("tensor", "size", "moved", "share", "moves"), cells, left=(0, 4))
    rest = len(found.tensors) - len(cells)
    return f"{text}\n{table}" + (f"and {rest} more\n" if rest > 0 else "")


def _peak(found: Explanation) -> str:
    limit = "" if found.capacity is None else f", limit {_exact(found.capacity)}"
    return f"{'none' if found.peak is None else _exact(found.peak)}, {found.status}{limit}"


def _bound(found: Explanation) -> str | None:
    """Text of the lower bound on total bytes; ``None`` if another objective was minimised."""
    if found.lower_bound is None:
        return None
    by = "" if found.bound_by is None else f": {printable(found.bound_by)}, {found.scope}"
    return f"{_exact(found.lower_bound)}{by}"


def _order_bound(found: Explanation) -> str | None:
    """Text of the bound at the plan's order, if it differs from the plan's own bound."""
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


def _needed(found: Explanation) -> str | None:
    """Bytes that the op itself needs, and bytes kept for later ops, which a schedule may free."""
    if found.needed is None or found.fullest.step is None:
        return None
    waits = found.fullest.filled - found.needed
    needs = f"{format_bytes(found.needed)} the op itself needs"
    return (
        f"{needs}, {format_bytes(waits)} are kept for later" if waits else f"{needs}: all of them"
    )


def _tensors(found: Explanation, most: int | None) -> str:
    """Table of the fullest step's tensors, without columns that are empty."""
    tensors = found.fullest.tensors
    shown = tensors if most is None else tensors[:most]
    columns: list[tuple[str, bool, list[str]]] = [
        ("tensor", True, [printable(tensor.name) for tensor in shown]),
        ("size", False, [format_bytes(tensor.size) for tensor in shown]),
        ("share", False, [f"{tensor.share:.1%}" for tensor in shown]),
        ("use", True, [_use(tensor) for tensor in shown]),
        ("steps", True, [f"[{tensor.lower}, {tensor.upper})" for tensor in shown]),
        ("offset", False, ["" if t.offset is None else str(t.offset) for t in shown]),
        ("within", True, ["" if t.within is None else printable(t.within) for t in shown]),
    ]
    if len({tensor.pool for tensor in tensors}) > 1:
        columns.append(("pool", True, [printable(tensor.pool) for tensor in shown]))
    columns = [column for column in columns if any(column[2])]
    text = format_table(
        [title for title, _, _ in columns],
        list(zip(*(cells for _, _, cells in columns), strict=True)),
        left=[k for k, (_, left, _) in enumerate(columns) if left],
    )
    rest = tensors[len(shown) :]
    if rest:
        text += f"and {len(rest)} more, {format_bytes(sum(t.own for t in rest))}\n"
    return text


def _use(tensor: LiveTensor) -> str:
    """Use of a tensor by the op of the step, or the later op that it is kept for."""
    if tensor.role == "waits":
        return "kept to the end" if tensor.until is None else f"kept for {printable(tensor.until)}"
    return {None: "", "body": "in a body"}.get(tensor.role, str(tensor.role))


def _relaxations(found: Explanation) -> str:
    """Table of the rules whose dropping may help, and a line for each other group of rules."""
    rules, limit = found.relaxations, found.capacity
    short = found.peak is None and limit is not None
    free = [r.rule for r in rules if r.at_most == 0 and r.rule not in _ALWAYS]
    alike = [r.rule for r in rules if _is_as_before(r) and r.rule not in (*_ALWAYS, *free)]
    vain = [r.rule for r in rules if short and limit is not None and r.bound > limit]
    rows = [r for r in rules if r.rule not in (*free, *alike, *vain)]
    text = ""
    if rows:
        saves = [] if found.peak is None else ["saves", ""]
        header = ["without", *saves, "then needs", "instead"]
        cells = [[r.rule, *(_saves(r) if saves else ()), _needs(r, limit), r.instead] for r in rows]
        left = [k for k, title in enumerate(header) if title]
        text = format_table(header, cells, left=left)
    for rest, what in (
        (free, "Dropping one of these rules saves nothing"),
        (alike, "Dropping one of these may save no more than a better plan"),
        (vain, "Dropping one of these rules is not enough"),
    ):
        if rest:
            text += f"{what}: {', '.join(rest)}\n"
    return text


def _is_as_before(rule: Relaxation) -> bool:
    """True if dropping the rule neither saves bytes in a plan found nor lowers the bound."""
    return bool(rule.before) and rule.bound == rule.proved and not rule.saved


def _saves(rule: Relaxation) -> tuple[str, str]:
    """Bytes saved, exact or as a range, and the largest saving as a share of the peak."""
    if rule.at_most is None:
        return "", ""
    share, most = f"{rule.share(rule.at_most) or 0:.1%}", format_bytes(rule.at_most)
    if rule.saved == rule.at_most or rule.at_most == 0:
        return most, share
    return f"{format_bytes(rule.saved)} to {most}" if rule.saved else f"at most {most}", share


def _needs(rule: Relaxation, capacity: int | None) -> str:
    """Bytes needed without the rule, exact or as a range; if no plan fits, also if they fit."""
    least, peak = format_bytes(rule.bound), rule.peak
    if peak is None or (rule.before is not None and peak >= rule.before and peak > rule.bound):
        text = f"at least {least}"
    else:
        text = least if peak == rule.bound else f"{least} to {format_bytes(peak)}"
    if rule.before is not None or capacity is None:
        return text
    return f"{text}: fits" if peak is not None and peak <= capacity else f"{text}: may fit"


def _exact(count: int | None) -> str:
    exact = "" if count is None or count < 10240 else f" ({count} B)"
    return f"{format_bytes(count)}{exact}"
