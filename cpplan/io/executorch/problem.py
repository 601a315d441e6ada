"""Buffers of a graph module as a packing problem: memory ids are pools, regions are buffers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from executorch.exir.banked_memory_planning import TargetMemoryMap
from executorch.exir.memory_planning import _contains_xnnpack_delegate
from executorch.exir.tensor import TensorSpec
from torch.fx import GraphModule

from cpplan.io.executorch.banks import pools_of, rivals_of
from cpplan.io.executorch.specs import (
    Region,
    Storage,
    find_regions,
    find_storages,
    name_specs,
    planned_specs,
)
from cpplan.io.executorch.values import check_values
from cpplan.model.answers import Answer
from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
from cpplan.verification.verifier import check_offsets

# Name of the answer: a program does not name its planner.
PLANNER = "executorch"
# Bytes at the end of a memory that hold no tensor, in modules with the XNNPACK delegate.
XNNPACK_PADDING = 64


@dataclass
class Layout:
    """A problem, with the storage or region of each row and the memory id of each pool.

    The rows are the storages, then the parts of regions: (region, memory id).
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
    banks: Mapping[int, Pool] | None = None,
    free: Collection[Storage] = (),
    least: int = 0,
    name: str,
) -> Layout:
    """The problem of placing storages, and regions that need ``parts[k, memory]`` bytes each.

    ``alignment`` is the alignment of regions and, if given, of storages; ``least`` is the least
    number of memories, without the memory of constants. ``free`` storages may lie in any of the
    ``banks``, which are in order of preference.
    """
    rows = [(s.name, *s.lifespan, s.size, alignment or int(s.root.alignment)) for s in storages]
    listed = [(regions[number], memory) for number, memory in parts]
    for (region, memory), needed in zip(listed, parts.values(), strict=True):
        name_of_part = f"{region.name} in memory {memory}"
        rows.append((name_of_part, region.lower, region.upper, needed, alignment or 1))
    ids = [storage.memory for storage in storages] + [memory for _, memory in listed]
    banks, known = banks or {}, capacities or {}
    others = sorted({*ids, *range(1, least + 1)} - set(banks) or ({1} if not banks else set()))
    memories = [*banks, *others]
    pools = [*banks.values(), *(Pool(f"memory {memory}", known.get(memory)) for memory in others)]
    lower, upper, size, alignments = (
        np.array([row[k] for row in rows], np.int64) for k in range(1, 5)
    )
    several = len(pools) > 1
    allowed = [[memories.index(i)] for i in ids]
    for row, storage in enumerate(storages):
        if banks and storage in free:
            allowed[row] = list(range(len(banks)))
    problem = Problem(
        [row[0] for row in rows],
        lower,
        upper,
        size,
        alignments,
        pools=pools,
        candidates=dict(enumerate(allowed)) if several else {},
        name=name,
    )
    return Layout(problem, storages, listed, memories)


def read_module(
    module: GraphModule,
    name: str,
    memory_map: TargetMemoryMap | None = None,
    rivals: bool = False,
) -> Problem:
    """The packing problem of a planned module, with its plan as an answer.

    With a memory map, a tensor in one of its banks may go to any bank. With ``rivals``, the layouts
    of ExecuTorch's own planners are answers too.

    Raises
    ------
    InputError
        If the module has not been planned.
    """
    sizes = module.meta.get("non_const_buffer_sizes")
    if sizes is None:
        raise InputError(
            f"{name}: its memory is not planned: expected a graph module of a program made by "
            "to_executorch"
        )
    storages = find_storages(planned_specs(module), name_specs(module))
    banks = {}
    if memory_map is not None:
        banks = pools_of(memory_map, XNNPACK_PADDING if _contains_xnnpack_delegate(module) else 0)
    free = [storage for storage in storages if storage.memory in banks]
    layout, answer = read_places(storages, find_regions(module), sizes, name, banks, free)
    answers = [answer]
    if rivals:
        ids = [storage.memory for storage in storages] + [memory for _, memory in layout.parts]
        memories = {
            row: list(banks) if row < len(storages) and storages[row] in free else [memory]
            for row, memory in enumerate(ids)
        }
        reserved = layout.problem.names[len(storages) :]
        answers += rivals_of(layout.problem, memories, reserved, memory_map)
    return replace(layout.problem, answers=tuple(answers))


def read_places(
    storages: Sequence[Storage],
    regions: Sequence[Region],
    sizes: Sequence[int],
    name: str,
    banks: Mapping[int, Pool] | None = None,
    free: Collection[Storage] = (),
) -> tuple[Layout, Answer]:
    """The problem of storages and regions that are placed, with their places as an answer."""
    extents = {
        (number, memory): extent
        for number, region in enumerate(regions)
        for memory, extent in region.extents().items()
    }
    parts = {key: end - begin for key, (begin, end) in extents.items()}
    least = len(sizes) - 1
    layout = layout_of(storages, parts, regions, banks=banks, free=free, least=least, name=name)
    places = [int(s.root.mem_offset) for s in storages] + [begin for begin, _ in extents.values()]
    names = layout.problem.names
    pools = {
        names[row]: f"memory {memory}"
        for memory in layout.memories
        for row in layout.rows_in(memory)
    }
    return layout, Answer(PLANNER, sum(sizes), dict(zip(names, places, strict=True)), pools)


def check_module(module: GraphModule, name: str, sizes: Sequence[int] | None = None) -> None:
    """Check a planned module: the places of its specs, and the bytes that its nodes read.

    No two buffers share a byte at a step, each lies aligned within its memory, a tensor with a
    ``storage_base`` lies at its place in that, and no node reads bytes that another has
    overwritten. The same must hold within submodules of control flow. ``sizes`` are the sizes of
    the memories; by default the module's own.
    """
    read_module(module, name)
    if sizes is None:
        sizes = module.meta["non_const_buffer_sizes"]
    assert sizes is not None
    storages = find_storages(planned_specs(module), name_specs(module))
    regions = find_regions(module)
    check_places(storages, regions, sizes, name_specs(module), name)
    check_values(module, name)
    for branches in regions:
        for submodule in branches.modules:
            check_module(submodule, f"{name}: {branches.name}", sizes)


def check_places(
    storages: Sequence[Storage],
    regions: Sequence[Region],
    sizes: Sequence[int],
    names: Mapping[TensorSpec, str],
    name: str,
) -> None:
    """Raise if storages or regions overlap or leave memories of these sizes. O(n log n).

    Raises
    ------
    VerificationError
        Names the tensors and the rule.
    """
    layout, answer = read_places(storages, regions, sizes, name)
    problem = layout.problem
    assert answer.offset is not None
    offset = np.array([answer.offset[buffer] for buffer in problem.names], np.int64)
    number = {pool.name: k for k, pool in enumerate(problem.pools)}
    pool = np.array([number[answer.pool[buffer]] for buffer in problem.names], np.int64)
    for k, memory_pool in enumerate(problem.pools):
        rows = np.flatnonzero(pool == k)
        check_offsets(problem.in_pool(k, rows), offset[rows], PLANNER)
        memory = int(memory_pool.name.removeprefix("memory "))
        room = sizes[memory] if memory < len(sizes) else 0
        for row in rows[offset[rows] + problem.size[rows] > room]:
            end = offset[row] + problem.size[row]
            raise VerificationError(
                f"{name}: {problem.names[row]!r} ends at byte {end} of memory {memory}, which has "
                f"{room} B"
            )
    for storage in storages:
        for spec, within in storage.within.items():
            place, wanted = (spec.mem_id, spec.mem_offset), storage.root.mem_offset + within
            if place != (storage.root.mem_id, wanted):
                raise VerificationError(
                    f"{name}: {names[spec]!r} lies at byte {spec.mem_offset} of memory "
                    f"{spec.mem_id}, but its storage_base {storage.name!r} asks for byte {wanted}"
                )


def parse_capacities(capacities: Mapping[int, int | str], padding: int) -> dict[int, int]:
    """Memory id -> bytes for tensors: its capacity minus the padding."""
    for memory in capacities:
        if not isinstance(memory, int) or isinstance(memory, bool) or memory < 1:
            raise InputError(f"capacities: memory id {memory!r} must be an integer of at least 1")
    return {memory: max(parse_bytes(size) - padding, 0) for memory, size in capacities.items()}
