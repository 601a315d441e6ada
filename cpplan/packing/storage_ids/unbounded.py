"""Storages of buffers without a size bound, shared only if their sizes are provably equal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.storage_ids.assignment import StorageAssignment, make_assignment
from cpplan.packing.storage_ids.checker import check_assignment
from cpplan.program.anf import Program

if TYPE_CHECKING:
    from cpplan.model.shapes import Dim, Range

Assign = Callable[[Problem, Sequence[str] | None], StorageAssignment]


def assign_apart(
    source: Program | Problem,
    problem: Problem,
    keys: Sequence[str] | None,
    assign: Assign,
    alone: Collection[str] = (),
) -> StorageAssignment:
    """Assignment by ``assign`` of buffers with a size bound; others get separate storages.

    Buffers without a size bound share only with provably equal ones, and those in ``alone`` with
    none. The proved bound is on the bytes of the bounded storages.
    """
    sizes = _unbounded_sizes(source, problem)
    if not sizes or isinstance(source, Problem) or source.graph.symbols is None:
        return assign(problem, keys)
    rows = np.array([row for row in range(len(problem)) if row not in sizes], np.int64)
    found = assign(problem.subset(rows), None if keys is None else [keys[row] for row in rows])
    storage = np.zeros(len(problem), np.int64)
    storage[rows] = found.storage
    free = np.array(list(sizes), np.int64)
    groups = {
        problem.names[row]: (keys[row] if keys else "") + (f"/{problem.names[row]}" * lonely)
        for row in sizes
        for lonely in [problem.names[row] in alone]
    }
    storage[free] = len(found) + _share(
        problem, free, list(sizes.values()), groups, source.graph.symbols.dims
    )
    together = make_assignment(
        problem,
        storage,
        keys,
        lower_bound=found.lower_bound,
        found_by=found.found_by,
        bound_by=found.bound_by,
        runtime=found.runtime,
    )
    check_assignment(problem, together, keys)
    expressions = dict(zip(together.storage[free].tolist(), sizes.values(), strict=True))
    return replace(together, expressions=dict(sorted(expressions.items())))


def _unbounded_sizes(source: Program | Problem, problem: Problem) -> dict[int, int | Dim]:
    """Row -> size of each buffer without a size bound, with bounded variables at their bounds."""
    if isinstance(source, Problem) or source.graph.symbols is None:
        return {}
    from cpplan.model.shapes.substitution import at_most
    from cpplan.symbolic.layout import buffer_tensors

    of = buffer_tensors(source, problem.names)
    return {
        row: at_most(symbols.size(tensor), symbols.dims)
        for row, (tensor, symbols) in enumerate(of[name] for name in problem.names)
        if symbols.unbounded(tensor)
    }


def _share(
    problem: Problem,
    rows: Ints,
    sizes: Sequence[int | Dim],
    groups: Mapping[str, str],
    dims: Mapping[str, Range],
) -> Ints:
    """Storage number of every row; a storage has buffers of one group with equal sizes."""
    from cpplan.symbolic.layout import share_equal

    names = [problem.names[row] for row in rows]
    lives = {
        n: (int(problem.lower[r]), int(problem.upper[r])) for n, r in zip(names, rows, strict=True)
    }
    found = share_equal(dict(zip(names, sizes, strict=True)), lives, dims, groups)
    storage = np.array([found[name].storage for name in names], np.int64)
    # The checker lets buffers without bytes overlap, so give these one byte.
    some = replace(problem.subset(rows), size=np.ones(len(rows), np.int64))
    labels = [f"{size} {groups[name]}" for name, size in zip(names, sizes, strict=True)]
    check_assignment(some, make_assignment(some, storage, labels), labels)
    return storage
