"""The order in which regions are estimated: those that may lower the least peak come first."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from support.cases import seeds

from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline
from cpplan.splitting import frontier
from cpplan.splitting.frontier import Frontier, whole_peaks
from cpplan.splitting.least_peak import LeastPeak
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region
from cpplan.splitting.region_ends import find_valleys
from cpplan.splitting.styles import Style
from tests.benchmarks.time_limits import GRAPHS, with_axes
from tests.support.split_networks import Network
from tests.support.split_oracle import random_twins


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


@pytest.mark.parametrize("seed", seeds(12))
def test_ops_that_are_not_cut_need_what_a_region_of_one_op_needs(seed: int) -> None:
    graph = random_twins(random.Random(seed), 22).graph()
    for residency in (Residency(), Residency(inputs="keep"), Residency(inputs="outside")):
        for sharing in (frozenset(), frozenset({"in place"})):
            problem = SplitProblem(to_anf(graph), residency, sharing)
            alone = [Region(problem, k, k + 1) for k in range(len(problem.ops))]
            assert whole_peaks(problem) == [region.estimate(Style()).peak for region in alone]


def test_each_of_many_equal_layers_may_end_a_region() -> None:
    """Places with few live bytes follow one another; more places than may be chosen, not layers."""
    net = Network()
    x = net.image(8, 8, 2)
    for _ in range(30):
        x = net.relu(net.relu(net.add(x, net.relu(net.conv(x, 2)))))
    problem = SplitProblem(to_anf(net.graph()), Residency())
    valleys = range(3, 148, 5)
    assert all(problem.boundary[k : k + 3] == [128] * 3 for k in valleys)
    assert set(find_valleys(problem, 40)).issuperset(valleys)


def test_a_region_may_end_amid_many_live_bytes() -> None:
    """An op that is cut along its channels alone; before and after it as many bytes are live."""
    net = Network()
    x = net.conv(net.conv(net.image(16, 4, 1), 32), 32, depthwise=True)
    net.ops[-1] = replace(net.ops[-1], axes=net.ops[-1].axes[2:])
    x = net.conv(net.conv(x, 16), 8)
    for _ in range(90):
        x = net.conv(x, 1)
    problem = SplitProblem(to_anf(net.graph()), Residency())
    assert max(whole_peaks(problem)) == 2 * 32 * 64
    # The first two ops by channels: the input, a channel, and the result of the second one.
    least = Frontier(problem, Deadline(1, deterministic=True)).divisions()[-1].peak
    assert least < 1.2 * 32 * 64


def test_ops_far_from_the_peak_are_in_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    regions: list[tuple[int, int]] = []

    class Counted(Region):
        def __init__(self, problem: SplitProblem, start: int, stop: int):
            regions.append((start, stop))
            super().__init__(problem, start, stop)

    monkeypatch.setattr(frontier, "Region", Counted)
    problem = SplitProblem(to_anf(with_axes(GRAPHS["chain"](900))), Residency())
    found = Frontier(problem, Deadline(0.02, deterministic=True))
    assert len(regions) <= 10
    # Places between which nothing is cut are joined.
    assert len(found.divisions()[0].choices) < 300
