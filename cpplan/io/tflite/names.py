"""Names of the tensors and ops of a TFLite model.

In a file, two tensors may have the same name, and operators have no names.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.io.tflite.model import FileSubgraph, TfliteModel


def unique_names(model: TfliteModel) -> list[list[str]]:
    """Names of the tensors of every subgraph: as in the file, made unique if necessary."""
    taken: set[str] = set()
    return [
        [
            free_name(tensor.name or f"tensor_{s}_{k}", taken)
            for k, tensor in enumerate(source.tensors)
        ]
        for s, source in enumerate(model.subgraphs)
    ]


def op_names(source: FileSubgraph, names: Sequence[str]) -> list[str]:
    """Names of a subgraph's ops: the name of the first tensor written, or else the kind."""
    taken: set[str] = set()
    return [
        free_name(names[o.outputs[0]] if o.outputs and o.outputs[0] >= 0 else o.kind, taken)
        for o in source.operators
    ]


def free_name(name: str, taken: set[str]) -> str:
    """The name, followed by the first number that makes it unique if it is taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}#{number}"
    taken.add(free)
    return free
