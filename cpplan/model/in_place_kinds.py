"""In-place pairs of whole kinds of op, as the caller states them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op
from cpplan.model.printable import quote

if TYPE_CHECKING:
    from cpplan.model.shapes import Dim


def with_in_place(graph: Graph, kinds: Mapping[str, bool]) -> Graph:
    """The graph with other ``in_place`` pairs for some kinds of op, in its bodies too.

    Parameters
    ----------
    kinds
        Kind of op -> True if its kernels may write over their inputs. True: each op of the kind
        gets a pair for every input that has as many bytes as an output, at all sizes. False: ops of
        the kind get no pairs. Ops of other kinds keep their pairs. The caller vouches that the
        kernels read each byte before they write the byte at the same address.

    Constants, empty tensors, outputs that are views, and ops with bodies get no pairs.

    Raises
    ------
    InputError
        If no op of the graph has such a kind, or its value is not a bool.
    """
    if not isinstance(kinds, Mapping):
        raise InputError(f"in_place must map kinds of op to true or false, not {quote(kinds)}")
    known = dict.fromkeys(_kinds(graph))
    for kind, allowed in kinds.items():
        if kind not in known:
            raise InputError(
                f"in_place: the graph has no op of kind {quote(kind)}: it has "
                f"{', '.join(sorted(map(repr, known))) or 'no ops'}"
            )
        if not isinstance(allowed, bool):
            raise InputError(f"in_place: {kind!r} must be true or false, not {quote(allowed)}")
    return _replace_pairs(graph, kinds, frozenset())


def _kinds(graph: Graph) -> Iterator[str]:
    for op in graph.ops:
        yield op.kind
        for body in op.bodies:
            yield from _kinds(body)


def _replace_pairs(graph: Graph, kinds: Mapping[str, bool], captured: frozenset[str]) -> Graph:
    """The graph with new pairs; ``captured`` names outer constants that a body lists as inputs."""
    constant = captured | {t.name for t in graph.tensors if t.kind == "constant"}

    def op(old: Op) -> Op:
        inner = constant.intersection(old.tensors)
        bodies = tuple(_replace_pairs(body, kinds, inner) for body in old.bodies)
        pairs = old.in_place
        if old.kind in kinds:
            pairs = tuple(_equal_pairs(graph, old, constant)) if kinds[old.kind] else ()
        return replace(old, in_place=pairs, bodies=bodies)

    return replace(graph, ops=tuple(map(op, graph.ops)))


def _equal_pairs(graph: Graph, op: Op, constant: frozenset[str]) -> Iterator[tuple[str, str]]:
    if op.bodies:
        return
    symbols = graph.symbols

    def nbytes(name: str) -> int | Dim:
        tensor = graph.tensor[name]
        return tensor.nbytes if symbols is None else symbols.size(tensor)

    for output in op.outputs:
        size, view_of = nbytes(output), graph.tensor[output].view_of
        for source in dict.fromkeys(op.inputs):
            movable = graph.root[source][0] not in constant
            fits = movable and nbytes(source) == size != 0
            if fits and view_of is None:
                yield output, source
