"""Explanation of a plan's bytes moved: the tensors that move, and the value of more memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.printable import printable
from cpplan.model.text_table import format_table
from cpplan.program.anf import Program, to_anf
from cpplan.spilling.solve import room_price
from cpplan.verification.moves import moving_graph

_KIB = 1024
_MOST = 20


@dataclass(frozen=True, slots=True)
class MovedTensor:
    """Bytes that the moves of one tensor carry, and the number of moves by kind."""

    tensor: str
    size: int
    moved: int
    kinds: dict[str, int]


@dataclass(frozen=True, slots=True)
class MovesExplanation:
    """Tensors by the bytes that they move, and the bytes that more room in the fast pool saves.

    Attributes
    ----------
    name, status
        Name and status of the plan.
    moved_bytes, moved_bytes_bound, bound_by
        The plan's bytes moved, their bound, and the bound's name.
    capacity
        Capacity of the fast pool, bytes.
    tensors
        The tensors that move, the one with the most bytes moved first.
    saved_by_kib
        Bytes moved that one more KiB of the fast pool saves in the linear relaxation at this order;
        ``None`` if it was not solved, or no model was given.
    message
        Reason why there is no plan.
    """

    name: str
    status: str
    moved_bytes: int | None
    moved_bytes_bound: int | None
    bound_by: str | None
    capacity: int | None
    tensors: tuple[MovedTensor, ...]
    saved_by_kib: float | None
    message: str | None = None

    def __str__(self) -> str:
        bound = format_bytes(self.moved_bytes_bound)
        rows = {
            "moved": f"{format_bytes(self.moved_bytes)}, {self.status}",
            "bound": f"{bound}: {printable(str(self.bound_by))}",
            "fast pool": format_bytes(self.capacity),
            "1 KiB more": None
            if self.saved_by_kib is None
            else f"saves about {format_bytes(round(self.saved_by_kib))}",
            "reason": self.message and printable(self.message),
        }
        text = "".join(f"{key:<16} {value}\n" for key, value in rows.items() if value is not None)
        if not self.tensors:
            return text
        cells = [
            (
                printable(row.tensor),
                format_bytes(row.size),
                format_bytes(row.moved),
                f"{row.moved / (self.moved_bytes or 1):.1%}",
                ", ".join(f"{count} {kind}" for kind, count in row.kinds.items()),
            )
            for row in self.tensors[:_MOST]
        ]
        table = format_table(("tensor", "size", "moved", "share", "moves"), cells, left=(0, 4))
        rest = len(self.tensors) - len(cells)
        return f"{text}\n{table}" + (f"and {rest} more\n" if rest > 0 else "")


def explain_moves(plan: Plan, source: Graph | Program | None = None) -> MovesExplanation:
    """The tensors that a plan moves, and the moved bytes that more room would save.

    Parameters
    ----------
    plan
        A plan in which tensors may move.
    source
        The model that was planned; without it, the value of more room is not computed.

    Raises
    ------
    InputError
        If it is not a plan in which tensors may move.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> from cpplan.model.small_graphs import kept_meanwhile
    >>> from cpplan.solving.pipeline import solve
    >>> graph = kept_meanwhile()
    >>> plan = solve(graph, pools=[Pool("fast", 16), Pool("slow")], spill=True)
    >>> found = explain_moves(plan, graph)
    >>> [(row.tensor, row.moved) for row in found.tensors], found.saved_by_kib
    ([('a', 16)], 2048.0)
    """
    if not plan.spills:
        raise InputError("only a plan in which tensors may move has bytes moved to explain")
    sizes: dict[str, int] = {}
    moved: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for move in plan.moves:
        sizes[move.tensor] = max(sizes.get(move.tensor, 0), move.size)
        moved[move.tensor] += move.size
        kinds[move.tensor][move.kind] += bool(move.size)
    tensors = tuple(
        MovedTensor(name, sizes[name], count, {k: n for k, n in sorted(kinds[name].items()) if n})
        for name, count in moved.most_common()
        if count
    )
    price = None
    if source is not None and plan.pools[0].capacity is not None:
        graph = source.graph if isinstance(source, Program) else source
        graph, moving, _ = moving_graph(graph, plan)
        steps = {move.name for move in plan.moves if move.is_step}
        program = to_anf(graph, [name for name in moving.order if name not in steps])
        pools = plan.pools[0], plan.pools[1]
        price = room_price(program, plan.residency, pools, share=bool(plan.sharing))
    return MovesExplanation(
        plan.name,
        plan.status,
        plan.moved_bytes,
        plan.moved_bytes_bound,
        plan.moved_bytes_bound_by,
        plan.pools[0].capacity,
        tensors,
        None if price is None else price * _KIB,
        plan.message,
    )
