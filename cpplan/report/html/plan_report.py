"""Report of a plan as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from cpplan.report.html.page_text import fill_page
from cpplan.report.html.plan_data import plan_data
from cpplan.runtime.atomic import write_text

if TYPE_CHECKING:
    from cpplan.model.graph import Graph
    from cpplan.model.plan import Plan
    from cpplan.model.problem import Problem
    from cpplan.program.anf import Program

STYLES = ("base.css", "plan.css", "print.css")
SCRIPTS = (
    "text.js",
    "elements.js",
    "colours.js",
    "redraw.js",
    "spans.js",
    "sharing.js",
    "relations.js",
    "model.js",
    "view.js",
    "axes.js",
    "arena_map.js",
    "live_chart.js",
    "gestures.js",
    "line_chart.js",
    "table.js",
    "card.js",
    "selection.js",
    "search.js",
    "tensors.js",
    "cascades.js",
    "orders.js",
    "lists.js",
    "summary.js",
    "history.js",
    "downloads.js",
    "plan_files.js",
    "plan.js",
)


def write_plan_report(
    plan: Plan,
    path: str | PathLike[str],
    source: Graph | Program | Problem | None = None,
    *,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write the report of a plan, whole or not at all; see :func:`plan_report`."""
    write_text(path, plan_report(plan, source, notes=notes))


def plan_report(
    plan: Plan,
    source: Graph | Program | Problem | None = None,
    *,
    notes: Mapping[str, str] | None = None,
) -> str:
    """The report of a plan as self-contained HTML, which makes no network request.

    It shows a map of the arena over the steps, the live bytes, the tensors live at each step,
    chains of buffers that rest on one another, cascades of ops in pieces, the order before and
    after planning, and the history of the search.

    Parameters
    ----------
    plan
        A plan with or without offsets. Without offsets, the report gives the reason.
    source
        The model planned. With it, the report also shows the model's own order, and marks
        workspaces and constants.
    notes
        Further facts about the plan: name -> text.

    Raises
    ------
    InputError
        If the plan is for another model.
    """
    facts = dict(notes or {})
    if plan.spills and source is not None and plan.offset is not None:
        plan, source = _with_moves_as_ops(plan, source, facts)
    if plan.pieces:
        facts["pieces"] = f"{len(plan.pieces)} ops run in pieces, {len(plan.order)} steps"
    return fill_page(
        "plan.html",
        title=f"{plan.name}: memory plan",
        data={**plan_data(plan, source), "notes": facts},
        styles=STYLES,
        scripts=SCRIPTS,
    )


def _with_moves_as_ops(
    plan: Plan, source: Graph | Program | Problem, notes: dict[str, str]
) -> tuple[Plan, Graph]:
    """The plan and the graph with moves as ops; adds the bytes moved to the notes."""
    from dataclasses import replace

    from cpplan.model.byte_sizes import format_bytes
    from cpplan.model.errors import InputError
    from cpplan.model.graph import Graph
    from cpplan.program.anf import Program
    from cpplan.verification.lowering import Lowered

    graph = source.graph if isinstance(source, Program) else source
    if not isinstance(graph, Graph):
        raise InputError("the plan has moves, so its report needs the graph that was planned")
    notes["moved"] = (
        f"{format_bytes(plan.moved_bytes)} between {plan.pools[0].name} and {plan.pools[1].name}"
    )
    if plan.moved_bytes_bound is not None:
        least, by = format_bytes(plan.moved_bytes_bound), plan.moved_bytes_bound_by
        notes["moved"] += f", at least {least} ({by})"
    if plan.time is not None and plan.time_bound is not None:
        least, by = f"{plan.time_bound:.10g}", plan.time_bound_by
        notes["time"] = f"{plan.time:.10g} cycles, at least {least} ({by})"
    for move in plan.moves:
        if move.size:
            notes[f"{move.kind} of {move.tensor} ({move.name})"] = (
                f"{move.source} \N{RIGHTWARDS ARROW} {move.target}, {format_bytes(move.size)}"
            )
    lowered = Lowered(graph, plan)
    return replace(lowered.plan, base_cost=plan.base_cost), lowered.graph
