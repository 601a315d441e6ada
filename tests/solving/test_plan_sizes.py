"""Graphs planned for several sizes at once, by hand, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.sized_graphs import ELEVEN, ONE, graph_of, growing, plan

import cpplan
from cpplan.io.sizes_json import sizes_from_dict, sizes_to_dict
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.problem import Problem
from cpplan.model.symbols import Symbols


def test_fastest_growing_tensor_lies_on_top():
    """With b below, n = 1 needs 20 + 100; with a below, 1100 + 10."""
    found = plan(growing(), [ONE, ELEVEN], prefix_stable=True)
    assert found.status == "optimal"
    assert [size.arena for size in found.sizes] == [120, 1120]
    assert [size.lower_bound for size in found.sizes] == [120, 1120]
    assert [size.alone for size in found.sizes] == [110, 1120]
    assert found.sizes[0].price == 120 / 110
    assert [level.name for level in found.levels] == [
        "largest arena", "arena at n=11", "arena at n=1",
    ]  # fmt: skip
    assert found.plan.peak == 1120
    assert found.plan.offset_of("a") == 20


def test_table_and_text_list_every_size():
    found = plan(growing(), [ONE, ELEVEN], prefix_stable=True)
    frame = found.to_frame()
    assert frame["n"].tolist() == [1, 11]
    assert frame["arena"].tolist() == [120, 1120]
    assert frame["price"].tolist() == [120 / 110, 1.0]
    assert frame["capacity"].isna().all()
    lines = str(found).splitlines()
    assert lines[1] == "status       optimal"
    assert lines[-2].split() == ["n=1", "120", "120", "B", "120", "110", "1.091", "optimal"]


def test_unlisted_sizes_hold_where_no_buffer_is_larger():
    found = plan(growing(), [ONE, ELEVEN], prefix_stable=True)
    between = found.plan.at(n=5)
    assert (between.offset("a"), between.shape("a"), between.peak) == (20, (500,), 520)
    with pytest.raises(InputError, match="'n' is 12, above its bound 11"):
        found.plan.at(n=12)


def test_a_size_in_between_may_be_larger_in_one_buffer():
    """b falls as a grows: at 6 both have 6 bytes, at 3 and at 9 one of them has 3.

    Either below needs room for 9: 9 + 3 and 9 + 9.
    """
    graph = graph_of("n", "12 - n", n=(0, 12))
    found = plan(graph, [{"n": 3}, {"n": 9}])
    assert sorted(size.arena for size in found.sizes) == [12, 18]
    with pytest.raises(InputError, match=r"n = 6 is not within any.*'a' has 6 B, and 3 B at n = 3"):
        found.plan.at(n=6)
    grown = found.plan.at(n=6, grow=True)
    assert (grown.grown, grown.peak) == (True, 12)


def test_largest_values_need_not_come_together():
    """x has n * m bytes: 8 at both sizes, 64 at the largest values, which are not planned."""
    graph = graph_of("n*m", "n", n=(1, None), m=(1, None))
    found = plan(graph, [{"n": 1, "m": 8}, {"n": 8, "m": 1}], prefix_stable=True)
    assert [size.arena for size in found.sizes] == [9, 16]
    with pytest.raises(InputError, match="n = 8, m = 8 is not within any of the sizes planned"):
        found.plan.at(n=8, m=8)
    assert found.plan.at(n=2, m=4).peak == 10


def test_empty_tensors_leave_their_room_at_that_size():
    """One of a and b is empty at either size: both lie at 0."""
    graph = graph_of("7*n", "5*(1 - n)", n=(0, 1))
    found = plan(graph, [{"n": 0}, {"n": 1}])
    assert [size.arena for size in found.sizes] == [5, 7]
    assert found.plan.offset.tolist() == [0, 0]
    cpplan.verify(graph, found.plan)


def test_the_worst_price_may_come_first():
    """a: 6, 7; b: 1, 8, at a multiple of 8. Above a, b ends at 9, 16; below it, a at 14, 15."""
    graph = graph_of("n + 5", "7*n - 6", n=(1, 2))
    graph = replace(graph, tensors=(graph.tensors[0], replace(graph.tensors[1], alignment=8)))
    sizes = {"n": 1}, {"n": 2}
    largest = plan(graph, sizes, prefix_stable=True)
    assert [size.arena for size in largest.sizes] == [14, 15]
    ratio = plan(graph, sizes, objective="ratio", prefix_stable=True)
    assert [size.arena for size in ratio.sizes] == [9, 16]
    assert ratio.levels[0] == ("worst price", 1286, 1286)


def two_chains() -> Graph:
    """Given order: both wide tensors at once, 16 n bytes; one after the other, 8 n + 1."""
    wide = [Tensor(f"wide{k}", shape=("8*n",), dtype="int8") for k in range(2)]
    slim = [Tensor(f"slim{k}", 1, kind="output") for k in range(2)]
    spread = [Op(f"spread{k}", outputs=(f"wide{k}",)) for k in range(2)]
    reduce = [Op(f"reduce{k}", inputs=(f"wide{k}",), outputs=(f"slim{k}",)) for k in range(2)]
    dims = Symbols({"n": (1, None)})
    return Graph("chains", (*wide, *slim), (*spread, *reduce), dims)


def test_orders_are_searched_at_the_largest_size():
    """Two wide tensors need 8 * 4 * 2 bytes and 1; in the other order 8 * 4 and 2."""
    graph, sizes = two_chains(), [{"n": 1}, {"n": 4}]
    given = plan(graph, sizes)
    assert given.plan.order == ("spread0", "spread1", "reduce0", "reduce1")
    assert given.sizes[1].arena == 65
    found = plan(graph, sizes, order="search")
    assert found.sizes[1].arena == 34
    assert found.plan.order in [
        ("spread0", "reduce0", "spread1", "reduce1"), ("spread1", "reduce1", "spread0", "reduce0"),
    ]  # fmt: skip
    cpplan.verify(graph, found.plan)


def chain(least: int = 1) -> Graph:
    """x, y, z of 8 n bytes, each written over the last; w is a row of 4 beside y."""
    kinds = {"x": "input", "y": "intermediate", "z": "output"}
    tensors = [Tensor(k, shape=("8*n",), dtype="int8", kind=kind) for k, kind in kinds.items()]
    ops = (
        Op("f", inputs=("x",), outputs=("y", "w"), in_place=(("y", "x"),)),
        Op("g", inputs=("y", "w"), outputs=("z",), in_place=(("z", "y"),)),
    )
    return Graph("chain", (*tensors, Tensor("w", 4)), ops, Symbols({"n": (least, 8)}))


def test_in_place_chain_is_one_buffer():
    """x, y and z at one address, above w: 8 n + 4; two of them at once without in_place."""
    graph, sizes = chain(), [{"n": 1}, {"n": 4}]
    apart = plan(graph, sizes, prefix_stable=True)
    assert [size.alone for size in apart.sizes] == [20, 68]
    assert apart.plan.relations == ()
    found = plan(graph, sizes, in_place=True, prefix_stable=True)
    assert found.status == "optimal"
    assert [(size.arena, size.alone) for size in found.sizes] == [(12, 12), (36, 36)]
    assert {(r.tensor, r.other) for r in found.plan.relations} == {("y", "x"), ("z", "y")}
    cpplan.verify(graph, found.plan)
    for n in (1, 2, 4):
        assert cpplan.simulate(graph, found.plan, dims={"n": n}).arena_bytes == 8 * n + 4
    assert sizes_from_dict(sizes_to_dict(found)) == found
    none = plan(graph, sizes, in_place=True, capacities=[None, 35])
    assert "n=4 does not fit into 35 B: 1 B are missing" in none.plan.message
    assert none.plan.lower_bound is None


def test_in_place_tensors_may_be_empty():
    """At n = 0 only w has bytes: there is nothing to share."""
    graph = chain(least=0)
    found = plan(graph, [{"n": 0}, {"n": 4}], in_place=True)
    assert (found.sizes[1].arena, found.sizes[0].alone) == (36, 4)
    cpplan.verify(graph, cpplan.solve(graph, in_place=True), dims={"n": 0})


def test_the_largest_arena_may_be_where_what_is_in_place_is_empty():
    """y over x, of m bytes; w has 12 - 2 m beside them: 12 bytes at m = 0, and 11 at 1."""
    tensors = (
        Tensor("x", shape=("m",), dtype="int8", kind="input"),
        Tensor("y", shape=("m",), dtype="int8", kind="output"),
        Tensor("w", shape=("12 - 2*m",), dtype="int8", kind="output"),
    )
    ops = (
        Op("f", inputs=("x",), outputs=("y",), in_place=(("y", "x"),)),
        Op("g", outputs=("w",)),
    )
    graph = Graph("falling", tensors, ops, Symbols({"m": (0, 6)}))
    found = plan(graph, [{"m": 0}, {"m": 1}], in_place=True, prefix_stable=True)
    assert [(r.tensor, r.other) for r in found.plan.relations] == [("y", "x")]
    assert (found.plan.peak, found.sizes[0].arena) == (12, 12)
    cpplan.verify(graph, found.plan)
    assert cpplan.simulate(graph, found.plan).arena_bytes == 12


def test_a_program_keeps_its_order():
    graph = two_chains()
    order = ("spread1", "reduce1", "spread0", "reduce0")
    found = plan(cpplan.to_anf(graph, order), [{"n": 4}])
    assert (found.plan.order, found.sizes[0].arena) == (order, 34)


def test_capacities_are_kept_or_named():
    """119 bytes at n = 1 are one too few for any layout, 109 too few for the size alone."""
    graph, sizes = growing(), [ONE, ELEVEN]
    fits = plan(graph, sizes, capacities=["120 B", None])
    assert (fits.sizes[0].arena, fits.sizes[0].capacity) == (120, 120)
    none = plan(graph, sizes, capacities=[119, None])
    assert (none.status, none.plan.offset, none.sizes[0].arena) == ("infeasible", None, None)
    assert none.plan.message == "no layout is within all capacities: at some size 1 B are missing"
    alone = plan(graph, sizes, capacities=[109, None])
    assert "n=1 does not fit into 109 B: 1 B are missing" in alone.plan.message
    assert none.to_frame()["arena"].isna().all()
    with pytest.raises(InputError, match="no plan to bind"):
        none.plan.at(n=1)


def test_checks_without_values_take_all_sizes():
    """At n = 1, a at 15 would not meet b of 10 bytes; at 11 it does."""
    graph = growing()
    found = plan(graph, [ONE, ELEVEN], prefix_stable=True).plan
    cpplan.verify(graph, found)
    assert cpplan.simulate(graph, found).arena_bytes == 1120
    low = replace(found, offset=np.array([15, 0]), peak=1115)
    cpplan.verify(graph, low, dims=ONE)
    with pytest.raises(VerificationError, match="overlap"):
        cpplan.verify(graph, low)
    with pytest.raises(VerificationError, match="claims a peak"):
        cpplan.verify(graph, replace(found, peak=1121))


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ([], {}, "sizes must be a list"),
        ({"n": 1}, {}, "sizes must be a list"),
        ([3], {}, "size 0: expected values"),
        ([ONE, {}], {}, "size 1: dimension 'n' has no value"),
        ([{"n": 1, "m": 2}], {}, "size 0: there is no dimension 'm'"),
        ([{"n": 0}], {}, "size 0: dimension 'n' is 0, below its lower bound 1"),
        ([{"n": 1.5}], {}, "size 0: dimension 'n' must be an integer"),
        ([ONE, ONE], {}, "two sizes have the label 'n=1'"),
        ([ONE], {"order": "best"}, "order='best'"),
        ([ONE], {"objective": "mean"}, "objective='mean'"),
        ([ONE], {"capacities": [1, 2]}, "2 capacities for 1 sizes"),
        ([ONE], {"capacities": ["many"]}, "'many' is not a byte count"),
        ([ONE], {"inputs": "lost"}, "inputs='lost'"),
        ([ONE], {"seed": -1}, "seed"),
        ([ONE], {"in_place": 1}, "in_place must be true or false"),
    ],
)
def test_bad_input_is_named(sizes, options, message):
    with pytest.raises(InputError, match=message):
        plan(growing(), sizes, **options)


def test_values_above_their_bound_are_refused():
    with pytest.raises(InputError, match="'n' is 9, above its upper bound 8"):
        plan(graph_of("n", "n", n=(1, 8)), [{"n": 9}])


def test_graphs_without_variables_are_refused():
    fixed = Graph("fixed", (Tensor("x", 4, kind="input"),), ())
    with pytest.raises(InputError, match="'fixed' has no symbolic dimensions"):
        plan(fixed, [ONE])
    with pytest.raises(InputError, match="a bare problem"):
        plan(Problem(("a",), lower=[0], upper=[1], size=[1]), [ONE])


def test_a_variable_of_one_value_may_be_left_out():
    found = plan(graph_of("n*m", "n", n=(1, None), m=4), [{"n": 2}])
    assert found.sizes[0].values == {"n": 2, "m": 4}
    assert found.sizes[0].arena == 10


def test_progress_says_the_largest_arena():
    events = []
    plan(growing(), [ONE, ELEVEN], progress=events.append, capacities=[None, 2000])
    assert (events[-1].peak, events[-1].lower_bound) == (1120, 1120)
    events.clear()
    plan(growing(), [ONE, ELEVEN], progress=events.append, objective="ratio")
    assert {event.peak for event in events} == {None}
