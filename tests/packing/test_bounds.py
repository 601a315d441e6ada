"""Lower bounds: never above the optimum, and tight where they should be."""

from __future__ import annotations

from hypothesis import given
from support.oracles import brute_force_peak, problems

from cpplan.model.problem import Gap, Problem
from cpplan.packing.bounds import Bound, live_bytes_bound, lower_bound


@given(problems(most=6))
def test_never_above_the_optimum(problem):
    assert lower_bound(problem).value <= brute_force_peak(problem)


@given(problems())
def test_at_least_the_plain_live_bytes(problem):
    assert live_bytes_bound(problem).value >= int(problem.live_bytes().max(initial=0))


def test_padding_for_alignment_counts_but_for_the_topmost():
    """Three of 100 B at multiples of 64: 128 + 128 + 100."""
    problem = Problem(("a", "b", "c"), [0] * 3, [1] * 3, [100] * 3, alignment=[64] * 3)
    assert lower_bound(problem) == Bound(356, "live bytes", 0)


def test_padding_holds_for_the_coarsely_aligned_alone():
    """a and b of 100 B aligned to 64 need 228; c's 10 B go into the padding between them."""
    problem = Problem(("a", "b", "c"), [0] * 3, [1] * 3, [100, 100, 10], alignment=[64, 64, 1])
    assert lower_bound(problem).value == 228


def test_a_window_counts_its_own_bytes():
    """At step 1, a keeps only 2 of its 8 bytes: 2 + 8 = 10, and at step 0 it is alone."""
    problem = Problem(("a", "b"), [0, 1], [2, 2], [8, 8], gaps={0: [Gap(1, 2, 0, 2)]})
    assert lower_bound(problem).value == 10


def test_a_fixed_buffer_bounds_by_its_end():
    problem = Problem(("a",), [0], [1], [4], fixed={0: 100})
    assert lower_bound(problem) == Bound(104, "fixed offset", None)


def test_a_buffer_that_is_all_gap_still_has_its_size():
    problem = Problem(("a",), [0], [1], [4], gaps={0: [Gap(0, 1)]})
    assert lower_bound(problem) == Bound(4, "largest buffer", None)


def test_empty_problem_has_bound_zero():
    assert lower_bound(Problem((), [], [], [])).value == 0
