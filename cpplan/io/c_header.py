"""Writer of a plan as a C header: the arenas as arrays, and the offset of every tensor.

For C11 and C++11. Offsets are macros, so that unused ones cost nothing. Assertions at compile time
check that each is aligned and ends within its arena, which also finds a header edited by hand.

A macro's name is the tensor's in capitals, with an underscore for each character that C does not
allow in a name; if two tensors get the same name, later ones have a number appended. The comment
beside it has the original name, with escapes for characters that C could misread.

Moves between the pools are macros too. ``PREFIX_BEFORE_F(sram, dram)`` copies what op ``f`` needs
moved right before it runs, from one array to the other; ``PREFIX_AFTER_LAST(sram, dram)`` what is
left at the end. Both copy with ``PREFIX_COPY(to, from, bytes)``, which is ``memcpy`` unless it is
defined before the header is included: to start a DMA transfer and wait for it, say. A copy that ops
run beside is begun by ``PREFIX_BEGIN(to, from, bytes)`` and waited for by ``PREFIX_WAIT(to)``: two
buffers for what is computed now and what is copied meanwhile. Undefined, they copy at once and wait
for nothing.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.program.timeline import begun_copies
from cpplan.runtime.atomic import write_text
from cpplan.verification.lowering import Lowered

if TYPE_CHECKING:
    from cpplan.model.problem import Problem
    from cpplan.program.anf import Program


# A comment must hold no */ (nor /*, which compilers warn of), no trigraph and no line splice.
_PLAIN = frozenset(string.ascii_letters + string.digits + " !#$%&'()+,-./:;<=>@[]^_`{|}~")
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LONGEST = 100


def write_c_header(
    plan: Plan,
    path: str | PathLike[str],
    source: Graph | Program | Problem | None = None,
    *,
    prefix: str | None = None,
    alignment: int = 64,
) -> None:
    """Write a plan as a C header, whole or not at all; see :func:`format_c_header`."""
    write_text(path, format_c_header(plan, source, prefix=prefix, alignment=alignment))


def format_c_header(
    plan: Plan,
    source: Graph | Program | Problem | None = None,
    *,
    prefix: str | None = None,
    alignment: int = 64,
) -> str:
    """The plan as a C header: arrays for the pools, and macros for where each buffer lies.

    ``PREFIX_ARENA_ARRAY(name)`` declares pool ``arena``, ``PREFIX_X_OFFSET`` and
    ``PREFIX_X_SIZE`` are of tensor ``x``. Where tensors move between pools, macros copy what each
    op needs moved before it runs.

    Parameters
    ----------
    source
        What was planned. The header then asserts each buffer's own alignment, which a plan
        alone does not know, beside its pool's.
    prefix
        First part of all macros' names; from the plan's name if left out.
    alignment
        Of the arrays, bytes, a power of two; that of a pool or of a buffer in it if larger.

    Raises
    ------
    InputError
        If the plan has no offsets or its sizes depend on variables, the prefix is no C identifier
        that begins with a letter, an alignment is no power of two, or tensors move and no graph is
        given.
    """
    if plan.symbols is not None:
        raise InputError(
            "a C header needs numbers, and sizes of this plan depend on variables: plan the model "
            "with extents of its dimensions"
        )
    if plan.offset is None:
        raise InputError(f"there is no plan to write as a C header: {plan.message or plan.status}")
    needed = _alignments(plan, source)
    for value in (alignment, *(pool.alignment for pool in plan.pools), *needed):
        number = isinstance(value, int) and not isinstance(value, bool)
        if not number or value < 1 or value & (value - 1):
            raise InputError(f"an array's alignment in C must be a power of two, not {value!r}")
    if prefix is None:
        prefix = _Names("").of(plan.name).lstrip("_")
        prefix = prefix if prefix[:1].isalpha() else f"PLAN_{prefix}".rstrip("_")
    elif not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        raise InputError(f"prefix {prefix!r} must be a C identifier that begins with a letter")
    return "\n".join(_lines(plan, prefix, alignment, needed, source)) + "\n"


def _graph_of(source: Graph | Program | Problem | None) -> Graph:
    """The graph that was planned; raises if there is none."""
    from cpplan.model.graph import Graph
    from cpplan.program.anf import Program

    graph = source.graph if isinstance(source, Program) else source
    if not isinstance(graph, Graph):
        raise InputError("a C header of moves or pieces needs the graph that was planned")
    return graph


def _alignments(plan: Plan, source: Graph | Program | Problem | None) -> list[int]:
    """Alignment of each buffer; without a source, only that of its pool."""
    own: dict[str, int] = {}
    if source is not None:
        from cpplan.packing.problem import as_problem

        if plan.spills or plan.pieces:
            from cpplan.verification.lowering import Lowered

            source = Lowered(_graph_of(source), plan).graph
        problem = as_problem(source, plan.residency, plan.pools)
        own = dict(zip(problem.names, problem.alignment.tolist(), strict=True))
    pools = [plan.pools[k].alignment for k in plan.pool]
    # Copies of a tensor that is computed again are named y~1, y~2 and so on.
    known = (own.get(name, own.get(name.rpartition("~")[0], 1)) for name in plan.buffers)
    return [math.lcm(pool, mine) for pool, mine in zip(pools, known, strict=True)]


class _Names:
    """C names for any names, each used once."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.used: set[str] = set()
        self.count: dict[str, int] = {}

    def of(self, name: str) -> str:
        stem = self.prefix + re.sub(r"[^A-Za-z0-9_]", "_", name)[:_LONGEST].upper()
        number = self.count.get(stem, 0)
        found = stem
        while not number or found in self.used:
            number += 1
            found = f"{stem}_{number}" if number > 1 else stem
        self.count[stem] = number
        self.used.add(found)
        return found


def _lines(
    plan: Plan,
    prefix: str,
    alignment: int,
    needed: Sequence[int],
    source: Graph | Program | Problem | None,
) -> Iterator[str]:
    names = _Names(f"{prefix}_")
    arenas = [names.of(pool.name) for pool in plan.pools]
    buffers = [names.of(name) for name in plan.buffers]
    # A tensor that is computed again bears the name of its first buffer: each copy is listed.
    views = [name for name in plan.views if name not in plan.row]
    views_named = {name: names.of(name) for name in views}
    yield f"/* Memory plan of {_comment(plan.name)}, {plan.status}. Made by cpplan. */"
    yield f"#ifndef {prefix}_PLAN_H"
    yield f"#define {prefix}_PLAN_H"
    yield ""
    yield from _portable(prefix)
    assert plan.offset is not None
    peaks = plan.pool_peaks
    assert peaks is not None
    for k, (pool, arena) in enumerate(zip(plan.pools, arenas, strict=True)):
        size, rows = peaks[pool.name], np.flatnonzero(plan.pool == k).tolist()
        aligned = max([alignment, pool.alignment, *(needed[row] for row in rows)])
        yield ""
        yield f"/* Pool {_comment(pool.name)}; declare it as: static {arena}_ARRAY(memory); */"
        yield f"#define {arena}_SIZE {size}u"
        yield f"#define {arena}_ALIGNMENT {aligned}u"
        if pool.base:
            yield f"#define {arena}_BASE {pool.base}u"
        # C has no array without elements.
        length = f"{arena}_SIZE" if size else "1"
        yield f"#define {arena}_ARRAY(name) {prefix}_ALIGNED(name, {arena}_ALIGNMENT, {length})"
        for row in rows:
            yield from _buffer(plan, row, buffers[row], arena, needed[row], prefix)
        for name in views:
            base, _ = plan.views[name]
            if base in plan.row and plan.pool[plan.row[base]] == k:
                macro = views_named[name]
                note = f"{_comment(name)}: within {_comment(base)}"
                yield f"#define {macro}_OFFSET {plan.offset_of(name)}u /* {note} */"
                yield _asserted(
                    prefix, f"{macro}_OFFSET <= {arena}_SIZE", macro, "leaves its arena"
                )
    if plan.spills:
        macros = dict(zip(plan.buffers, buffers, strict=True))
        yield from move_lines(plan, _graph_of(source), prefix, macros, names.of, _comment)
    yield ""
    yield f"#endif /* {prefix}_PLAN_H */"


def _portable(prefix: str) -> Iterator[str]:
    """Lines of the header for constructs that C and C++ write in different ways."""
    yield "#ifdef __cplusplus"
    yield f"#define {prefix}_ALIGNED(name, bytes, size) unsigned char name alignas(bytes)[size]"
    yield f"#define {prefix}_ASSERT(condition, message) static_assert(condition, message)"
    yield "#else"
    yield f"#define {prefix}_ALIGNED(name, bytes, size) unsigned char _Alignas(bytes) name[size]"
    yield f"#define {prefix}_ASSERT(condition, message) _Static_assert(condition, message)"
    yield "#endif"


def _buffer(
    plan: Plan, row: int, macro: str, arena: str, alignment: int, prefix: str
) -> Iterator[str]:
    assert plan.offset is not None
    name = plan.buffers[row]
    roles = [role for role in ("input", "output") if name in getattr(plan, f"{role}s")]
    steps = f"steps {plan.lower[row]} to {plan.upper[row] - 1}"
    note = ", ".join([f"{_comment(name)}: {steps}", *roles])
    yield f"#define {macro}_OFFSET {plan.offset[row]}u /* {note} */"
    yield f"#define {macro}_SIZE {plan.size[row]}u"
    aligned = f"{macro}_OFFSET % {alignment}u == 0"
    yield _asserted(prefix, aligned, macro, "is not aligned")
    within = f"{macro}_OFFSET + {macro}_SIZE <= {arena}_SIZE"
    yield _asserted(prefix, within, macro, "leaves its arena")


def _asserted(prefix: str, condition: str, macro: str, complaint: str) -> str:
    return f'{prefix}_ASSERT({condition}, "{macro} {complaint}");'


def _comment(name: str) -> str:
    escaped = (c if c in _PLAIN else f"\\u{{{ord(c):x}}}" for c in name)
    return "".join(escaped)


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
