"""Distances at which two storages may share bytes: at a given order, or in some order."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.random_orders import every_order
from support.sharing_instances import concat, contested, setting, two_branches, unary
from support.sharing_oracle import may_lie, random_sharing_graph

from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.aliasing.distances import allowed_shifts, find_meetings, suggested_shifts
from cpplan.aliasing.value_numbers import Origins
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.residency import Residency
from formulations.joint_sharing import Meeting


def meetings_of(graph: Graph) -> tuple[list[str], dict[tuple[int, int], list[Meeting]]]:
    candidates = find_candidates(graph, Residency())
    names = [t.name for t in graph.tensors if t.view_of is None and t.kind != "constant"]
    size = [graph.tensor[name].nbytes for name in names]
    row = {name: k for k, name in enumerate(names)}
    return names, find_meetings(row, size, candidates, Origins(graph, candidates))


def test_parts_meet_their_concatenation_whatever_runs_when():
    """Tensors x, a, b, y."""
    _, meetings = meetings_of(two_branches())
    assert meetings == {(1, 3): [Meeting(0)], (2, 3): [Meeting(-4)]}


def test_two_readers_may_each_be_the_last():
    tensors = (Tensor("x", 4, kind="input"), *(Tensor(n, 4, kind="output") for n in "ab"))
    _, meetings = meetings_of(Graph("g", tensors, (unary("f", "x", "a"), unary("g", "x", "b"))))
    assert meetings == {(0, 1): [Meeting(0, op=0, old=0)], (0, 2): [Meeting(0, op=1, old=0)]}


@pytest.mark.parametrize("seed", seeds(30))
def test_meetings_agree_with_all_orders_byte_by_byte(seed):
    """A distance is listed if and only if in some order both are live together and survive there.

    The other way round, what is listed without an op survives in all of them.
    """
    graph = random_sharing_graph(seed, 1 + seed % 4)
    names, meetings = meetings_of(graph)
    size = [graph.tensor[name].nbytes for name in names]
    lives = {order: setting_at(graph, order) for order in every_order(graph)}
    for (i, j), found in meetings.items():
        for meeting in found:
            assert -size[j] < meeting.shift < size[i]
            if meeting.op is None:
                assert all(may_lie(graph, o, names[i], names[j], meeting.shift) for o in lives)
    for j in range(len(names)):
        for i in range(j):
            shifts = {meeting.shift for meeting in meetings.get((i, j), ())}
            for order in lives:
                if lives[order].apart(names[i], names[j]):
                    continue
                for shift in range(1 - size[j], size[i]):
                    if may_lie(graph, order, names[i], names[j], shift):
                        assert shift in shifts, (order, names[i], names[j], shift)


def setting_at(graph: Graph, order: tuple[int, ...]):
    """Lives when the ops run in another order."""
    listed = Graph(graph.name, graph.tensors, tuple(graph.ops[k] for k in order))
    return setting(listed).lives


def named(graph: Graph) -> dict[tuple[str, str], list[int]]:
    found = setting(graph)
    names = found.problem.names
    shifts = allowed_shifts(found.problem, found.candidates, found.rules)
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
    assert suggested_shifts(row, found.candidates, found.origins)[row["y"], row["z"]] == {-4, 0, 4}
    assert named(Graph("g", tensors, ops))["y", "z"] == [-4, 0, 4]


@pytest.mark.parametrize("seed", seeds(60))
def test_shifts_agree_with_every_distance_run_byte_by_byte(seed):
    """Listed distances harm neither tensor; any other overlap harms one of the two."""
    graph = random_sharing_graph(seed, 1 + seed % 6)
    found = setting(graph)
    names, size = found.problem.names, found.problem.size.tolist()
    allowed = allowed_shifts(found.problem, found.candidates, found.rules)
    for j in range(len(names)):
        for i in range(j):
            if found.lives.apart(names[i], names[j]):
                assert (i, j) not in allowed
                continue
            for shift in range(1 - size[j], size[i]):
                harmless = may_lie(graph, found.program.order, names[i], names[j], shift)
                assert (shift in allowed.get((i, j), ())) == harmless, (names[i], names[j], shift)
