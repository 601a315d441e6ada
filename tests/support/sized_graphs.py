"""Graphs of two tensors whose bytes grow with ``n``, and their plans for several sizes."""

from __future__ import annotations

import cpplan
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.symbols import Symbols
from cpplan.solving.sizes.sizes_plan import SizesPlan

ONE, ELEVEN = {"n": 1}, {"n": 11}


def graph_of(a: str, b: str, **dims) -> Graph:
    """Two tensors that are live together, bytes as given."""
    tensors = (
        Tensor("a", shape=(a,), dtype="int8", kind="input"),
        Tensor("b", shape=(b,), dtype="int8", kind="output"),
    )
    return Graph("pair", tensors, (Op("f", inputs=("a",), outputs=("b",)),), Symbols(dims))


def growing() -> Graph:
    """Two tensors: a has 100 B at ``ONE`` and 1100 B at ``ELEVEN``, b 10 and 20 B."""
    return graph_of("100*n", "n + 9", n=(1, None))


def plan(graph, sizes, **options) -> SizesPlan:
    """Plan for several sizes at once, without a clock."""
    return cpplan.plan_sizes(graph, sizes, deterministic=True, **options)
