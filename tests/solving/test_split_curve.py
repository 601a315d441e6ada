"""Curves of plans in pieces: fewer bytes at more cost, within the time of all of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.split_networks import Network

import cpplan
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.solving.request import Request
from cpplan.solving.split_curve import split_curve


def shrinking_chain() -> Graph:
    """Two convolutions with a wide tensor between them."""
    net = Network()
    x = net.image(8, 8, 2)
    for channels, stride in ((6, 1), (2, 2)):
        x = net.conv(x, channels, taps=3, stride=stride, padding=1)
    return net.graph("chain")


def curve(points: int) -> list[Plan]:
    options = {"time_limit": 0.3, "deterministic": True, "workers": 1}
    return split_curve(shrinking_chain(), Request(split=True, in_place=True, **options), points)


def test_a_curve_falls_from_the_plan_without_pieces() -> None:
    plans = curve(4)
    assert plans[0].pieces == ()
    assert 2 <= len(plans) <= 4
    for before, plan in pairwise(plans):
        assert plan.peak < before.peak
        assert plan.cost >= before.cost
        cpplan.verify(shrinking_chain(), plan)


def test_a_curve_of_two_points_has_the_fewest_bytes_last() -> None:
    first, last = curve(2)
    assert first.pieces == ()
    assert last.pieces
    assert last.peak < first.peak


def test_a_curve_needs_ops() -> None:
    bare = cpplan.Problem(("a",), [0], [1], [4])
    with pytest.raises(InputError, match="a bare problem has no ops to split"):
        split_curve(bare, Request(split=True, time_limit=1), 2)
