"""In-place pairs of torch ops: results that may be written over an argument.

Such a pair needs two things. First, element ``k`` of the result depends on no element of that
argument but element ``k``. This holds for ops that torch tags as point-wise, for some ops without
the tag, for batch norms with given statistics, and for ops that write into a copy of their first
argument. Second, the argument has the layout of the result, and so has every other argument of the
op in the same storage.

If only one op accesses a node's arguments, the node counts as that op: ``operator.add`` and
``torch.nn.ReLU`` count as ``aten.add`` and ``aten.relu``. As with ONNX, softmax and the other
normalisations are left out: they need a whole row before they can write any of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cpplan.io.torch.effects import Call, Effects, only_kernel, storage_of
from cpplan.io.torch.layouts import Layouts
from cpplan.io.torch.values import tensors_in

# Ops that are point-wise, but lack the tag. The backward passes of binary cross-entropy and soft
# margin loss are missing: they read an argument after they have written.
_POINTWISE = frozenset(
    """
    elu_backward floor_divide hardsigmoid_backward hardswish hardswish_backward hardtanh_backward
    huber_loss_backward leaky_relu_backward mse_loss_backward smooth_l1_loss_backward
    softplus_backward
    """.split()  # noqa: SIM905
)
# Ops that copy their first argument and then write some elements of the copy.
_OF_FIRST = frozenset(
    """
    copy diagonal_scatter fill index_add index_copy index_fill index_put masked_fill masked_scatter
    scatter scatter_add select_scatter slice_scatter tril triu
    """.split()  # noqa: SIM905
)
# Batch norms; with given statistics, all results but the first are empty.
_OF_GIVEN = "_native_batch_norm_legit_no_training"
_BATCH_NORMS = frozenset(("_native_batch_norm_legit", "native_batch_norm", _OF_GIVEN))


def in_place_pairs(
    effects: Effects,
    reads: Sequence[tuple[torch.Tensor, str]],
    outputs: Sequence[str],
    layouts: Layouts,
) -> tuple[tuple[str, str], ...]:
    """``(result, argument)`` pairs: the kernel may write this result over that argument.

    Parameters
    ----------
    reads
        The tensors that the node reads, and their names.
    outputs
        Names of its results; the first may be written over an argument.
    """
    roots = {storage_of(tensor): layouts.root_of(name) for tensor, name in reads}
    call = only_kernel(effects, roots)
    if call is None or not outputs:
        return ()
    output, result = outputs[0], layouts.value_of(outputs[0])
    if layouts.root_of(output) != output or not layouts.nbytes(output):
        return ()
    overwritable = _overwritable(call)
    spoilt: set[str] = set()
    begins: dict[str, set[str]] = {}
    for argument, value in call.args.items():
        for tensor in tensors_in(value):
            root = roots.get(storage_of(tensor))
            if root is None:
                continue
            if argument in overwritable and _layout(tensor) == _layout(result):
                begins.setdefault(root, set()).add(str(tensor.storage_offset()))
            else:
                spoilt.add(root)
    return tuple(
        (output, name)
        for name, tensor in {name: tensor for tensor, name in reads}.items()
        if _layout(tensor) == _layout(result)
        and not layouts.is_constant(name)
        and layouts.root_of(name) not in spoilt
        and begins.get(layouts.root_of(name)) == {str(tensor.storage_offset())}
        and layouts.nbytes(name) == layouts.nbytes(output)
    )


def _overwritable(call: Call) -> tuple[str, ...]:
    """Names of the arguments that the op's first result may replace, if they fit."""
    kind, names = call.op._overloadpacket.__name__, tuple(call.args)
    if kind in _BATCH_NORMS:
        return names[:1] if kind == _OF_GIVEN or not call.args["training"] else ()
    if not isinstance(call.result, torch.Tensor):
        return ()
    if kind in _OF_FIRST:
        return names[:1]
    return names if kind in _POINTWISE or torch.Tag.pointwise in call.op.tags else ()


def _layout(value: torch.Tensor) -> tuple[Any, ...]:
    """Extents and strides, as text: comparing symbolic ones would add assumptions to them."""
    return value.element_size(), str(tuple(value.shape)), str(tuple(value.stride()))
