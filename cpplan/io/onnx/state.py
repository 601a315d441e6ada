"""ONNX nodes that must not run again, since they update state or draw random numbers.

In ONNX, the new value of a state is a separate output. Batch normalisation in training mode, for
example, computes the new running statistics (outputs) from the old ones without changing these:
running it again gives the same values. The same holds for the optimizers of
``ai.onnx.preview.training``, whose outputs are the new weights and moments. There is one exception:
before opset 7 the running statistics of BatchNormalization "must be in-place with" the old ones,
and a second run would update them twice. (ONNX operator specifications, BatchNormalization-1, -6,
-7, -9, -14; Adagrad-1, Adam-1, Momentum-1.)

Random nodes never run again, even with a seed: the specification calls it the "seed to the random
generator", and does not say that every run starts from it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from cpplan.io.onnx.types import bodies_of
from cpplan.io.onnx.views import is_random, is_standard

if TYPE_CHECKING:
    import onnx


def may_run_again(node: onnx.NodeProto, false: Collection[str], opset: int) -> bool:
    """True if running the node and its bodies again gives the same values."""
    return not is_random(node, false, opset) and not _overwrites(node, opset)


def trains(node: onnx.NodeProto, opset: int) -> bool:
    """True if a BatchNormalization uses the statistics of its input.

    Before opset 14, this follows from the node's outputs.
    """
    if opset >= 14:
        return any(a.name == "training_mode" and a.i for a in node.attribute)
    return any(node.output[1:])


def _overwrites(node: onnx.NodeProto, opset: int) -> bool:
    """True if the node, or a node of its bodies, updates an input in place."""
    if opset < 7 and is_standard(node) and node.op_type == "BatchNormalization":
        return any(node.output[1:3])
    return any(_overwrites(inner, opset) for body in bodies_of(node) for inner in body.node)
