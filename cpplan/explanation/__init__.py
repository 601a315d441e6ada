"""Why a plan is not smaller: what fills its fullest step, and what each of its rules costs."""

from __future__ import annotations

from cpplan.explanation.explained import Explanation, Relaxation
from cpplan.explanation.explaining import explain
from cpplan.explanation.fullest_step import FullestStep, LiveTensor

__all__ = ["Explanation", "FullestStep", "LiveTensor", "Relaxation", "explain"]
