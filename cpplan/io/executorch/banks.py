"""ExecuTorch's memory maps, and its planners' own layouts of a problem's buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from executorch.exir.banked_memory_planning import (
    Bank,
    BankedGreedy,
    BankPlacementError,
    TargetMemoryMap,
)
from executorch.exir.memory_planning import MemoryAlgoResult, greedy
from executorch.exir.schema import DeviceType

from cpplan.model.answers import Answer
from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.liveness import to_problem


def pools_of(memory_map: TargetMemoryMap, padding: int = 0) -> dict[int, Pool]:
    """Memory id -> pool of each bank in order of preference, without ``padding`` bytes."""
    if not isinstance(memory_map, TargetMemoryMap):
        raise InputError(
            f"memory_map must be a TargetMemoryMap of ExecuTorch, not a {type(memory_map).__name__}"
        )
    return {
        bank.mem_id: Pool(
            f"memory {bank.mem_id}", max(bank.size - padding, 0), alignment=bank.alignment or 1
        )
        for bank in memory_map.banks
    }


@dataclass
class _Buffer:
    """A buffer with the attributes of a ``TensorSpec`` that ExecuTorch's planners read."""

    name: str
    size: int
    lifetime: tuple[int, int]
    mem_id: int | None
    allocated_memory: int = 0
    storage_base: None = None
    device: DeviceType = DeviceType.CPU

    def __post_init__(self) -> None:
        self.allocated_memory = self.size

    # The planners use specs as keys of dictionaries.
    __hash__ = object.__hash__

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,)

    def realign(self, alignment: int) -> None:
        self.allocated_memory = -(-self.size // alignment) * alignment


def rivals_of(
    problem: Problem,
    memories: Mapping[int, Sequence[int]],
    reserved: Sequence[str],
    memory_map: TargetMemoryMap | None,
) -> list[Answer]:
    """Layouts of a problem's buffers by ExecuTorch's own planners.

    Without a memory map it is the layout of ``greedy``. With one it is the layout of
    ``banked_greedy``, or none if that finds no room.

    Parameters
    ----------
    problem
        The buffers to place.
    memories
        Row -> ids of the memories that the buffer may lie in.
    reserved
        Names of the rows that stand for submodules: they lie at byte 0, apart from all other
        buffers.
    memory_map
        The banks, if any.
    """
    module = SimpleNamespace(input_mem_buffer_sizes=[0] * (max(map(max, memories.values())) + 1))
    places = {}
    buffers = []
    for row, name in enumerate(problem.names):
        size = int(problem.size[row])
        if name in reserved:
            (memory,) = memories[row]
            sizes = module.input_mem_buffer_sizes
            sizes[memory] = max(sizes[memory], size)
            places[name] = (memory, 0)
            continue
        pin = None if len(memories[row]) > 1 else memories[row][0]
        span = (int(problem.lower[row]), int(problem.upper[row]) - 1)
        buffers.append(_Buffer(name, size, span, pin))
    alignment = int(problem.alignment.max(initial=1))
    name = "greedy" if memory_map is None else "banked_greedy"
    planner = greedy if memory_map is None else BankedGreedy(memory_map)
    try:
        result: MemoryAlgoResult = planner(alignment, buffers, module, None)
    except BankPlacementError:
        return []
    for buffer, found in result.spec_dict.items():
        places[buffer.name] = (found.mem_id, found.mem_offset)
    offset = {name: at for name, (_, at) in places.items()}
    pool = {name: f"memory {memory}" for name, (memory, _) in places.items()}
    return [Answer(name, sum(result.bufsizes), offset, pool)]


def banked_greedy(
    program: Program, residency: Residency, pools: tuple[Pool, Pool]
) -> set[str] | None:
    """Names of the buffers that ExecuTorch puts in the fast pool; ``None`` if it finds no room.

    Parameters
    ----------
    program, residency
        The model in its order.
    pools
        The fast pool, which has a capacity, and the slow one; without a capacity, it holds all.
    """
    problem = to_problem(program, residency)
    everything = int(problem.size.sum()) + len(problem) * max(pool.alignment for pool in pools)
    banks = [
        Bank(
            pool.name,
            size=everything if pool.capacity is None else pool.capacity,
            mem_id=number,
            alignment=pool.alignment,
        )
        for number, pool in enumerate(pools, start=1)
    ]
    memories = dict.fromkeys(range(len(problem)), (1, 2))
    for answer in rivals_of(problem, memories, (), TargetMemoryMap(banks)):
        assert answer.pool is not None
        return {name for name, pool in answer.pool.items() if pool == "memory 1"}
    return None
