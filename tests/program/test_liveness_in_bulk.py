"""Problems of programs whose ops run once: all accesses at once give what the sweep gives."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.empty_tensors import with_empty
from support.orders_oracle import random_graph
from support.sharing_oracle import random_sharing_graph

from cpplan import Graph, Pool, Problem, Residency, to_anf
from cpplan.model.errors import InputError
from cpplan.program import liveness
from cpplan.program.anf import Program, runs_once

RESIDENCIES = [
    Residency(),
    Residency(inputs="keep", constants="keep"),
    Residency(inputs="outside", outputs="outside"),
    Residency(constants="keep", outputs="outside"),
]


@pytest.mark.parametrize("seed", seeds(30))
def test_bulk_and_sweep_agree(seed, monkeypatch):
    for graph in (
        random_sharing_graph(seed, 1 + seed % 9),
        with_empty(random_graph(seed, 2 + seed % 9), seed),
    ):
        program = to_anf(graph)
        assert runs_once(program)
        for residency in RESIDENCIES:
            bulk = liveness.to_problem(program, residency)
            with monkeypatch.context() as patched:
                patched.setattr(liveness, "runs_once", lambda program: False)
                swept = liveness.to_problem(program, residency)
            assert bulk.names == swept.names
            for column in ("lower", "upper", "size", "alignment", "reads", "writes"):
                assert np.array_equal(getattr(bulk, column), getattr(swept, column)), column


def in_some_pools(graph: Graph, seed: int) -> Graph:
    """The graph with names of pools at every second tensor or so."""
    rng = random.Random(seed)
    several = [None, None, None, ("a",), ("b", "a"), ("a", "b")]
    tensors = tuple(replace(tensor, pools=rng.choice(several)) for tensor in graph.tensors)
    return replace(graph, tensors=tensors)


def pooled(program: Program, residency: Residency) -> Problem | str:
    """The problem in three pools, or why there is none."""
    try:
        pools = Pool("a"), Pool("b"), Pool("c", kind="constant")
        return liveness.to_problem(program, residency, pools)
    except InputError as error:
        return str(error)


def test_bulk_and_sweep_agree_in_several_pools(monkeypatch):
    alike = 0
    for seed in range(40):
        graph = random_graph(seed, 2 + seed % 9) if seed % 2 else random_sharing_graph(seed, 4)
        program = to_anf(in_some_pools(graph, seed))
        for residency in RESIDENCIES:
            bulk = pooled(program, residency)
            with monkeypatch.context() as patched:
                patched.setattr(liveness, "runs_once", lambda program: False)
                swept = pooled(program, residency)
            if isinstance(bulk, str) or isinstance(swept, str):
                assert bulk == swept
                continue
            assert (bulk.names, bulk.pools) == (swept.names, swept.pools)
            assert dict(bulk.candidates) == dict(swept.candidates)
            alike += len(bulk.candidates) > 0
    assert alike > 20
