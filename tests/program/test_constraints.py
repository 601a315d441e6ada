"""``with_first_last``: the orders that are left, against all orders there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_graphs import graphs
from support.random_orders import every_order

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.program.anf import Program, to_anf
from cpplan.program.constraints import with_first_last


def orders(graph: Graph) -> set[tuple[str, ...]]:
    """Every order of the graph, by name."""
    return {tuple(graph.ops[k].name for k in order) for order in every_order(graph)}


@given(graphs(), st.data())
def test_exactly_the_orders_that_begin_and_end_so_are_left(graph, data):
    order = data.draw(st.sampled_from(sorted(orders(graph))))
    cut = data.draw(st.integers(0, len(order)))
    stop = data.draw(st.integers(cut, len(order)))
    first, last = order[:cut], order[stop:]
    kept = {o for o in orders(graph) if o[:cut] == first and o[stop:] == last}
    ordered = with_first_last(graph, first, last)
    assert orders(ordered) == kept
    assert order in kept
    # Nothing but the listing of the ops and their control edges changes.
    assert ordered.tensors == graph.tensors
    assert {(op.name, op.sequence) for op in ordered.ops} == {
        (op.name, op.sequence) for op in graph.ops
    }


@given(graphs(), st.data())
def test_the_rest_keeps_its_given_order(graph, data):
    given_order = to_anf(graph)
    if given_order.order != tuple(range(len(graph.ops))):
        return
    names = given_order.names
    order = data.draw(st.sampled_from(sorted(orders(graph))))
    cut = data.draw(st.integers(0, len(order)))
    first = order[:cut]
    rest = tuple(name for name in names if name not in first)
    assert to_anf(with_first_last(graph, first)).names == first + rest


def test_nothing_asked_is_nothing_done():
    graph = Graph("g", (), (Op("a"), Op("b")))
    assert with_first_last(graph) is graph


def test_everything_may_be_first_and_last():
    graph = Graph("g", (), (Op("a"), Op("b"), Op("c")))
    assert orders(with_first_last(graph, ["c", "a"], ["b"])) == {("c", "a", "b")}


def test_edges_are_added_only_where_they_say_something():
    # a -> t -> b -> u -> c, with d first and e last: only a needs to wait, only c to be waited for.
    graph = Graph(
        "g",
        (Tensor("t", 4), Tensor("u", 4)),
        (
            Op("a", outputs=("t",)),
            Op("b", inputs=("t",), outputs=("u",)),
            Op("c", inputs=("u",)),
            Op("d"),
            Op("e"),
        ),
    )
    ordered = with_first_last(graph, ["d"], ["e"])
    assert {op.name: op.after for op in ordered.ops} == {
        "d": (),
        "a": ("d",),
        "b": (),
        "c": (),
        "e": ("c",),
    }


def test_tens_of_thousands_of_ops_keep_few_edges():
    count = 20_000
    graph = Graph("g", (), tuple(Op(f"op{k}") for k in range(count)))
    ordered = with_first_last(graph, ["op7"], ["op3"])
    assert sum(len(op.after) for op in ordered.ops) == 2 * (count - 2)
    assert Program(ordered, tuple(range(count))).names[0] == "op7"


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (["z"], [], "first names unknown op 'z'"),
        ([], ["z"], "last names unknown op 'z'"),
        (["a", "a"], [], "first names op 'a' twice"),
        ("ab", [], "first must be a list of op names, not the string 'ab'"),
        (["a", "b"], ["d", "b"], "op 'b' is both in first and in last"),
        (["b"], [], "op 'b' waits for 'a', whose result it reads, but 'a' is not in first"),
        (["b", "a"], [], "op 'b' waits for 'a', whose result it reads, but 'a' comes later in fi"),
        (["c"], [], "op 'c' waits for 'b', which must run before it, but 'b' is not in first"),
        (["d"], ["a"], "op 'd' waits for 'a', which comes before it in sequence 's', but 'a' is "),
        ([], ["a"], "op 'b' waits for 'a', whose result it reads, but 'a' is in last"),
        (
            [],
            ["d", "c", "b"],
            "op 'c' waits for 'b', which must run before it, but 'b' comes later",
        ),
    ],
)
def test_contradictions_name_both_ops(first, last, message):
    graph = Graph(
        "g",
        (Tensor("t", 4),),
        (
            Op("a", outputs=("t",), sequence="s"),
            Op("b", inputs=("t",)),
            Op("c", after=("b",)),
            Op("d", sequence="s"),
        ),
    )
    with pytest.raises(InputError) as caught:
        with_first_last(graph, first, last)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
