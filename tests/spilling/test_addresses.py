"""Gaps and offsets chosen together: what comes out is packed, and costs what its gaps cost."""

from __future__ import annotations

import random
from itertools import permutations

import numpy as np
import pytest
from support.cases import seeds
from support.spill_oracle import random_spill_graph

import cpplan
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import SpillProblem
from cpplan.program.anf import to_anf
from cpplan.runtime.budget import make_budget
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.outcome import find_shortfall
from cpplan.spilling.packed import find_retentions, lay_out
from cpplan.spilling.problem import spill_problem
from cpplan.spilling.search.addresses import AddressSearch, Placed


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("seed", seeds(10))
def test_places_are_a_packing_of_the_gaps_kept(seed: int, direct: bool) -> None:
    rng = random.Random(seed)
    program = to_anf(random_spill_graph(rng))
    pools = Pool("fast", 8 * rng.randint(4, 8), alignment=16), Pool("slow", direct=direct)
    problem = spill_problem(program, Residency(), pools, share=True)
    if find_shortfall(problem) is not None:
        return
    search = AddressSearch(problem, pools[0].capacity or 0)
    placed = search.place_best([problem.all_kept()], Deadline(1, deterministic=True))
    if placed is None:
        return
    assert placed.paid == problem.paid(placed.kept).sum()
    layout = lay_out(
        program, Residency(), problem, placed.kept, pools, make_budget(1), share=True,
        places=placed.places,
    )  # fmt: skip
    assert layout.fits
    assert overlaps(problem, placed) <= credits(problem)


def overlaps(problem: SpillProblem, placed: Placed) -> set[tuple[int, int]]:
    """Pairs of accesses of one step whose storages have bytes in common there."""
    near = problem.near(placed.kept)
    there: dict[int, list[tuple[int, int, int]]] = {}
    for retention in find_retentions(problem, placed.kept):
        at = int(placed.places[retention.accesses[0]])
        assert all(placed.places[access] == at for access in retention.accesses)
        storage = problem.names.index(retention.storage)
        steps = {int(problem.access_step[access]): access for access in retention.accesses}
        rows = zip(problem.gap_storage, problem.gap_lower, problem.gap_upper, strict=True)
        for gap, (of, lower, upper) in enumerate(rows):
            ends = {problem.gap_before[gap], problem.gap_after[gap]}
            if of == storage and placed.kept[gap] and ends & set(retention.accesses):
                steps |= dict.fromkeys(range(lower, upper), -1 - storage)
        for step, access in steps.items():
            there.setdefault(step, []).append((access, at, at + int(problem.size[storage])))
    assert near.any() == bool(there)
    pairs = [pair for blocks in there.values() for pair in permutations(blocks, 2)]
    return {
        (one, other)
        for (one, begin, end), (other, low, high) in pairs
        if one < other and begin < high and low < end
    }


def credits(problem: SpillProblem) -> set[tuple[int, int]]:
    """Pairs of accesses whose output may be written over the input, in both orders."""
    outputs = problem.credit_access[problem.over_credit].tolist()
    pairs = list(zip(outputs, problem.over_access.tolist(), strict=True))
    return {*pairs, *((source, output) for output, source in pairs)}


def test_tensor_in_the_way_of_the_next_one_is_evicted() -> None:
    """Two holes of 8 bytes do not hold 16: of what lies between, the cheaper one leaves."""
    sizes = {"a": 8, "b": 8, "c": 8, "d": 8, "e": 16}
    tensors = tuple(cpplan.Tensor(name, size) for name, size in sizes.items())
    ops = (
        *(cpplan.Op(f"make {name}", outputs=(name,)) for name in "abcd"),
        cpplan.Op("use a", inputs=("a",)),
        cpplan.Op("use c", inputs=("c",)),
        cpplan.Op("make e", outputs=("e",)),
        cpplan.Op("use all", inputs=("b", "d", "e")),
    )
    pools = Pool("fast", 32), Pool("slow")
    problem = spill_problem(to_anf(cpplan.Graph("g", tensors, ops)), Residency(), pools)
    search = AddressSearch(problem, 32)
    names = [problem.names[storage] for storage in problem.access_storage.tolist()]
    wanted = np.array([8 * "abcd".find(name) for name in names])
    placed = search.place(problem.all_kept(), np.maximum(wanted, 0), 0.0)
    assert placed is not None
    assert placed.paid == 16


def test_alignments_without_a_common_multiple_are_refused() -> None:
    graph = Graph("g", (Tensor("x", 8, kind="input", alignment=3**30),), (Op("f", inputs=("x",)),))
    pools = Pool("fast", 16, alignment=1 << 40), Pool("slow")
    with pytest.raises(InputError, match=r"tensor 'x': alignments .* no common multiple below"):
        spill_problem(to_anf(graph), Residency(), pools)
