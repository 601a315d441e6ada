"""Plans as text, tables and figures.

Figures need matplotlib (``pip install 'cpplan[plot]'``), which is loaded when one is drawn.
"""

from __future__ import annotations

from cpplan.report.arena_plot import plot_arena
from cpplan.report.arena_text import format_arena
from cpplan.report.live_bytes_plot import plot_live_bytes
from cpplan.report.pareto_plot import plot_pareto
from cpplan.report.progress_plot import plot_progress

__all__ = ["format_arena", "plot_arena", "plot_live_bytes", "plot_pareto", "plot_progress"]
