"""The order in which regions are estimated: those that may lower the least peak come first."""

from __future__ import annotations

import math
import random

import pytest
from support.cases import seeds

from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.frontier import Frontier
from cpplan.splitting.least_peak import LeastPeak
from cpplan.splitting.problem import SplitProblem
from tests.support.split_networks import Network


def tailed_problem() -> SplitProblem:
    """Two large convolutions at the peak, then a tail of twelve small ones."""
    net = Network()
    x = net.image(12, 1, 1)
    x = net.conv(x, 16)
    x = net.conv(x, 2, stride=2)
    for _ in range(12):
        x = net.conv(x, 2)
    return SplitProblem(to_anf(net.graph()), Residency())


@pytest.mark.parametrize("seed", seeds(30))
def test_the_least_peak_is_the_least_over_all_paths_of_regions(seed: int) -> None:
    draw = random.Random(seed)
    steps = draw.randint(1, 6)
    whole = [draw.randint(1, 20) for _ in range(steps)]
    regions = {(k, k + 1): peak for k, peak in enumerate(whole)}
    found = LeastPeak(whole)
    for _ in range(8):
        start = draw.randrange(steps)
        stop, peak = draw.randint(start + 1, steps), draw.randint(1, 20)
        regions[start, stop] = min(peak, regions.get((start, stop), peak))
        found.add(start, stop, peak)

        def least(begin: int, known: dict[tuple[int, int], int] = regions) -> float:
            ways = (max(p, least(stop)) for (start, stop), p in known.items() if start == begin)
            return 0 if begin == steps else min(ways, default=math.inf)

        high = found.highest()
        assert high.peak == least(0) == regions[high.start, high.stop]


def test_regions_at_the_peak_are_estimated_before_those_of_a_long_tail() -> None:
    problem = tailed_problem()
    least = Frontier(problem, Deadline(0.3, deterministic=True)).divisions()[-1].peak
    # Each style of a region takes 0.002 counted seconds.
    brief = Frontier(problem, Deadline(0.02, deterministic=True)).divisions()[-1].peak
    assert brief == least < max(problem.boundary)
