"""Explanation of a plan's bytes moved: the tensors that move, and the value of more memory."""

from __future__ import annotations

from collections import Counter, defaultdict

from cpplan.model.errors import InputError
from cpplan.model.explained import MovedTensor, MovesExplanation
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.program.anf import Program, to_anf
from cpplan.spilling.solve import room_price
from cpplan.verification.lowering import lower

_KIB = 1024


def explain_moves(
    plan: Plan,
    source: Graph | Program | None = None,
    *,
    time_limit: float | None = None,
    workers: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
) -> MovesExplanation:
    """The tensors that a plan moves, and the moved bytes that more room would save.

    Parameters
    ----------
    plan
        A plan in which tensors may move.
    source
        The model that was planned; without it, the value of more room is not computed.
    time_limit, workers, seed, deterministic
        As in :func:`~cpplan.explanation.explaining.explain`; here nothing is searched.

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
        graph, moving, _ = lower(source, plan).moving
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
