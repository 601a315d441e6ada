"""Table of the data's methods that call functions of rooms above this one.

Graphs, programs and plans are data; functions of rooms above read, write, bind and explain them.
The few methods that users call on the data itself are listed here, each with the name of its
function, which is imported at the first call. No other module names a room above its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

# Method -> "module:function" that does its work.
DOORS = {
    "Graph.at": "cpplan.program.binding:graph_at",
    "Plan.at": "cpplan.symbolic.at_values:at_values",
    "Plan.at(grow=True)": "cpplan.solving.growing:grown_at",
    "Plan.explain": "cpplan.explanation.explaining:explain",
    "Plan.explain(moves)": "cpplan.explanation.moved:explain_moves",
    "Plan.export": "cpplan.io.formats:export_plan",
    "Plan.load": "cpplan.io.plan_json:load_plan",
    "Plan.report": "cpplan.report.html.plan_report:write_plan_report",
    "Plan.save": "cpplan.io.plan_json:save_plan",
    "Program.__str__": "cpplan.program.text.printer:format_program",
    "Program.live_bytes": "cpplan.program.liveness:live_bytes",
    "Program.parse": "cpplan.program.text.parser:parse_program",
    "Program.used_memory": "cpplan.program.used_memory:find_used_memory",
    "SizesPlan.load": "cpplan.io.sizes_json:load_sizes",
    "SizesPlan.save": "cpplan.io.sizes_json:save_sizes",
}


@cache
def open_door(method: str) -> Callable[..., Any]:
    """The function that does the work of a method.

    Examples
    --------
    >>> open_door("Plan.save").__name__
    'save_plan'
    """
    return find_function(DOORS[method])


def find_function(place: str) -> Callable[..., Any]:
    """The function that ``"module:function"`` names, imported if necessary.

    Examples
    --------
    >>> find_function("math:sqrt")(4.0)
    2.0
    """
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
