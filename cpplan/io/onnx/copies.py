"""Nodes of an ONNX model that run again: one copy of the node for each run, with new names.

In ONNX every name is written once. So each run writes names of its own, and a reader reads the
names of the last run before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cpplan.io.onnx.captures import reads_of, rebind
from cpplan.io.onnx.types import bodies_of

if TYPE_CHECKING:
    import onnx


def copy_repeated(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes, with a copy for each run after the first; adds the copies' types to the graph.

    The k-th further run of node ``conv`` is ``conv~k`` and writes ``out~k``. For an output of the
    graph, the last run writes the output's own name, and earlier runs write ``out~0``, ``out~1``,
    …. Tensors of the bodies are renamed like outputs. If the model already has such a name, the
    next free number is taken.

    Parameters
    ----------
    graph
        The graph of the nodes; types and quantization notes of copied tensors are added to it.
    nodes
        Nodes in the order in which they run, with unique names; a node that runs again is repeated.
    """
    runs = Counter(node.name for node in nodes)
    if len(runs) == len(nodes):
        return list(nodes)
    results = {value.name for value in graph.output}
    node_names, tensor_names = _Names(runs), _Names(_tensor_names(graph, nodes))
    done: Counter[str] = Counter()
    newest: dict[str, str] = {}
    copies: dict[str, list[str]] = {}
    bound = []
    for original in nodes:
        run, last = done[original.name], runs[original.name] - 1
        done[original.name] += 1
        node = original
        if last or not newest.keys().isdisjoint(reads_of(original)):
            node = type(original)()
            node.CopyFrom(original)
            # ONNX's inference fails if the bodies of two nodes use the same name.
            inside = partial(tensor_names.fresh, number=run) if run else str
            rebind(node, newest, inside)
        if run:
            node.name = node_names.fresh(original.name, run)
        for k, name in enumerate(original.output):
            if last and name:
                kept = run == (last if name in results else 0)
                newest[name] = name if kept else tensor_names.fresh(name, run)
                node.output[k] = newest[name]
                copies.setdefault(name, []).extend(() if kept else [newest[name]])
        bound.append(node)
    _describe(graph, copies)
    return bound


class _Names:
    """A supply of names ``name~number``, each used once and none already taken."""

    def __init__(self, taken: Iterable[str]):
        self.taken = set(taken)

    def fresh(self, name: str, number: int) -> str:
        while (found := f"{name}~{number}") in self.taken:
            number += 1
        self.taken.add(found)
        return found


def _tensor_names(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Every name that a tensor of the graph or of a body has, or may have."""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield value.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for node in nodes:
        yield from (*node.input, *node.output)
        for body in bodies_of(node):
            yield from _tensor_names(body, body.node)


def _describe(graph: onnx.GraphProto, copies: Mapping[str, Sequence[str]]) -> None:
    """Give copies the graph's types and quantization notes of their originals."""
    values = {value.name: value for value in (*graph.output, *graph.value_info)}
    for tensor, names in copies.items():
        for name in names if tensor in values else ():
            graph.value_info.add().CopyFrom(values[tensor])
            graph.value_info[-1].name = name
    for note in tuple(graph.quantization_annotation):
        for name in copies.get(note.tensor_name, ()):
            graph.quantization_annotation.add().CopyFrom(note)
            graph.quantization_annotation[-1].tensor_name = name
