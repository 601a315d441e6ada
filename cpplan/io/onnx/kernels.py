"""Kernels for single ONNX nodes: the reference kernels of ``onnx``, and some of our own.

The reference evaluator also runs the nodes of bodies, so it is given our kernels, and the forms of
older opsets that it does not know, as operators (:func:`_operators`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.older import Arrays, restate, restated_kinds
from cpplan.io.onnx.own_kernels import OURS, OURS_ALONE, own_kernel
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    import onnx

Kernel = Callable[[Mapping[str, Array]], dict[str, Array]]


class KernelError(InputError):
    """Error for a kernel that is missing or fails; names the op, its kind and the reason."""


def make_kernel(
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    opsets: Mapping[str, int],
    label: str | None = None,
    outputs: Sequence[str] | None = None,
) -> Kernel:
    """A function from the values that a node reads to the values that it writes, both by name.

    Values that only the node's bodies read are passed like the others. ``outputs`` are the outputs
    wanted; all if left out.

    Raises
    ------
    KernelError
        If there is no such kernel, or it fails, here or when it is called; names the op.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    label = label or node.name or node.op_type
    declared = [
        onnx.ValueInfoProto(name=name, type=types.get(name, onnx.TypeProto()))
        for name in dict.fromkeys(node.input)
        if name
    ]
    wanted = [name for name in (node.output if outputs is None else outputs) if name]
    results = [onnx.ValueInfoProto(name=name) for name in wanted]
    graph = onnx.helper.make_graph([node], "kernel", declared, results)
    try:
        operators = _operators(opsets.get("", 1))
        evaluator = ReferenceEvaluator(graph, opsets=dict(opsets), new_ops=operators)
    except Exception as error:  # kernels raise errors of any type
        raise _failure(label, node, opsets, error) from error

    def run(values: Mapping[str, Array]) -> dict[str, Array]:
        try:
            with np.errstate(all="ignore"):
                arrays = evaluator.run(wanted, {n: _read_only(a) for n, a in values.items()})
        except Exception as error:
            raise _failure(label, node, opsets, error) from error
        # A copy in C order: a kernel may return a view of its input, and the order of elements in
        # memory may change how the next kernel rounds.
        return {n: np.array(a, order="C") for n, a in zip(wanted, arrays, strict=True)}

    return run


@cache
def _operators(opset: int) -> list[Any]:
    """Classes of the operators that the reference evaluator runs differently at an opset."""
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops import load_op

    class Operator(OpRun):
        """Our own kernel if it takes the inputs, or else the reference kernel of a newer form."""

        op_domain = ""

        def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any]):
            made, newer, self._restated = restate(onnx_node, opset)
            self._own = own_kernel(made, newer)
            self._reference: Any = None
            if made.op_type not in OURS_ALONE:
                self._reference = load_op("", made.op_type, newer)(made, run_params)
            super().__init__(onnx_node, run_params)

        def _load_attributes(self) -> None:
            self.has_linked_attribute = False

        def need_context(self) -> bool:
            return self._reference is not None and bool(self._reference.need_context())

        def _run(self, *inputs: Array) -> tuple[Array, ...]:
            raise NotImplementedError

        def run(self, *inputs: Array, **more: Any) -> Sequence[Array]:
            def kernel(arrays: Arrays) -> Sequence[Array]:
                found = None if self._own is None else self._own(arrays)
                return self._reference.run(*arrays, **more) if found is None else found

            return kernel(inputs) if self._restated is None else self._restated(kernel, inputs)

    kinds = {*OURS, *OURS_ALONE, *restated_kinds(opset)}
    return [type(kind, (Operator,), {}) for kind in sorted(kinds)]


def defined_result(
    node: onnx.NodeProto, inputs: Mapping[str, Array], opsets: Mapping[str, int], output: str
) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Type and shape of an output by the operator's definition; ``None`` if it leaves them open."""
    import onnx

    domain = node.domain
    if domain not in opsets or not onnx.defs.has(node.op_type, domain):
        return None
    try:
        schema = onnx.defs.get_schema(node.op_type, opsets[domain], domain)
        data = {name: onnx.numpy_helper.from_array(array) for name, array in inputs.items()}
        types = {
            name: onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            for name, tensor in data.items()
        }
        imports = [onnx.helper.make_opsetid(*entry) for entry in opsets.items()]
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=imports
        )
    except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return None  # bodies with captures, or types without an ONNX counterpart
    result = found[output].tensor_type if output in found else onnx.TypeProto.Tensor()
    extents = tuple(dim.dim_value for dim in result.shape.dim if dim.HasField("dim_value"))
    if not result.HasField("shape") or len(extents) < len(result.shape.dim):
        return None
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(result.elem_type)), extents


def to_numpy(tensor: onnx.TensorProto | onnx.SparseTensorProto) -> Array:
    """The dense value of a constant.

    Raises
    ------
    InputError
        If its data does not fit its shape; names the tensor.
    """
    import onnx

    name = tensor.values.name if isinstance(tensor, onnx.SparseTensorProto) else tensor.name
    try:
        if isinstance(tensor, onnx.TensorProto):
            return onnx.numpy_helper.to_array(tensor)
        values = onnx.numpy_helper.to_array(tensor.values)
        indices = onnx.numpy_helper.to_array(tensor.indices)
        dense = np.zeros(tuple(tensor.dims), values.dtype)
        if indices.ndim == 2:
            dense[tuple(indices.T)] = values
        else:
            dense.reshape(-1)[indices] = values
        return dense
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise InputError(f"constant {name!r}: {one_line(error)}") from error


def _read_only(array: Array) -> Array:
    """A read-only view of an array: a kernel that writes to its inputs would spoil later checks."""
    view: Array = array.view()
    view.flags.writeable = False
    return view


def _failure(
    label: str, node: onnx.NodeProto, versions: Mapping[str, int], error: Exception
) -> KernelError:
    kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    opset = versions.get(node.domain, "unknown")
    what = f"op {label!r}: the reference kernel of {kind}, opset {opset}, cannot run it"
    return KernelError(f"{what}: {one_line(error)}")


def one_line(error: Exception) -> str:
    """The type and the text of an error, shortened."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 200 else f"{text[:197]}..."
