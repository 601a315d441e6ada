"""Kernels of ONNX Runtime's own operators: those of ONNX Runtime, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.kernels import Kernel, KernelError, one_line
from cpplan.model.errors import MissingExtraError

if TYPE_CHECKING:
    import onnx


def make_runtime_kernel(
    node: onnx.NodeProto, opsets: Mapping[str, int], label: str, outputs: Sequence[str]
) -> Kernel:
    """As :func:`cpplan.io.onnx.kernels.make_kernel`: a session of one node, on one thread.

    Raises
    ------
    KernelError
        If ONNX Runtime does not run the node, when it is called; names the op.
    MissingExtraError
        If the package ``onnxruntime`` is missing.
    """
    if find_spec("onnxruntime") is None:
        purpose = f"executing op {label!r} ({node.domain}.{node.op_type})"
        raise MissingExtraError("onnxruntime", "onnxruntime", purpose)
    wanted = [name for name in outputs if name]
    sessions: dict[tuple[Any, ...], Any] = {}

    def run(values: Mapping[str, Array]) -> dict[str, Array]:
        key = tuple((name, str(array.dtype), array.ndim) for name, array in values.items())
        try:
            if key not in sessions:
                sessions[key] = _session(node, opsets, values, wanted)
            arrays = sessions[key].run(wanted, {n: np.asarray(a) for n, a in values.items()})
        except Exception as error:  # ONNX Runtime raises errors of its own types
            kind = f"{node.domain}.{node.op_type}"
            what = f"op {label!r}: ONNX Runtime's kernel of {kind} cannot run it"
            raise KernelError(f"{what}: {one_line(error)}") from error
        return dict(zip(wanted, arrays, strict=True))

    return run


def _session(
    node: onnx.NodeProto,
    opsets: Mapping[str, int],
    values: Mapping[str, Array],
    wanted: Sequence[str],
) -> Any:
    import onnx
    import onnxruntime

    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim
        )
        for name, array in values.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in wanted]
    graph = onnx.helper.make_graph([node], "kernel", inputs, results)
    imports = [onnx.helper.make_opsetid(*entry) for entry in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
