"""In-place pairs of ExecuTorch's kernels: results that may be written over an argument.

These are the kernels of the portable and optimized libraries that compute element ``k`` of the
result from element ``k`` of an argument of the same shape, and read that element before they write.
The kernel gets two tensors with the same address, so this depends on its implementation; a test
runs each of them that way (``tests/io/executorch``). Kernels that read an argument more than once
(softmax, layer norm) are left out, and so is ``clone``, which would call ``memcpy`` with equal
source and target, undefined in C. The operators are not replaced by their in-place forms
(``aten::sigmoid_``), as ``reinplace_pass`` of ExecuTorch would do: the runtime of version 1.5.1 has
no kernels for them.

Arguments of a concatenation are not placed within its result: ``storage_base`` keeps all bytes of
the base live as long as any part is in use, which costs more bytes than it saves.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from executorch.exir.memory_planning import get_node_tensor_specs
from executorch.exir.tensor import TensorSpec
from torch.fx import Node

ELEMENTWISE = frozenset(
    {
        "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_not",
        "ceil", "clamp", "cos", "cosh", "div", "elu", "erf", "exp", "expm1", "floor", "fmod",
        "gelu", "hardtanh", "leaky_relu", "log", "log10", "log1p", "log2", "logical_not",
        "maximum", "minimum", "mul", "neg", "pow", "reciprocal", "relu", "remainder", "round",
        "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc",
    }
)  # fmt: skip
# Kinds with one result that counts, the first: the others are empty.
BATCH_NORM = "_native_batch_norm_legit_no_training"


def kind_of(node: Node) -> str:
    """The operator's name, without namespace and overload: ``relu`` of ``aten::relu.out``."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return str(getattr(node.target, "__name__", node.target))
    return str(schema.name).rpartition("::")[2]


def in_place_pairs(node: Node) -> Iterator[tuple[TensorSpec, TensorSpec]]:
    """``(result, argument)`` pairs of storages; the result may be written over the argument.

    The argument has the result's shape, element type and dimension order, and so has every other
    tensor of its storage that the kernel reads.
    """
    kind, written = kind_of(node), get_node_tensor_specs(node)
    if not isinstance(node.target, torch._ops.OpOverload) or not written:
        return
    if kind == BATCH_NORM:
        sources = [node.args[0]]
    elif kind in ELEMENTWISE and len(written) == 1:
        sources = list(node.args)
    else:
        return
    result = written[0]
    reads = [given for given in node.args if isinstance(given, Node)]
    alike: dict[TensorSpec, bool] = {}
    for given in reads:
        (storage,) = get_node_tensor_specs(given) or (None,)
        if storage is not None:
            alike[storage] = alike.get(storage, True) and _same_layout(given.meta["spec"], result)
    listed = {source for source in sources if isinstance(source, Node)}
    for given in reads:
        (storage,) = get_node_tensor_specs(given) or (None,)
        if given in listed and storage is not None and alike.pop(storage, False):
            yield result, storage


def _same_layout(spec: TensorSpec, other: TensorSpec) -> bool:
    return all(
        getattr(spec, field) == getattr(other, field)
        for field in ("shape", "dtype", "dim_order", "device", "device_index")
    )
