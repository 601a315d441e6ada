"""The ops of a plan in order, as the text that :meth:`cpplan.Program.parse` reads."""

from __future__ import annotations

from os import PathLike

from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.program.anf import Program
from cpplan.runtime.atomic import write_text
from cpplan.verification.lowering import planned_program


def write_program(plan: Plan, path: str | PathLike[str], source: object) -> None:
    """Write the ops of a graph in a plan's order, whole or not at all."""
    graph = source.graph if isinstance(source, Program) else source
    with located(path):
        if not isinstance(graph, Graph):
            found = "nothing" if source is None else f"a {type(source).__name__}"
            raise InputError(f"a program needs the graph that was planned, not {found}")
        text = str(planned_program(graph, plan))
    write_text(path, text)
