"""Whole storages: every partition of the buffers."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from support.storage_oracle import brute_force_total

from cpplan import share_storages
from cpplan.packing.storage_ids import check_assignment

from .case import Case, python_of
from .made import random_problem


def storages(rng: random.Random) -> Case:
    """Buffers of one or two groups, by CP-SAT or by one of the baselines."""
    problem = replace(random_problem(rng, 6, fixed=False), hint={})
    groups = {name: rng.choice("ab"[: rng.randint(1, 2)]) for name in problem.names}
    algorithm = rng.choice([None, None, None, "storage_tokens", "shared_objects", "bump"])
    lines = (
        f"problem = {python_of(problem)}",
        f"plan = share_storages(problem, group_by={groups!r}, algorithm={algorithm!r}, "
        "deterministic=True, time_limit=3)",
    )

    def false() -> list[str]:
        plan = share_storages(
            problem, group_by=groups, algorithm=algorithm, deterministic=True, time_limit=3
        )
        keys = [groups[name] for name in problem.names]
        check_assignment(problem, plan, keys)
        labels = np.array([ord(key) for key in keys], np.int64)
        least = brute_force_total(problem, labels) if len(problem) else 0
        wrong = []
        if plan.total < least:
            wrong.append(f"assert plan.total >= {least}")
        if plan.lower_bound is not None and plan.lower_bound > least:
            wrong.append(f"assert plan.lower_bound <= {least}")
        if plan.status == "optimal" and plan.total != least:
            wrong.append(f"assert plan.total == {least}")
        return wrong

    return Case(lines, false)
