"""Some operators of a TFLite model as a model of their own, with the tensors that they access."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from cpplan.io.tflite.piece_operators import pack_model


def single_model(
    made: Any,
    operators: Sequence[Any],
    inputs: Sequence[int],
    outputs: Sequence[int],
    metadata: Sequence[Any] = (),
) -> bytes:
    """The file of a model that runs these operators, with only their tensors and weights.

    Parameters
    ----------
    made
        The model in LiteRT's tables; it is not changed.
    operators
        Operators in their order; they access tensors of subgraph 0.
    inputs, outputs
        Numbers of the tensors of subgraph 0 that the new model begins and ends with.
    metadata
        Entries of the model's metadata that the new model has, too.
    """
    bodies = len(made.subgraphs) > 1
    model, main = copy.copy(made), copy.copy(made.subgraphs[0])
    used = dict.fromkeys(
        int(k)
        for numbers in (inputs, outputs, *(n for o in operators for n in _numbers(o).values()))
        for k in numbers
        if k >= 0
    )
    number = {k: new for new, k in enumerate(used)}
    # Operators with bodies refer to buffers of other subgraphs.
    buffers = list(made.buffers) if bodies else [made.buffers[0]]
    at: dict[int, int] = {k: k for k in range(len(buffers))}
    main.tensors = []
    for k in used:
        tensor = copy.copy(made.subgraphs[0].tensors[k])
        if tensor.buffer not in at:
            at[tensor.buffer] = len(buffers)
            buffers.append(made.buffers[tensor.buffer])
        tensor.buffer, tensor.shapeSignature = at[tensor.buffer], None
        main.tensors.append(tensor)
    main.operators = []
    for operator in operators:
        own = copy.copy(operator)
        for name, numbers in _numbers(operator).items():
            setattr(own, name, np.array([number.get(int(k), -1) for k in numbers], np.int32))
        main.operators.append(own)
    main.inputs = np.array([number[k] for k in inputs], np.int32)
    main.outputs = np.array([number[k] for k in outputs], np.int32)
    model.subgraphs = [main, *made.subgraphs[1:]]
    model.buffers, model.metadata = buffers, []
    for entry in metadata:
        kept = copy.copy(entry)
        kept.buffer = at[entry.buffer] if entry.buffer in at else len(buffers)
        if kept.buffer == len(buffers):
            buffers.append(made.buffers[entry.buffer])
        model.metadata.append(kept)
    model.metadataBuffer = model.signatureDefs = None
    return pack_model(model)


def _numbers(operator: Any) -> dict[str, Sequence[int]]:
    """Numbers of an operator's tensors."""
    names = ("inputs", "outputs", "intermediates")
    return {name: found for name in names if (found := getattr(operator, name)) is not None}
