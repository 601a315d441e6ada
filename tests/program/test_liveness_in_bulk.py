"""Problems of programs whose ops run once: all accesses at once give what the sweep gives."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import seeds
from support.empty_tensors import with_empty
from support.orders_oracle import random_graph
from support.sharing_oracle import random_sharing_graph

from cpplan import Residency, to_anf
from cpplan.program import liveness
from cpplan.program.anf import runs_once

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
