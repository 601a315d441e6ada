"""Reports of a plan, a batch of plans, or a curve, as one HTML file that needs no network.

Python prepares data (:mod:`plan_data`, :mod:`batch_data`) and puts it, with the scripts and styles
of the folder ``page``, into one file (:mod:`page_text`); everything seen is drawn by those scripts.
"""

from __future__ import annotations

from cpplan.report.html.batch_report import batch_report
from cpplan.report.html.curve_report import curve_report, moves_report
from cpplan.report.html.plan_report import plan_report

__all__ = ["batch_report", "curve_report", "moves_report", "plan_report"]
