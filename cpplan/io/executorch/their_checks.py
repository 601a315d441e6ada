"""ExecuTorch's own ``Verifier``, called where its passes do not call it.

``MemoryPlanningPass`` has it check the layouts of the default algorithm only, and those only where
log messages for debugging are on.
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
    """Check that no two planned specs of a module that are alive at once share bytes.

    Whether inputs, outputs and mutable buffers are planned is seen from ``planned``. Where the
    module's specs lie on several devices and those of others are not planned yet, nothing is
    checked. With ``ends``, also that of inputs and of outputs all or none have a place.

    Raises
    ------
    VerificationError
        Says what the verifier says.
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
