"""``share_storages``: the best assignment of buffers to whole storages within a deadline."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.names import not_understood
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.packing.levels import LevelIncumbent, OneLevel
from cpplan.packing.problem import as_problem, as_program
from cpplan.packing.storage_ids.assignment import StorageAssignment, make_assignment
from cpplan.packing.storage_ids.by_size import shared_objects, shared_objects_improved
from cpplan.packing.storage_ids.checker import check_assignment
from cpplan.packing.storage_ids.groups import GroupBy, as_labels, group_keys
from cpplan.packing.storage_ids.rank_bound import rank_bound
from cpplan.packing.storage_ids.tokens import storage_tokens
from cpplan.packing.storage_ids.unbounded import assign_apart
from cpplan.packing.tuning import active
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget, make_budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.interrupts import first_interrupt_ending, holding_interrupts

# Buffers up to which stages by size are tried: their tables take gigabytes beyond that.
_STORAGES_IMPROVED = 10_000


class StorageAlgorithm(Protocol):
    """Function from a problem and the group label of every row to storage numbers."""

    def __call__(self, problem: Problem, group: Ints, deadline: Deadline, /) -> Ints: ...


def bump(problem: Problem, group: Ints, deadline: Deadline) -> Ints:
    """A storage for every buffer: no reuse."""
    return np.arange(len(problem), dtype=np.int64)


ALGORITHMS: dict[str, StorageAlgorithm] = {
    "bump": bump,
    "shared_objects": shared_objects,
    "storage_tokens": storage_tokens,
    "shared_objects_improved": shared_objects_improved,
}


def share_storages(
    source: Graph | Program | Problem,
    *,
    time_limit: float = 60.0,
    group_by: GroupBy = None,
    algorithm: str | None = None,
    inputs: str = "reuse",
    outputs: str = "keep",
    constants: str = "outside",
    workers: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
) -> StorageAssignment:
    """Assignment of buffers to whole storages with the smallest total found.

    For runtimes that cannot place a tensor at an offset within a block. Buffers live together never
    share a storage. A buffer without a size bound shares only with buffers of provably equal size.

    Parameters
    ----------
    source
        A graph, a program, or a bare problem without fixed offsets. Alignments do not matter: a
        buffer starts where its storage starts.
    time_limit
        Seconds for the whole run; then the best assignment so far is returned.
    group_by
        Groups that must not share a storage: ``"dtype"``, or a mapping from the names of buffers or
        tensors to a key (scope, device, …); ``None`` if all may share.
    algorithm
        A baseline to run alone: ``storage_tokens`` (Relay), ``shared_objects``,
        ``shared_objects_improved`` (Pisarchyk and Lee), ``bump`` (no reuse). By default all of
        them run, then CP-SAT.
    inputs, outputs, constants
        Handling of the model's boundary: see :class:`~cpplan.model.residency.Residency`.
    workers
        Threads; by default one a core. With one worker, if the time limit does not end the search,
        the same input and seed give the same assignment.
    seed
        Seed of random choices.
    deterministic
        Count work instead of time, with one worker.

    Returns
    -------
    StorageAssignment
        Checked. Its ``status`` says whether it is proved smallest.

    Raises
    ------
    InputError
        If an option is not understood, a buffer has a fixed offset, or one has no group.

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 6])
    >>> shared = share_storages(problem)
    >>> shared.status, shared.total, shared.storage.tolist(), shared.bytes.tolist()
    ('optimal', 14, [0, 1, 0], [6, 8])
    """
    if algorithm is not None and algorithm not in ALGORITHMS:
        raise not_understood(f"algorithm {algorithm!r}", algorithm, ALGORITHMS)
    budget = make_budget(time_limit, workers, seed, deterministic=deterministic)
    deadline = budget.deadline
    source = as_program(source)
    problem = as_problem(source, Residency(inputs, outputs, constants))
    for row in problem.fixed:
        raise InputError(
            f"buffer {problem.names[row]!r} has a fixed offset, but storages have no offsets"
        )
    keys = group_keys(source, problem, group_by)

    def assign(bounded: Problem, keys: Sequence[str] | None) -> StorageAssignment:
        group = as_labels(keys, len(bounded))
        best = _totals(bounded, group)
        with first_interrupt_ending(deadline), suppress(TimeUpError):
            if algorithm is not None:
                best.offer(ALGORITHMS[algorithm](bounded, group, deadline), algorithm)
            else:
                _search(best, bounded, group, budget)
        with holding_interrupts() as hold:
            hold()  # check and return the assignment even if the user presses Ctrl-C again
            found = make_assignment(
                bounded,
                best.best,
                keys,
                lower_bound=best.bound.value,
                found_by=best.found_by,
                bound_by=best.bound.name,
                runtime=deadline.elapsed(),
            )
            check_assignment(bounded, found, keys)
        return found

    return assign_apart(source, problem, keys, assign)


def _totals(problem: Problem, group: Ints) -> LevelIncumbent[Ints]:
    """The best storage numbers so far, with the total and its bound, bytes."""

    def total(storage: Ints) -> int:
        assignment = make_assignment(problem, storage)
        check_assignment(problem, assignment)
        return assignment.total

    return LevelIncumbent(
        OneLevel(total),
        np.arange(len(problem), dtype=np.int64),
        "bump",
        [rank_bound(problem, group)],
    )


def _search(best: LevelIncumbent[Ints], problem: Problem, group: Ints, budget: Budget) -> None:
    names, deadline = list(ALGORITHMS), budget.deadline
    if len(problem) >= active().many_buffers:
        # The linear heuristic comes first, even if reading the problem used up the time.
        names.remove("storage_tokens")
        late = not (deadline.endless or deadline.cancelled) and deadline.expired()
        first = Deadline(active().grace) if late else deadline
        best.offer(storage_tokens(problem, group, first), "storage_tokens")
    for name in names:
        if best.done:
            return
        if name != "shared_objects_improved" or len(problem) <= _STORAGES_IMPROVED:
            best.offer(ALGORITHMS[name](problem, group, deadline), name)
    if best.done or budget.deadline.expired():
        return
    from cpplan.packing.storage_ids.cp_sat_storages import NAME, improve

    improve(
        problem,
        group,
        best.best,
        budget,
        bound=best.bound.value,
        found=lambda storage: best.offer(storage, NAME),
        proved=lambda bound: best.offer_bound(0, bound, NAME),
    )
