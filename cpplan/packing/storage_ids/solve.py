"""``share_storages``: the best assignment of buffers to whole storages within a deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.packing.problem import as_problem, as_program
from cpplan.packing.storage_ids.assignment import StorageAssignment, make_assignment
from cpplan.packing.storage_ids.by_size import shared_objects, shared_objects_improved
from cpplan.packing.storage_ids.checker import check_assignment
from cpplan.packing.storage_ids.groups import GroupBy, as_labels, group_keys
from cpplan.packing.storage_ids.rank_bound import rank_bound
from cpplan.packing.storage_ids.tokens import storage_tokens
from cpplan.packing.storage_ids.unbounded import assign_apart
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget, make_budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.interrupts import holding_interrupts


class StorageAlgorithm(Protocol):
    """Gives every buffer of a problem, with a group label a row, the number of a storage."""

    def __call__(self, problem: Problem, group: Ints, deadline: Deadline, /) -> Ints: ...


def bump(problem: Problem, group: Ints, deadline: Deadline) -> Ints:
    """A storage for every buffer: no reuse.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[1, 2], size=[4, 8])
    >>> bump(problem, np.zeros(2, np.int64), Deadline(60)).tolist()
    [0, 1]
    """
    return np.arange(len(problem), dtype=np.int64)


ALGORITHMS: dict[str, StorageAlgorithm] = {
    "bump": bump,
    "shared_objects": shared_objects,
    "storage_tokens": storage_tokens,
    "shared_objects_improved": shared_objects_improved,
}
# Beyond that many buffers, its tables of buffers × storages take gigabytes.
_MOST_IMPROVED = 10_000


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
    """Assign buffers to whole storages, one after another, with the smallest total found.

    For runtimes that cannot place a tensor at an offset within a block. Buffers that are live
    together never share, nor do two of which one may have any size, unless they are provably equal.

    Parameters
    ----------
    source
        A graph, a program, or a bare problem without fixed offsets. Alignments do not matter: a
        buffer starts where its storage starts.
    time_limit
        Seconds for everything; the best assignment so far is returned when they are over.
    group_by
        What must not be mixed in one storage. ``"dtype"``, or a mapping from the names of buffers
        or tensors to a key (scope, device, …); ``None`` if anything may share.
    algorithm
        A baseline to run alone: ``storage_tokens`` (Relay), ``shared_objects``,
        ``shared_objects_improved`` (Pisarchyk and Lee), ``bump`` (no reuse). If left out, all of
        them, then CP-SAT.
    inputs, outputs, constants
        What is assigned of the model's boundary: see :class:`~cpplan.model.residency.Residency`.
    workers
        Threads; as many as there are cores if left out. With one, and where time does not end the
        search, the same input and seed give the same assignment.
    seed
        For random choices.
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
        raise InputError(
            f"algorithm {algorithm!r} is not understood: expected one of {', '.join(ALGORITHMS)}"
        )
    budget = make_budget(time_limit, workers, seed, deterministic=deterministic)
    deadline = budget.deadline
    source = as_program(source)
    problem = as_problem(source, Residency(inputs, outputs, constants))
    for row in problem.fixed:
        raise InputError(
            f"buffer {problem.names[row]!r} has a fixed offset, but there are none in storages"
        )
    keys = group_keys(source, problem, group_by)

    def assign(bounded: Problem, keys: Sequence[str] | None) -> StorageAssignment:
        best = _Best(bounded, as_labels(keys, len(bounded)))
        try:
            if algorithm is not None:
                best.run(algorithm, deadline)
            else:
                _search(best, budget)
        except (TimeUpError, KeyboardInterrupt):
            deadline.cancel()
        with holding_interrupts() as hold:
            hold()  # what was found is checked and handed out, however impatient the user
            found = best.assignment(keys, deadline.elapsed())
            check_assignment(bounded, found, keys)
        return found

    return assign_apart(source, problem, keys, assign)


class _Best:
    """The best storage numbers and the best bound so far, bytes."""

    def __init__(self, problem: Problem, group: Ints):
        self.problem, self.group = problem, group
        bound = rank_bound(problem, group)
        self.bound, self.bound_by = bound.value, bound.name
        self.storage, self.found_by = np.arange(len(problem), dtype=np.int64), "bump"
        self.total = int(problem.size.sum())

    @property
    def proved(self) -> bool:
        return self.total == self.bound

    def assignment(self, keys: Sequence[str] | None, runtime: float) -> StorageAssignment:
        return make_assignment(
            self.problem,
            self.storage,
            keys,
            lower_bound=self.bound,
            found_by=self.found_by,
            bound_by=self.bound_by,
            runtime=runtime,
        )

    def run(self, name: str, deadline: Deadline) -> None:
        """Run a baseline, and take its assignment if it is the first or better."""
        self.offer(ALGORITHMS[name](self.problem, self.group, deadline), name)

    def offer(self, storage: Ints, name: str) -> None:
        assignment = make_assignment(self.problem, storage)
        check_assignment(self.problem, assignment)
        if assignment.total < self.total:
            self.storage, self.total, self.found_by = storage, assignment.total, name

    def prove(self, bound: int, name: str) -> None:
        if bound > self.bound:
            self.bound, self.bound_by = bound, name


def _search(best: _Best, budget: Budget) -> None:
    deadline = budget.deadline
    for name in ALGORITHMS:
        if best.proved:
            return
        if name != "shared_objects_improved" or len(best.problem) <= _MOST_IMPROVED:
            best.run(name, deadline)
    if best.proved or deadline.expired():
        return
    from cpplan.packing.storage_ids.cp_sat_storages import NAME, improve

    improve(
        best.problem,
        best.group,
        best.storage,
        budget,
        bound=best.bound,
        found=_named(best.offer, NAME),
        proved=lambda bound: best.prove(bound, NAME),
    )


def _named(offer: Callable[[Ints, str], None], name: str) -> Callable[[Ints], None]:
    return lambda storage: offer(storage, name)
