"""Explanations of a plan's peak: the tensors at its fullest step and the cost of each rule."""

from __future__ import annotations

from cpplan.explanation.explaining import explain
from cpplan.explanation.moved import explain_moves
from cpplan.model.explained import (
    Explanation,
    FullestStep,
    LiveTensor,
    MovedTensor,
    MovesExplanation,
    Relaxation,
)

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
