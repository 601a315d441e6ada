"""``unroll``: the same buffers, from a graph in which every op runs once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import random_program
from random_graphs import programs

from cpplan import Graph, Op, Program, Tensor, to_anf
from cpplan.errors import InputError
from cpplan.graph import Placement
from cpplan.liveness import to_problem
from cpplan.problem import Problem
from cpplan.residency import Residency
from cpplan.unrolled import unroll

RESIDENCIES = [
    Residency(),
    Residency(inputs="keep", constants="keep"),
    Residency(inputs="outside", outputs="outside"),
]


def rows(problem: Problem) -> dict[str, tuple[int, ...]]:
    """Every column of every buffer, but for how often it is written."""
    names = ("lower", "upper", "size", "alignment", "reads")
    columns = (getattr(problem, name).tolist() for name in names)
    return {name: row for name, *row in zip(problem.names, *columns, strict=True)}


def binary(name: str, inputs: str, output: str) -> Op:
    pairs = tuple((output, source) for source in inputs)
    return Op(name, "binary", tuple(inputs), (output,), in_place=pairs)


@given(programs(), st.sampled_from(RESIDENCIES))
@settings(max_examples=300, deadline=None)
def test_the_buffers_are_those_of_the_program(program, residency):
    unrolled = unroll(program)
    wanted = to_problem(program, residency)
    found = to_problem(unrolled, residency)
    assert rows(found) == rows(wanted)
    assert unrolled.starts == program.starts
    assert len({op.name for op in unrolled.graph.ops}) == len(program.order)
