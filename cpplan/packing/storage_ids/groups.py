"""Groups of buffers that may share storages, by dtype or by the user's keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.printable import quote
from cpplan.model.problem import Ints, Problem
from cpplan.model.tensor import Tensor
from cpplan.program.anf import Program
from cpplan.program.copy_names import instances, tensor_copies

GroupBy = Literal["dtype"] | Mapping[str, str] | None


def group_keys(
    source: Program | Problem, problem: Problem, group_by: GroupBy
) -> tuple[str, ...] | None:
    """The group of every buffer, one a row; ``None`` if all may share.

    Parameters
    ----------
    source
        Source of the problem.
    problem
        The buffers.
    group_by
        ``"dtype"`` for the dtype of the buffer's tensor, or a mapping from the names of buffers or
        tensors to scopes, devices, or any other keys.

    Raises
    ------
    InputError
        If a buffer has no group; the message names it.
    """
    if group_by is None:
        return None
    if isinstance(group_by, str) and group_by != "dtype":
        raise InputError(
            f"group_by={group_by!r} is not understood: expected 'dtype', a mapping or None"
        )
    if not isinstance(group_by, (str, Mapping)):
        raise InputError(
            f"group_by must be 'dtype', a mapping or None, not {type(group_by).__name__}"
        )
    if isinstance(source, Problem):
        if isinstance(group_by, str):
            raise InputError("group_by='dtype' needs a graph: the buffers of a problem have none")
        tensors: dict[str, Tensor] = {}
    else:
        tensors = buffer_tensors(source, problem)
    keys = []
    for name in problem.names:
        tensor = tensors.get(name)
        key: object
        if isinstance(group_by, Mapping):
            key = group_by.get(name, group_by.get(tensor.name) if tensor else None)
        else:
            key = tensor.dtype if tensor else None
        if not isinstance(key, str):
            found = "none" if key is None else quote(key)
            what = "dtype" if group_by == "dtype" else "group"
            raise InputError(f"buffer {name!r}: expected a {what} as a string, found {found}")
        keys.append(key)
    return tuple(keys)


def as_labels(keys: Sequence[str] | None, count: int) -> Ints:
    """Keys as numbers, shape ``(n,)``, in the order in which they first occur."""
    if keys is None:
        return np.zeros(count, np.int64)
    number = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    return np.array([number[key] for key in keys], np.int64)


def buffer_tensors(program: Program, problem: Problem) -> dict[str, Tensor]:
    """The tensor of every buffer of a program (see ``liveness``)."""
    by_name = {
        prefix + tensor.name: tensor
        for prefix, inner in instances(program)
        for tensor in inner.graph.tensors
    }
    copies = tensor_copies(program.graph)
    found = {}
    for name in problem.names:
        tensor = by_name.get(name) or by_name.get(copies.split(name)[0])
        if tensor is not None:
            found[name] = tensor
    return found
