"""Names that are allowed, and odd names as they are shown in messages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpplan import Graph, Op, Plan, Pool, Problem, Program, Tensor, execute, simulate, verify
from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError
from cpplan.model.printable import printable
from cpplan.packing.bounds import Bound
from cpplan.packing.shortfall import explain_shortfall

LONE = "a\ud800"
NONE = np.zeros(0, np.int64)
EMPTY = Graph("g", (), ())
PLAN = Plan("p", "optimal", (), NONE, NONE, NONE, NONE)


@given(st.text(), st.integers(3, 40))
def test_what_is_printable_is_short_and_stays_on_its_line(text: str, most: int) -> None:
    shown = printable(text, most)
    assert shown.isprintable()
    assert shown == text or not text.isprintable() or len(text) > most
    assert len(shown) <= 10 * most


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tensor(LONE, 4),
        lambda: Op(LONE),
        lambda: Op("a", kind=LONE),
        lambda: Op("a", sequence=LONE),
        lambda: Graph(LONE, (), ()),
        lambda: Problem((LONE,), [0], [1], [4]),
        lambda: Problem((), [], [], [], name=LONE),
        lambda: Pool(LONE),
    ],
)
def test_names_are_unicode(make: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=r"Unicode text, but .*\\ud800' holds a lone surrogate"):
        make()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Program.parse(3), "expected the text of a program, not int"),
        (lambda: Program(3, ()), "a program is of a Graph, not int"),
        (lambda: Graph("g", 3, ()), "tensors must be a sequence of Tensor, not int"),
        (lambda: Graph("g", (), ("a",)), "ops must be a sequence of Op, but holds str"),
        (lambda: Graph(3, (), ()), "a graph's name must be a string, not 3"),
        (lambda: Op("a", inputs="xy"), "op 'a': inputs must be a sequence of str, not str"),
        (lambda: Op("a", after=(3,)), "op 'a': after must be a sequence of str, but holds int"),
        (lambda: Tensor("x", shape=3), "tensor 'x': shape must be a sequence, not int"),
        (lambda: Tensor("x", 4, view_of="y"), "tensor 'x': view_of must be .*, not 'y'"),
        (lambda: Problem((1,), [0], [1], [4]), "names must be a sequence of str, but holds int"),
        (lambda: Problem(("a",), [0], [1], [4], gaps={0: 3}), "'a': gaps must be a sequence of"),
        (lambda: verify(3, PLAN), "its Plan, not int and Plan"),
        (lambda: simulate(EMPTY, 3), "its Plan, not Graph and int"),
        (lambda: execute("m.onnx", 3), "expected a Plan of the model, not int"),
        (lambda: Plan.load(3), "expected a path, not int"),
        (lambda: PLAN.save(3), "expected a path to write to, not 3"),
        (lambda: Tensor("x", 10**5000), "size must be below .*, not an integer of 16610 bits"),
        (lambda: Pool("a", 10**5000), "capacity must be .*, not an integer of 16610 bits"),
        (lambda: parse_bytes(10**5000), "byte count must be below .* an integer of 16610 bits"),
        (lambda: parse_bytes(np.int64(-1)), "a byte count cannot be negative"),
        (lambda: parse_bytes(True), "True is not a byte count"),
    ],
)
def test_what_is_of_the_wrong_kind_is_named(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        make()
    assert str(caught.value).isprintable()


def test_numpy_integers_are_byte_counts() -> None:
    assert parse_bytes(np.int64(4096)) == 4096
    assert type(parse_bytes(np.uint8(4))) is int


def test_errors_are_one_short_line() -> None:
    assert len(str(InputError("x" * 10**6))) == 1000
    assert str(InputError("a\nb\x1b[0m")) == r"a\nb\x1b[0m"


def test_a_shortfall_shows_names_as_the_terminal_may_have_them() -> None:
    problem = Problem(("\x1b[2J", "n" * 1000), [0, 0], [1, 1], [4, 8])
    text = explain_shortfall(problem, Bound(12, "live bytes", 0), 12, 10)
    assert text.isprintable()
    assert len(text) < 300
