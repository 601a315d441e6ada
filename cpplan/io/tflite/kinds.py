"""Kinds of a TFLite subgraph's tensors: input, output, constant, and so on."""

from __future__ import annotations

import math
from collections import Counter

from cpplan.io.tflite.model import FileSubgraph
from cpplan.model.errors import InputError


def find_kinds(source: FileSubgraph) -> dict[int, str]:
    """Tensor -> its kind, for the tensors that a subgraph's operators or its callers access.

    Raises
    ------
    InputError
        If an extent is only known at run time, or a tensor is read that has no value.
    """
    readers = Counter(k for o in source.operators for k in dict.fromkeys(o.inputs))
    written = {k for o in source.operators for k in o.outputs}
    kinds = {}
    accessed = {*readers, *written, *source.inputs, *source.outputs} - {-1}
    for k in sorted(accessed):
        tensor = source.tensors[k]
        if tensor.variable or (k not in written and tensor.data_bytes):
            kinds[k] = "constant"
            continue
        if -1 in tensor.signature:
            raise InputError(
                f"tensor {tensor.name!r}: axis {tensor.signature.index(-1)} is only known at run "
                "time: expected extents that follow from those of the inputs"
            )
        if k in source.outputs:
            kinds[k] = "output"
        elif k in source.inputs:
            kinds[k] = "input"
        elif k in written:
            kinds[k] = "intermediate"
        elif not math.prod(tensor.shape):
            kinds[k] = "constant"
        elif readers[k] == 1:
            kinds[k] = "workspace"
        else:
            raise InputError(f"tensor {tensor.name!r}: nothing gives it a value")
    return kinds
