"""Plans as text, tables and figures.

Figures need matplotlib (``pip install '.[plot]'``), which is loaded when one is drawn. The
functions are loaded on first use: progress in a terminal needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpplan.report.arena_plot import plot_arena as plot_arena
    from cpplan.report.arena_text import format_arena as format_arena
    from cpplan.report.live_bytes_plot import plot_live_bytes as plot_live_bytes
    from cpplan.report.pareto_plot import plot_pareto as plot_pareto
    from cpplan.report.progress_plot import plot_progress as plot_progress

_HOME = {
    "format_arena": "arena_text",
    "plot_arena": "arena_plot",
    "plot_live_bytes": "live_bytes_plot",
    "plot_pareto": "pareto_plot",
    "plot_progress": "progress_plot",
}
__all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'cpplan.report' has no attribute {name!r}")
    value = getattr(import_module(f"cpplan.report.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
