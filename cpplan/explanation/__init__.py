"""Explanations of a plan's peak: the tensors at its fullest step and the cost of each rule."""

from __future__ import annotations

from cpplan.explanation.explained import Explanation, Relaxation
from cpplan.explanation.explaining import explain
from cpplan.explanation.fullest_step import FullestStep, LiveTensor
from cpplan.explanation.moved import MovedTensor, MovesExplanation, explain_moves

__all__ = [
    "Explanation",
    "FullestStep",
    "LiveTensor",
    "MovedTensor",
    "MovesExplanation",
    "Relaxation",
    "explain",
    "explain_moves",
]
