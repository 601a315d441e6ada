"""Answers of other planners stand beside ours, checked as far as they say where things lie."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cpplan.comparison.baselines import compare, compare_rows
from cpplan.model.answers import Answer
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.program.anf import to_anf
from cpplan.report.tables import format_comparison

# Live bytes 4, 12, 12, 4: b lies at one end, a and c share the other; 12 is the optimum.
THREE = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])


def row_of(answer: Answer, problem: Problem = THREE):
    rows = compare_rows(replace(problem, answers=(answer,)), algorithms=["bump"])
    return next(row for row in rows if row.algorithm == answer.name)


@pytest.mark.parametrize(
    ("answer", "size", "status"),
    [
        (Answer("theirs", 12, {"a": 0, "b": 4, "c": 0}), 12, "optimal"),
        (Answer("theirs", 16, {"a": 0, "b": 4, "c": 12}), 16, "feasible"),
        # More than the offsets need: padded at the end.
        (Answer("theirs", 64, {"a": 0, "b": 4, "c": 0}), 64, "feasible"),
        # b and c overlap at step 2.
        (Answer("theirs", 12, {"a": 0, "b": 4, "c": 8}), 12, "invalid"),
        # c ends at 16.
        (Answer("theirs", 12, {"a": 0, "b": 4, "c": 12}), 12, "invalid"),
        # Nothing to check.
        (Answer("theirs", 12), 12, "stated"),
        (Answer("theirs", 12, {"a": 0, "b": 4}), 12, "stated"),
        (Answer("theirs", 12, {"a": 0, "b": 4, "c": 0}, {"a": "sram"}), 12, "stated"),
    ],
)
def test_an_answer_is_checked_as_far_as_it_goes(answer, size, status):
    row = row_of(answer)
    assert (row.bytes, row.status, row.seconds) == (size, status, None)
    assert row.ratio == (None if status == "invalid" else size / 12)


def test_answers_are_sorted_among_the_rows_and_wrong_ones_come_last():
    answers = [
        Answer("wrong", 12, {"a": 0, "b": 0, "c": 0}),
        Answer("good", 14, {"a": 0, "b": 4, "c": 0}),
    ]
    table = compare(THREE, algorithms=["bump"], answers=answers)
    assert table["algorithm"].tolist() == ["cpplan", "good", "bump", "wrong"]
    text = format_comparison(compare_rows(THREE, algorithms=["bump"], answers=answers))
    assert [line.split()[0] for line in text.splitlines()[1:]] == table["algorithm"].tolist()


def test_an_answer_in_pools():
    pools = (Pool("sram", capacity=8), Pool("dram"))
    there = replace(THREE, pools=pools)
    inside = {"a": "dram", "b": "sram", "c": "dram"}
    assert row_of(Answer("theirs", 12, {"a": 0, "b": 0, "c": 0}, inside), there).bytes == 12
    # c, beside b, leaves the pool: 12 of 8 bytes.
    outside = {"a": "dram", "b": "sram", "c": "sram"}
    row = row_of(Answer("theirs", 16, {"a": 0, "b": 0, "c": 8}, outside), there)
    assert row.status == "does not fit"


def test_an_answer_above_the_capacity_does_not_fit():
    rows = compare_rows(THREE, algorithms=[], answers=[Answer("theirs", 20)], capacity=16)
    assert rows[-1].status == "does not fit"


def test_a_graph_carries_answers_and_is_the_same_graph():
    graph = Graph(
        "tiny",
        (Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")),
        (Op("relu", inputs=("x",), outputs=("y",)),),
    )
    with_answer = replace(graph, answers=(Answer("theirs", 16, {"x": 0, "y": 8}),))
    assert with_answer == graph
    rows = compare_rows(with_answer, algorithms=[])
    assert [(row.algorithm, row.bytes, row.status) for row in rows] == [
        ("cpplan", 16, "optimal"),
        ("theirs", 16, "optimal"),
    ]
    assert len(compare_rows(to_anf(with_answer), algorithms=[])) == 1


def test_a_part_of_a_problem_has_no_answers():
    whole = replace(THREE, answers=(Answer("theirs", 12),))
    assert whole.subset([0, 1]).answers == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "", "peak": 1},
        {"name": "a", "peak": -1},
        {"name": "a", "peak": 1.5},
        {"name": "a", "peak": 1, "offset": [0]},
        {"name": "a", "peak": 1, "offset": {"x": -4}},
        {"name": "a", "peak": 1, "pool": None},
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(fields):
    with pytest.raises(InputError):
        Answer(**fields)


def test_only_answers_are_answers():
    with pytest.raises(InputError, match="answers must be a sequence of Answer"):
        replace(THREE, answers=({"name": "theirs"},))
    with pytest.raises(InputError, match="not with remat"):
        compare(THREE, remat=True, answers=[Answer("theirs", 12)])
