"""Names of the tensors and ops of a TFLite model.

Files may give two tensors one name, and operators have no names at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.io.tflite.model import FileSubgraph, TfliteModel


def unique_names(model: TfliteModel) -> list[list[str]]:
    """Names of the tensors of every subgraph: those in the file, told apart where need be."""
    taken: set[str] = set()
    return [
        [
            free_name(tensor.name or f"tensor_{s}_{k}", taken)
            for k, tensor in enumerate(source.tensors)
        ]
        for s, source in enumerate(model.subgraphs)
    ]


def op_names(source: FileSubgraph, names: Sequence[str]) -> list[str]:
    """Names of a subgraph's ops: of the first tensor each writes, or else of its kind."""
    taken: set[str] = set()
    return [
        free_name(names[o.outputs[0]] if o.outputs and o.outputs[0] >= 0 else o.kind, taken)
        for o in source.operators
    ]


def free_name(name: str, taken: set[str]) -> str:
    """The name, or with the first number after it that makes it differ from those taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}#{number}"
    taken.add(free)
    return free
