"""Nodes of an ONNX model that run again: one copy of the node for each run, with new names.

In ONNX every name is written once. So each run writes names of its own, and a reader reads the
names of the last run before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cpplan.io.onnx.captures import reads_of, rebind
from cpplan.io.onnx.names import FreshNames, tensor_names

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
    fresh_node, fresh = FreshNames(runs), FreshNames(tensor_names(graph, nodes))
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
            inside = partial(fresh.name, number=run) if run else str
            rebind(node, newest, inside)
        if run:
            node.name = fresh_node.name(original.name, run)
        for k, name in enumerate(original.output):
            if last and name:
                kept = run == (last if name in results else 0)
                newest[name] = name if kept else fresh.name(name, run)
                node.output[k] = newest[name]
                copies.setdefault(name, []).extend(() if kept else [newest[name]])
        bound.append(node)
    _describe(graph, copies)
    return bound


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
