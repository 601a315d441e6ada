"""Names of the copies of recomputed tensors, and of the runs of ops that run again.

The first copy has the tensor's own name. The others are ``name~1``, ``name~2``, …; a number is
skipped if the model has that name already. So the name of a copy is unique, and a model that was
written with copies in it can be planned again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from cpplan.model.graph import Graph
from cpplan.program.anf import Program, to_anf

# A number with more digits counts as part of the name: no op runs so often.
_MOST_DIGITS = 18


class CopyNames:
    """Names of the copies of one model's tensors or ops.

    Parameters
    ----------
    names
        All names of tensors, or of ops, in the model.
    """

    def __init__(self, names: Iterable[str]):
        self._taken: dict[str, list[int]] = {}
        for name in names:
            original, number = _numbered(name)
            if number:
                self._taken.setdefault(original, []).append(number)
        for numbers in self._taken.values():
            numbers.sort()

    def copy(self, name: str, number: int) -> str:
        """Name of copy ``number``, counted from 0."""
        if not number:
            return name
        for taken in self._taken.get(name, ()):
            if taken > number:
                break
            number += 1
        return f"{name}~{number}"

    def split(self, copy: str) -> tuple[str, int]:
        """The original's name and the copy's number, for a name of the model or of a copy."""
        name, number = _numbered(copy)
        taken = self._taken.get(name, ())
        before = bisect_left(taken, number)
        if not number or (before < len(taken) and taken[before] == number):
            return copy, 0
        return name, number - before


def tensor_copies(graph: Graph) -> CopyNames:
    """Copy names for the tensors of a graph, distinct from all names of tensors in bodies too."""
    return CopyNames(dict.fromkeys(_tensor_names(graph)))


def op_copies(graph: Graph) -> CopyNames:
    """Copy names for the ops of a graph."""
    return CopyNames(op.name for op in graph.ops)


def _numbered(name: str) -> tuple[str, int]:
    """The name before ``~number`` and the number; the whole name and 0 if it has no such end."""
    original, mark, digits = name.rpartition("~")
    counts = digits.isascii() and digits.isdigit() and digits[0] != "0"
    if not mark or not counts or len(digits) > _MOST_DIGITS:
        return name, 0
    return original, int(digits)


def _tensor_names(graph: Graph) -> Iterator[str]:
    for tensor in graph.tensors:
        yield tensor.name
    for op in graph.ops:
        for body in op.bodies:
            yield from _tensor_names(body)


def instances(program: Program) -> Iterator[tuple[str, Program]]:
    """The program and each run of a body, with the prefix of its buffers' names (``liveness``)."""
    stack = [("", program)]
    while stack:
        prefix, inner = stack.pop()
        yield prefix, inner
        times: Counter[str] = Counter()
        names = op_copies(inner.graph)
        calls = []
        for op in inner.ops:
            call = names.copy(op.name, times[op.name])
            times[op.name] += 1
            calls += [
                (f"{prefix}{call}/{number}/", to_anf(body)) for number, body in enumerate(op.bodies)
            ]
        stack += reversed(calls)
