"""Buffers of a graph module as a packing problem: memory ids are pools, regions are buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch.fx import GraphModule

from cpplan.answers import Answer
from cpplan.byte_sizes import parse_bytes
from cpplan.errors import InputError, VerificationError
from cpplan.io.executorch.regions import Region, find_regions
from cpplan.io.executorch.specs import Storage, find_storages, name_specs, planned_specs
from cpplan.pool import Pool
from cpplan.problem import Ints, Problem
from cpplan.verifier import check_offsets

# Who planned a program is not written in it.
PLANNER = "executorch"


@dataclass
class Layout:
    """A problem, what each of its rows stands for, and the memory id of each of its pools.

    Rows are the storages, then the parts of regions: (region, memory id).
    """

    problem: Problem
    storages: Sequence[Storage]
    parts: Sequence[tuple[Region, int]]
    memories: Sequence[int]

    def rows_in(self, memory: int) -> Ints:
        """Rows that lie in a memory."""
        ids = [storage.memory for storage in self.storages] + [part[1] for part in self.parts]
        return np.flatnonzero(np.array(ids, np.int64) == memory)


def layout_of(
    storages: Sequence[Storage],
    parts: Mapping[tuple[int, int], int],
    regions: Sequence[Region],
    *,
    alignment: int | None = None,
    capacities: Mapping[int, int] | None = None,
    least: int = 0,
    name: str,
) -> Layout:
    """The problem of placing storages, and regions that need ``parts[k, memory]`` bytes each.

    ``alignment`` is that of regions, and of storages if given; ``least`` is how many memories there
    are at least, besides that of the constants.
    """
    rows = [(s.name, *s.lifespan, s.size, alignment or int(s.root.alignment)) for s in storages]
    listed = [(regions[number], memory) for number, memory in parts]
    for (region, memory), needed in zip(listed, parts.values(), strict=True):
        name_of_part = f"{region.name} in memory {memory}"
        rows.append((name_of_part, region.lower, region.upper, needed, alignment or 1))
    ids = [storage.memory for storage in storages] + [memory for _, memory in listed]
    memories = sorted({*ids, *range(1, least + 1)} or {1})
    known = capacities or {}
    pools = [Pool(f"memory {memory}", known.get(memory)) for memory in memories]
    lower, upper, size, alignments = (
        np.array([row[k] for row in rows], np.int64) for k in range(1, 5)
    )
    several = len(pools) > 1
    problem = Problem(
        [row[0] for row in rows],
        lower,
        upper,
        size,
        alignments,
        pools=pools,
        candidates={row: [memories.index(i)] for row, i in enumerate(ids)} if several else {},
        name=name,
    )
    return Layout(problem, storages, listed, memories)


def read_module(module: GraphModule, name: str) -> Problem:
    """What a planned module places where: the problem, and the plan as an answer to it.

    Raises
    ------
    InputError
        If the module has not been planned.
    """
    sizes = module.meta.get("non_const_buffer_sizes")
    if sizes is None:
        raise InputError(
            f"{name}: its memory is not planned: expected the graph module of a program that "
            "to_executorch made"
        )
    storages = find_storages(planned_specs(module), name_specs(module))
    regions = find_regions(module)
    extents = {
        (number, memory): extent
        for number, region in enumerate(regions)
        for memory, extent in region.extents().items()
    }
    parts = {key: end - begin for key, (begin, end) in extents.items()}
    layout = layout_of(storages, parts, regions, least=len(sizes) - 1, name=name)
    places = [int(s.root.mem_offset) for s in storages] + [begin for begin, _ in extents.values()]
    names = layout.problem.names
    pools = {
        names[row]: f"memory {memory}"
        for memory in layout.memories
        for row in layout.rows_in(memory)
    }
    answer = Answer(PLANNER, sum(sizes), dict(zip(names, places, strict=True)), pools)
    return replace(layout.problem, answers=(answer,))


def check_module(module: GraphModule, name: str, sizes: Sequence[int] | None = None) -> None:
    """Check a planned module: geometry only, from its specs.

    No two buffers share a byte at a step, each lies aligned within its memory, and what has a
    ``storage_base`` lies where that says. The same holds within submodules of control flow.
    No two buffers share a byte at a step, each lies aligned within its memory, and what has a
    ``storage_base`` lies where that says. The same holds within submodules of control flow.
    ``sizes`` are those of the memories; the module's own if left out.

    Raises
    ------
    InputError
        If the module has not been planned.
    VerificationError
        Names the tensors and the rule.
    """
    problem = read_module(module, name)
    (answer,) = problem.answers
    if sizes is None:
        sizes = module.meta["non_const_buffer_sizes"]
    assert sizes is not None
    assert answer.offset is not None
    offset = np.array([answer.offset[buffer] for buffer in problem.names], np.int64)
    number = {pool.name: k for k, pool in enumerate(problem.pools)}
    pool = np.array([number[answer.pool[buffer]] for buffer in problem.names], np.int64)
    for k, region in enumerate(problem.pools):
        rows = np.flatnonzero(pool == k)
        check_offsets(problem.in_pool(k, rows), offset[rows], PLANNER)
        memory = int(region.name.removeprefix("memory "))
        for row in rows[offset[rows] + problem.size[rows] > sizes[memory]]:
            end = offset[row] + problem.size[row]
            raise VerificationError(
                f"{name}: {problem.names[row]!r} ends at byte {end} of memory {memory}, which has "
                f"{sizes[memory]} B"
            )
    names = name_specs(module)
    for storage in find_storages(planned_specs(module), names):
        for spec, within in storage.within.items():
            place, wanted = (spec.mem_id, spec.mem_offset), storage.root.mem_offset + within
            if place != (storage.root.mem_id, wanted):
                raise VerificationError(
                    f"{name}: {names[spec]!r} lies at byte {spec.mem_offset} of memory "
                    f"{spec.mem_id}, but its storage_base {storage.name!r} asks for byte {wanted}"
                )
    for branches in find_regions(module):
        for submodule in branches.modules:
            check_module(submodule, f"{name}: {branches.name}", sizes)


def parse_capacities(capacities: Mapping[int, int | str], padding: int) -> dict[int, int]:
    """Bytes that each memory has for tensors: its capacity less what is padded.

    Raises
    ------
    InputError
        If a memory id is none, or the capacity no number of bytes.
    """
    for memory in capacities:
        if not isinstance(memory, int) or isinstance(memory, bool) or memory < 1:
            raise InputError(f"capacities: memory id {memory!r} must be an integer of at least 1")
    return {memory: max(parse_bytes(size) - padding, 0) for memory, size in capacities.items()}
