"""AliasSets as buffers: what they hold at each step, and where their members lie in them."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import seeds
from support.oracles import held
from support.sharing_instances import contested, relu_chain, setting, two_branches
from support.sharing_oracle import random_sharing_graph

from cpplan.aliasing.alias_sets import AliasSets, form_alias_sets
from cpplan.aliasing.merged import merge_alias_sets
from cpplan.model.problem import Gap, Problem


def merged_of(graph):
    found = setting(graph)
    alias_sets = form_alias_sets(found.candidates, found.rules)
    return found, alias_sets, merge_alias_sets(found.problem, alias_sets)


def test_a_chain_is_one_buffer_without_gaps():
    _, _, merged = merged_of(relu_chain(4, size=8))
    problem = merged.problem
    assert (problem.lower.tolist(), problem.upper.tolist(), problem.size.tolist()) == (
        [0],
        [4],
        [8],
    )
    assert not problem.gaps


def test_what_no_member_holds_is_a_gap():
    """a (bytes 0..4) from step 0, b (4..8) from step 1, all of y at step 2."""
    _, _, merged = merged_of(two_branches())
    problem = merged.problem
    assert problem.names == ("x", "y")
    assert problem.size.tolist() == [2, 8]
    # At step 1, a and b together hold all.
    assert problem.gaps == {1: [Gap(0, 1, 0, 4)]}
    assert merged.row.tolist() == [0, 1, 1, 1]
    assert merged.within.tolist() == [0, 0, 4, 0]
    assert merged.spread(np.array([8, 0])).tolist() == [8, 0, 4, 0]


def test_a_shared_byte_counts_once():
    """y and z share b: 12 bytes live, not 16, nor 28."""
    _, _, merged = merged_of(contested())
    assert merged.problem.size.tolist() == [12]
    assert int(merged.problem.live_bytes().max()) == 12


def test_without_clusters_nothing_changes():
    problem = setting(two_branches()).problem
    merged = merge_alias_sets(problem, AliasSets())
    assert merged.problem.names == problem.names
    assert merged.row.tolist() == [0, 1, 2, 3]


def test_alignments_are_all_kept():
    problem = Problem(
        ("a", "b"), lower=[0, 0], upper=[2, 3], size=[4, 4], alignment=[4, 6], reads=[1, 2]
    )
    alias_sets = AliasSets({0: ["a", "b"]}, {"a": 0, "b": 0}, {"a": 8, "b": 6}, [])
    merged = merge_alias_sets(problem, alias_sets).problem
    assert (merged.size.tolist(), merged.alignment.tolist()) == ([12], [12])
    assert merged.reads.tolist() == [3]
    # Below 6 nobody lies; a is gone at step 2.
    assert sorted(merged.gaps[0]) == [Gap(0, 2, 6, 12), Gap(2, 3, 6, 10)]


@pytest.mark.parametrize("seed", seeds(60))
def test_bytes_held_are_those_of_the_members(seed):
    """Step by step and byte by byte, from the members' own lives."""
    found, alias_sets, merged = merged_of(random_sharing_graph(seed, 2 + seed % 6))
    original, problem = found.problem, merged.problem
    for row in range(len(problem)):
        members = np.flatnonzero(merged.row == row).tolist()
        for step in range(int(problem.upper.max())):
            wanted = {
                int(merged.within[k]) + byte
                for k in members
                for piece in held(original, k, step)
                for byte in range(*piece)
            }
            pieces = held(problem, row, step)
            assert {byte for piece in pieces for byte in range(*piece)} == wanted
    assert len({name for m in alias_sets.members.values() for name in m}) == len(alias_sets.place)
