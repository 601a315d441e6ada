"""Candidate pools of buffers, and the check that buffers can be aligned in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.tensor import Tensor


def assign_candidates(
    pools: Sequence[Pool], buffers: Sequence[tuple[str, Sequence[Tensor]]]
) -> dict[int, tuple[int, ...]]:
    """Positions of each buffer's candidate pools, as ``Problem.candidates`` takes them.

    A buffer's candidates are the pools that all its tensors may go to: the pools that a tensor
    names, or else all pools of the buffer's kind. Buffers that hold a constant go to constant
    pools, if there are any; all others to workspace pools. They are in the order of the first
    tensor that names pools, or else in the order of ``pools``.

    Parameters
    ----------
    pools
        Pools in order of preference.
    buffers
        Name of each buffer in the order of the rows, with the tensors that share it.

    Raises
    ------
    InputError
        If a tensor names an unknown pool, if a buffer that is written names a constant pool, or if
        no pool is left for a buffer; names it and lists the pools.
    """
    number = {pool.name: k for k, pool in enumerate(pools)}
    found: dict[int, tuple[int, ...]] = {}
    everywhere = tuple(range(len(pools)))
    # Most buffers are alike: their candidates are found once.
    known: dict[tuple[object, ...], tuple[int, ...]] = {}
    for row, (name, tensors) in enumerate(buffers):
        alike = tuple([(tensor.pools, tensor.kind) for tensor in tensors])
        if alike in known:
            if known[alike] != everywhere:
                found[row] = known[alike]
            continue
        constant = any(tensor.kind == "constant" for tensor in tensors)
        kind = "constant" if constant and _has(pools, "constant") else "workspace"
        named = [_named(tensor, number) for tensor in tensors if tensor.pools is not None]
        default = [k for k, pool in enumerate(pools) if pool.kind == kind]
        chosen = named[0] if named else default
        left = tuple(k for k in chosen if all(k in other for other in named))
        if not left:
            names = ", ".join(number)
            raise InputError(f"buffer {name!r}: has no candidate pool among {names}")
        read_only = next((pools[k].name for k in left if pools[k].kind == "constant"), None)
        if read_only is not None and not constant:
            raise InputError(
                f"buffer {name!r}: is written, but pool {read_only!r} is for constants"
            )
        known[alike] = left
        if left != everywhere:
            found[row] = left
    return found


def check_candidates(problem: Problem) -> None:
    """Raise if a buffer cannot lie at an aligned address in one of its pools.

    Raises
    ------
    InputError
        If a pool's base is not a multiple of a candidate buffer's alignment, if a fixed offset is
        not a multiple of the pool's alignment, or if a buffer with a fixed offset has several
        candidate pools.
    """
    everywhere = any(pool.base for pool in problem.pools)
    for row in range(len(problem)) if everywhere else problem.fixed:
        name, alignment = problem.names[row], int(problem.alignment[row])
        candidates = problem.candidates_of(row)
        for pool in (problem.pools[k] for k in candidates):
            if pool.base % alignment:
                raise InputError(
                    f"buffer {name!r}: alignment {alignment} does not divide base {pool.base} of "
                    f"pool {pool.name!r}"
                )
            if problem.fixed.get(row, 0) % math.lcm(alignment, pool.alignment):
                raise InputError(
                    f"buffer {name!r}: fixed offset {problem.fixed[row]} is not a multiple of the "
                    f"alignment {pool.alignment} of pool {pool.name!r}"
                )
        if row in problem.fixed and len(candidates) > 1:
            names = ", ".join(problem.pools[k].name for k in candidates)
            raise InputError(
                f"buffer {name!r}: a fixed offset needs exactly one candidate pool, not {names}"
            )


def _has(pools: Sequence[Pool], kind: str) -> bool:
    return any(pool.kind == kind for pool in pools)


def _named(tensor: Tensor, number: Mapping[str, int]) -> list[int]:
    for name in tensor.pools or ():
        if name not in number:
            raise InputError(
                f"tensor {tensor.name!r}: unknown pool {name!r}: expected one of "
                f"{', '.join(number)}"
            )
    return [number[name] for name in tensor.pools or ()]
