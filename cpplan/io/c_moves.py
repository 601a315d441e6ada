"""Moves of a plan as C macros: what is copied between the pools before each op.

``PREFIX_BEFORE_F(sram, dram)`` copies what op ``f`` needs moved right before it runs, from one
array to the other; ``PREFIX_AFTER_LAST(sram, dram)`` what is left at the end. Both copy with
``PREFIX_COPY(to, from, bytes)``, which is ``memcpy`` unless it is defined before the header is
included: to start a DMA transfer and wait for it, say. A copy that ops run beside is begun by
``PREFIX_BEGIN(to, from, bytes)`` and waited for by ``PREFIX_WAIT(to)``: two buffers for what is
computed now and what is copied meanwhile. Undefined, they copy at once and wait for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.program.timeline import begun_copies
from cpplan.verification.lowering import Lowered


def move_lines(
    plan: Plan,
    graph: Graph,
    prefix: str,
    buffers: Mapping[str, str],
    name_of: Callable[[str], str],
    comment: Callable[[str], str],
) -> Iterator[str]:
    """Lines of the header for the moves of a plan.

    Parameters
    ----------
    plan, graph
        The plan and its model.
    prefix
        Of all macros' names.
    buffers
        Buffer -> first part of its macros' names.
    name_of
        Makes a new macro's name of some text.
    comment
        Makes text safe within a comment.
    """
    lowered = Lowered(graph, plan)
    graph, plan, _ = lowered.moving
    program = lowered.program
    steps = {move.name: move for move in plan.moves if move.is_step}
    begun = begun_copies(plan.order, steps)
    sides = {pool.name: f"pool{number}" for number, pool in enumerate(plan.pools)}
    side_of = {name: f"pool{int(k)}" for name, k in zip(plan.buffers, plan.pool, strict=True)}
    yield ""
    yield f"/* Moves between pools {', '.join(comment(name) for name in sides)}. The first argument"
    yield " * is the array of the first pool, the second that of the second. */"
    yield f"#ifndef {prefix}_COPY"
    yield "#include <string.h>"
    yield f"#define {prefix}_COPY(to, from, bytes) memcpy((to), (from), (bytes))"
    yield "#endif"
    if begun:
        yield f"#ifndef {prefix}_BEGIN"
        yield f"#define {prefix}_BEGIN(to, from, bytes) {prefix}_COPY((to), (from), (bytes))"
        yield f"#define {prefix}_WAIT(to) ((void)(to))"
        yield "#endif"
    pending: list[str] = []
    under_way: dict[str, str] = {}
    for op in program.ops:
        if op.name in graph.op:
            yield from _accesses(op, comment)
            yield from _macro(name_of(f"before {op.name}"), pending)
            pending = []
        elif steps[op.name].kind == "wait":
            pending.append(f"{prefix}_WAIT({under_way.pop(steps[op.name].tensor)});")
        else:
            source, target = op.inputs[0], op.outputs[0]
            to = f"({side_of[target]}) + {buffers[target]}_OFFSET"
            start = f"({side_of[source]}) + {buffers[source]}_OFFSET"
            verb = "BEGIN" if op.name in begun else "COPY"
            if verb == "BEGIN":
                under_way[steps[op.name].tensor] = to
            pending.append(f"{prefix}_{verb}({to}, {start}, {buffers[target]}_SIZE);")
    yield from _macro(name_of("after last"), pending)


def _accesses(op: Op, comment: Callable[[str], str]) -> Iterator[str]:
    """A comment with the buffers' copies that an op reads and writes."""
    reads, writes = (", ".join(map(comment, names)) for names in (op.inputs, op.outputs))
    yield f"/* {comment(op.name)}: {reads or 'nothing'} to {writes or 'nothing'} */"


def _macro(name: str, statements: list[str]) -> Iterator[str]:
    """A macro that runs statements, or nothing."""
    if not statements:
        yield f"#define {name}(pool0, pool1) ((void)0)"
        return
    yield f"#define {name}(pool0, pool1) do {{ \\"
    for statement in statements:
        yield f"    {statement} \\"
    yield "} while (0)"
