"""Retentions of storages in the fast pool: runs of accesses with all gaps between them kept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.spilling.problem import Flags, SpillProblem


class Retention(NamedTuple):
    """A storage, the number of its copy in the fast pool, and the accesses of that copy."""

    storage: str
    number: int
    accesses: list[int]


def find_retentions(problem: SpillProblem, kept: Flags) -> list[Retention]:
    """All retentions that follow from a choice of gaps, sorted by storage, then by time.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> from cpplan.model.residency import Residency
    >>> from cpplan.model.small_graphs import kept_meanwhile
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.spilling.problem import spill_problem
    >>> pools = Pool("fast", 16), Pool("slow")
    >>> problem = spill_problem(to_anf(kept_meanwhile()), Residency(), pools)
    >>> kept = problem.all_kept()
    >>> kept[0] = False
    >>> for found in find_retentions(problem, kept):
    ...     print(*found)
    a 0 [0]
    a 1 [1]
    b 0 [2, 3]
    c 0 [4, 5]
    """
    near = problem.near(kept)
    follows = np.zeros(len(near), bool)
    inner = kept & (problem.gap_before >= 0) & (problem.gap_after >= 0)
    follows[problem.gap_after[inner]] = True
    found: list[Retention] = []
    for access in np.flatnonzero(near).tolist():
        name = problem.names[int(problem.access_storage[access])]
        if follows[access]:
            found[-1].accesses.append(access)
        else:
            number = found[-1].number + 1 if found and found[-1].storage == name else 0
            found.append(Retention(name, number, [access]))
    return found
