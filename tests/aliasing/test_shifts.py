"""The distances at which two storages may share bytes at a given order."""

from __future__ import annotations

import pytest
from support.sharing_instances import concat, contested, setting, two_branches, unary
from support.sharing_oracle import may_lie, random_sharing_graph

from cpplan.aliasing.shifts import allowed_shifts, suggested_shifts
from cpplan.model.graph import Graph, Op, Tensor


def named(graph: Graph) -> dict[tuple[str, str], list[int]]:
    found = setting(graph)
    names = found.problem.names
    shifts = allowed_shifts(found.problem, found.links, found.rules)
    return {(names[i], names[j]): distances for (i, j), distances in shifts.items()}


def test_parts_of_a_concatenation():
    assert named(two_branches()) == {("a", "y"): [0], ("b", "y"): [-4]}


def test_copies_of_one_part_may_meet_though_no_op_links_them():
    """y ends with b and z begins with it."""
    assert named(contested())["y", "z"] == [4]


def test_a_part_that_comes_twice_has_two_distances():
    tensors = (Tensor("x", 4, kind="input"), Tensor("y", 8, kind="output"))
    graph = Graph("g", tensors, (concat("cat", ["x", "x"], "y", [0, 4]),))
    assert named(graph) == {("x", "y"): [-4, 0]}


def test_what_may_not_be_written_over_has_none():
    """g reads x later."""
    tensors = (Tensor("x", 4, kind="input"), Tensor("t", 4), Tensor("y", 4, kind="output"))
    graph = Graph("g", tensors, (unary("f", "x", "t"), Op("g", "", ("x", "t"), ("y",))))
    assert named(graph) == {}


def test_suggestions_hold_every_distance_of_a_common_origin():
    """z = x x and y = x x: y may lie over z at -4, 0 and 4, by content alone."""
    tensors = (Tensor("x", 4, kind="input"), *(Tensor(n, 8, kind="output") for n in "yz"))
    ops = tuple(concat(f"to {n}", ["x", "x"], n, [0, 4]) for n in "yz")
    found = setting(Graph("g", tensors, ops))
    row = {name: k for k, name in enumerate(found.problem.names)}
    assert suggested_shifts(row, found.links, found.origins)[row["y"], row["z"]] == {-4, 0, 4}
    assert named(Graph("g", tensors, ops))["y", "z"] == [-4, 0, 4]


@pytest.mark.parametrize("seed", range(150))
def test_agrees_with_every_distance_run_byte_by_byte(seed):
    """What is listed is harmless; what is not listed and shares bytes harms one of the two."""
    graph = random_sharing_graph(seed, 1 + seed % 6)
    found = setting(graph)
    names, size = found.problem.names, found.problem.size.tolist()
    allowed = allowed_shifts(found.problem, found.links, found.rules)
    for j in range(len(names)):
        for i in range(j):
            if found.lives.apart(names[i], names[j]):
                assert (i, j) not in allowed
                continue
            for shift in range(1 - size[j], size[i]):
                harmless = may_lie(graph, found.program.order, names[i], names[j], shift)
                assert (shift in allowed.get((i, j), ())) == harmless, (names[i], names[j], shift)
