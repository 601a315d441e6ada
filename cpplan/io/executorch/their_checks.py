"""ExecuTorch's own ``Verifier``, called for layouts that its passes do not check.

``MemoryPlanningPass`` calls it only for layouts of the default algorithm, and only if debug
messages are logged.
"""

from __future__ import annotations

from collections.abc import Collection

from executorch.exir.error import InternalError
from executorch.exir.memory_planning import (
    Verifier,
    collect_specs_from_nodes,
    get_graph_input_tensors,
    get_graph_output_tensors,
)
from executorch.exir.tensor import TensorSpec
from torch.export import ExportGraphSignature
from torch.fx import GraphModule

from cpplan.model.errors import VerificationError


def call_verifier(
    module: GraphModule,
    signature: ExportGraphSignature | None,
    planned: Collection[TensorSpec],
    *,
    ends: bool,
) -> None:
    """Check that no two planned specs of a module that are live at once share bytes.

    ``planned`` tells if inputs, outputs and mutable buffers are planned. If the module's specs lie
    on several devices, and the specs of other devices are not planned yet, nothing is checked. With
    ``ends``, also check that either all inputs or none have a place, and the same for outputs.

    Raises
    ------
    VerificationError
        If the verifier refuses the layout; with its message.
    """
    every, planned = set(_specs(module, signature)), set(planned)
    inputs = get_graph_input_tensors(module.graph.nodes, signature)
    outputs = get_graph_output_tensors(module.graph.nodes)
    buffers = every - set(_specs(module, signature, ignore_mutable_buffers=True))
    groups = [inputs - buffers, outputs - buffers, buffers]
    flags = [not every & group or bool(planned & group) for group in groups]
    for group, flag in zip(groups, flags, strict=True):
        every -= set() if flag else group
    if every != planned:
        return
    verifier = Verifier(module, *flags, signature)
    try:
        verifier.verify_storage_reuse()
        if ends:
            verifier.verify_graph_input_output()
    except (InternalError, AssertionError) as error:
        raise VerificationError(f"ExecuTorch's verifier: {error}") from error


def _specs(
    module: GraphModule,
    signature: ExportGraphSignature | None,
    *,
    ignore_mutable_buffers: bool = False,
) -> list[TensorSpec]:
    return list(
        collect_specs_from_nodes(
            module.graph.nodes,
            signature,
            ignore_mutable_buffers=ignore_mutable_buffers,
            ignore_out_var_node=False,
            do_assertion=False,
        )
    )
