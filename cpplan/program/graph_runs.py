"""Runs of all graphs in a program: the whole program, and each body at each of its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cpplan.program.anf import Program, to_anf
from cpplan.program.copy_names import op_copies


def instances(program: Program) -> Iterator[tuple[str, Program]]:
    """The program and each run of a body, with the prefix of its buffers' names (``liveness``).

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op
    >>> graph = Graph("g", (), (Op("call", bodies=(Graph("body", (), ()),)),))
    >>> [prefix for prefix, _ in instances(Program(graph, (0, 0)))]
    ['', 'call/0/', 'call~1/0/']
    """
    stack = [("", program)]
    while stack:
        prefix, inner = stack.pop()
        yield prefix, inner
        times: Counter[str] = Counter()
        names = op_copies(inner.graph)
        calls = []
        for op in inner.ops:
            call = names.copy(op.name, times[op.name])
            times[op.name] += 1
            calls += [
                (f"{prefix}{call}/{number}/", to_anf(body)) for number, body in enumerate(op.bodies)
            ]
        stack += reversed(calls)
