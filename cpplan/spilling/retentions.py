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
    """All retentions that follow from a choice of gaps, sorted by storage, then by time."""
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
