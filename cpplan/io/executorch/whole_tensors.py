"""ExecuTorch's ``banked_greedy`` on a graph of any format: whole tensors in one of two banks."""

from __future__ import annotations

from executorch.exir.banked_memory_planning import Bank, TargetMemoryMap

from cpplan.io.executorch.banks import rivals_of
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.liveness import to_problem


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
