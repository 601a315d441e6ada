"""Generated packing problems for tests and comparisons, a different one for every seed.

Problems cut from one rectangle, whose optimum is known; buffers with random lifespans, up to a
million; and the repeating pattern of a training step.
"""

from __future__ import annotations

from cpplan.zoo.packing.arrivals import random_lifespans, training_layers
from cpplan.zoo.packing.cuts import Planted, near_perfect_packing, perfect_packing

__all__ = [
    "Planted",
    "near_perfect_packing",
    "perfect_packing",
    "random_lifespans",
    "training_layers",
]
