"""Moves of a plan as C macros: what is copied between the pools before each op.

``PREFIX_BEFORE_F(sram, dram)`` copies what op ``f`` needs moved right before it runs, from one
array to the other; ``PREFIX_AFTER_LAST(sram, dram)`` what is left at the end. Both copy with
``PREFIX_COPY(to, from, bytes)``, which is ``memcpy`` unless it is defined before the header is
included: to start a DMA transfer and wait for it, say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.verification.moves import moved_program


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
    program = moved_program(graph, plan).program
    sides = {pool.name: f"pool{number}" for number, pool in enumerate(plan.pools)}
    side_of = {name: f"pool{int(k)}" for name, k in zip(plan.buffers, plan.pool, strict=True)}
    yield ""
    yield f"/* Moves between pools {', '.join(comment(name) for name in sides)}. The first argument"
    yield " * is the array of the first pool, the second that of the second. */"
    yield f"#ifndef {prefix}_COPY"
    yield "#include <string.h>"
    yield f"#define {prefix}_COPY(to, from, bytes) memcpy((to), (from), (bytes))"
    yield "#endif"
    pending: list[str] = []
    for op in program.ops:
        if op.name in graph.op:
            yield from _accesses(op, comment)
            yield from _macro(name_of(f"before {op.name}"), pending)
            pending = []
        else:
            source, target = op.inputs[0], op.outputs[0]
            to = f"({side_of[target]}) + {buffers[target]}_OFFSET"
            start = f"({side_of[source]}) + {buffers[source]}_OFFSET"
            pending.append(f"{prefix}_COPY({to}, {start}, {buffers[target]}_SIZE);")
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
