"""One operator of a TFLite model, or a few in a row, as a model of their own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from cpplan.io.tflite.piece_operators import pack_model


def single_model(
    made: Any, operators: Sequence[Any], inputs: Sequence[int], outputs: Sequence[int]
) -> bytes:
    """The file of a model that runs these operators, with only their weights.

    Parameters
    ----------
    made
        The model in LiteRT's tables; it is not changed.
    operators
        Operators in their order; they access tensors of subgraph 0.
    inputs, outputs
        Numbers of the tensors of subgraph 0 that the new model begins and ends with.
    """
    bodies = len(made.subgraphs) > 1
    model, main = copy.copy(made), copy.copy(made.subgraphs[0])
    used = dict.fromkeys(
        int(k)
        for numbers in (inputs, outputs, *(n for o in operators for n in (o.inputs, o.outputs)))
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
        for name in ("inputs", "outputs"):
            numbers = [number.get(int(k), -1) for k in getattr(operator, name)]
            setattr(own, name, np.array(numbers, np.int32))
        own.intermediates = None
        main.operators.append(own)
    main.inputs = np.array([number[k] for k in inputs], np.int32)
    main.outputs = np.array([number[k] for k in outputs], np.int32)
    model.subgraphs = [main, *made.subgraphs[1:]]
    model.buffers = buffers
    model.metadata = model.metadataBuffer = model.signatureDefs = None
    return pack_model(model)
