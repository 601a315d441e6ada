"""``check_assignment``: a check of storage assignments that imports no planner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.errors import VerificationError

if TYPE_CHECKING:
    from cpplan.model.problem import Problem
    from cpplan.packing.storage_ids.assignment import StorageAssignment


def check_assignment(
    problem: Problem, assignment: StorageAssignment, keys: Sequence[str] | None = None
) -> None:
    """Raise if an assignment breaks a rule. O(n log n).

    The rules: every buffer lies in a storage of its group that is large enough; two buffers that
    hold bytes at the same step lie in different storages; the status agrees with bound and total.

    Parameters
    ----------
    problem
        Problem with the buffers to assign.
    assignment
        Assignment to check.
    keys
        Group of every buffer, if groups must not be mixed.

    Raises
    ------
    VerificationError
        If a rule is broken; the message names the buffers, the storage and the step.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> from cpplan.packing.storage_ids.assignment import make_assignment
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> check_assignment(problem, make_assignment(problem, np.array([0, 1, 0])))
    >>> check_assignment(problem, make_assignment(problem, np.array([0, 0, 1])))
    Traceback (most recent call last):
    ...
    cpplan.model.errors.VerificationError: buffers 'a' and 'b' are both live at step 1 in storage 0
    """
    if assignment.buffers != tuple(problem.names):
        raise VerificationError(f"the assignment is not for the buffers of {problem.name!r}")
    storage, count = assignment.storage, len(assignment.bytes)
    if storage.shape != (len(problem),) or storage.dtype.kind not in "iu":
        raise VerificationError(
            f"expected one storage number a buffer, not {storage.dtype} of shape {storage.shape}"
        )
    for row in np.flatnonzero((storage < 0) | (storage >= count)).tolist():
        raise VerificationError(
            f"buffer {problem.names[row]!r} is in storage {storage[row]}, but there are {count}"
        )
    for row in np.flatnonzero(problem.size > assignment.bytes[storage]).tolist():
        raise VerificationError(
            f"buffer {problem.names[row]!r} of {problem.size[row]} B does not fit into storage "
            f"{storage[row]} of {assignment.bytes[storage[row]]} B"
        )
    _check_apart(problem, assignment)
    if keys is not None:
        _check_groups(problem, assignment, keys)
    bound, total = assignment.lower_bound, sum(assignment.bytes.tolist())
    if bound is not None and bound > total:
        raise VerificationError(f"a total of {total} B is below the lower bound of {bound} B")
    if (assignment.status == "optimal") != (total == bound):
        raise VerificationError(
            f"status {assignment.status!r} contradicts a total of {total} B and a lower bound of "
            f"{'no' if bound is None else bound} B"
        )


def _check_apart(problem: Problem, assignment: StorageAssignment) -> None:
    """Raise if two spans of a storage overlap in time.

    Then two neighbours in the order by first step overlap, so that only neighbours are compared.
    """
    spans = problem.spans
    holding = np.flatnonzero(spans.end > spans.begin)
    # Several windows of one gap are one use of the storage: keep the first.
    _, once = np.unique(
        np.stack([spans.buffer, spans.lower])[:, holding], axis=1, return_index=True
    )
    holding = holding[once]
    number = assignment.storage[spans.buffer[holding]]
    order = holding[np.lexsort((spans.lower[holding], number))]
    buffer, lower, upper = spans.buffer[order], spans.lower[order], spans.upper[order]
    number = assignment.storage[buffer]
    for k in np.flatnonzero((number[1:] == number[:-1]) & (lower[1:] < upper[:-1])).tolist():
        one, other = sorted((int(buffer[k]), int(buffer[k + 1])))
        raise VerificationError(
            f"buffers {problem.names[one]!r} and {problem.names[other]!r} are both live at step "
            f"{lower[k + 1]} in storage {number[k]}"
        )


def _check_groups(problem: Problem, assignment: StorageAssignment, keys: Sequence[str]) -> None:
    if assignment.groups is None or len(assignment.groups) != len(assignment.bytes):
        raise VerificationError("buffers have groups, but not every storage has one")
    for row, (key, number) in enumerate(zip(keys, assignment.storage.tolist(), strict=True)):
        if key != assignment.groups[number]:
            raise VerificationError(
                f"buffer {problem.names[row]!r} of group {key!r} is in storage {number} of group "
                f"{assignment.groups[number]!r}"
            )
