"""Bytes that one op accesses: a bound for every order and every number of runs."""

from __future__ import annotations

from collections.abc import Iterable

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.model.graph import Graph
from cpplan.model.residency import Residency
from cpplan.packing.bounds import Bound
from cpplan.program.liveness import outside_storages

ACCESSED = "bytes that one op accesses"


def accessed_bound(
    graph: Graph, residency: Residency, candidates: Iterable[AliasCandidate] = ()
) -> Bound:
    """The most bytes that one op reads, writes and uses as workspace. O(accesses + candidates).

    With candidates, a result that the op may write in place does not count. Among the storages that
    some op copies to or from another one, only the largest that the op accesses counts.

    Examples
    --------
    >>> from cpplan.model.graph import Op, Tensor
    >>> from cpplan.aliasing.alias_candidates import find_candidates
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")
    >>> relu = Op("relu", inputs=("x",), outputs=("y",), in_place=(("y", "x"),))
    >>> graph = Graph("g", tensors, (relu,))
    >>> accessed_bound(graph, Residency()).value
    16
    >>> accessed_bound(graph, Residency(), find_candidates(graph, Residency())).value
    8
    """
    size = {t.name: t.nbytes for t in graph.tensors if graph.is_storage(t.name)}
    for name in outside_storages(graph, residency):
        size[name] = 0
    copied: set[str] = set()
    written: dict[int, set[str]] = {}
    for candidate in candidates:
        if candidate.in_place:
            written.setdefault(candidate.op, set()).add(candidate.inner)
        else:
            copied |= {candidate.inner, candidate.outer}
    best, root = 0, graph.root
    for number, op in enumerate(graph.ops):
        accessed = {root[name][0] for name in op.inputs + op.outputs + op.workspaces}
        accessed -= written.get(number, set())
        need = sum(size[name] for name in accessed - copied)
        best = max(best, need + max((size[name] for name in accessed & copied), default=0))
    return Bound(best, ACCESSED, None)
