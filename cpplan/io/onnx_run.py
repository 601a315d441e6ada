"""An ONNX model made ready to run op by op: constants, inputs and kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from cpplan.anf import to_anf
from cpplan.errors import InputError
from cpplan.graph import Op
from cpplan.io.onnx_graph import Source
from cpplan.io.onnx_kernels import Array, Kernel, make_kernel, numpy_dtype, to_bytes, to_numpy
from cpplan.io.onnx_model import opset_versions, translate_model
from cpplan.io.onnx_types import types_of
from cpplan.io.onnx_weights import draw_weights

if TYPE_CHECKING:
    import onnx


class OnnxRun:
    """A model with values for everything it starts from; see ``cpplan.execution.execute``.

    Attributes
    ----------
    graph
        The model as ``read_onnx`` gives it.
    output_names
        The model's outputs in its order.
    """

    def __init__(
        self,
        model: str | PathLike[str] | onnx.ModelProto,
        dims: Mapping[str, int],
        inputs: Mapping[str, Array],
        *,
        seed: int,
        weights: str,
    ):
        if weights not in ("model", "random"):
            raise InputError(f"weights={weights!r} is not understood: expected model or random")
        proto, self._translation = translate_model(model, dims, with_weights=True)
        self.graph = self._translation.graph
        self.output_names = tuple(value.name for value in proto.graph.output)
        self._types = types_of(proto.graph)
        self._opsets = opset_versions(proto)
        self._kernels: dict[str, Kernel] = {}
        self._draws: dict[str, Array] = {}
        rng = np.random.default_rng(seed)
        self._values = self._inputs(inputs, rng)
        drawn = {}
        if weights == "random":
            drawn = draw_weights(self.graph, self._translation.ops, rng)
        self._values.update(self._constants(proto.graph, drawn))

    def values(self) -> dict[str, Array]:
        """Every value of the unplanned run, constants and inputs included."""
        for op in to_anf(self.graph).ops:
            results = self.compute(op, {})
            if not op.recomputable:
                self._draws.update(results)
            self._values.update(results)
        return self._values

    def compute(self, op: Op, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """What an op computes from these inputs, and from the unplanned run's where left out.

        A random op draws once: asked again, it gives the same.

        Raises
        ------
        InputError
            If the reference kernels cannot run it.
        """
        if any(name in self._draws for name in op.outputs):
            return {name: self._draws[name] for name in op.outputs}
        source = self._translation.ops[op.name]
        if op.name not in self._kernels:
            self._kernels[op.name] = make_kernel(
                source.node, self._types, self._opsets, label=op.name, outputs=op.outputs
            )
        inputs = {n: arrays[n] if n in arrays else self._values[n] for n in source.reads}
        results = self._kernels[op.name](inputs)
        return {name: self._fit(name, result) for name, result in results.items()}

    def _fit(self, name: str, result: Array) -> Array:
        """The result as the graph declares it.

        A kernel may compute in a wider type, or join the rows of a loop without stacking them.
        """
        tensor = self.graph.tensor[name]
        assert tensor.dtype is not None
        result = result.astype(numpy_dtype(tensor.dtype), copy=False)
        if tensor.shape is not None and result.size == math.prod(tensor.shape):
            return result.reshape(tensor.shape)
        if to_bytes(result, tensor.dtype).size > tensor.nbytes:
            raise InputError(
                f"tensor {name!r}: its kernel gives it shape {result.shape}, "
                f"more than the {tensor.nbytes} B that the model declares"
            )
        return result

    def _inputs(self, given: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        free = {
            tensor.name: tensor
            for tensor in self.graph.tensors
            if tensor.kind in ("input", "output") and self.graph.source(tensor.name) is None
            if tensor.view_of is None
        }
        unknown = next((name for name in given if name not in free), None)
        if unknown is not None:
            raise InputError(
                f"the model has no input {unknown!r}: it has {', '.join(free) or 'none'}"
            )
        values = {}
        for name, tensor in free.items():
            assert tensor.dtype is not None
            assert tensor.shape is not None
            dtype = numpy_dtype(tensor.dtype)
            if name in given:
                array = np.array(given[name], order="C")
                if array.shape != tensor.shape or array.dtype != dtype:
                    raise InputError(
                        f"input {name!r} is {array.dtype}{list(array.shape)}: "
                        f"expected {dtype}{list(tensor.shape)}"
                    )
                values[name] = array
            elif dtype.kind in "biu" or tensor.dtype.startswith(("int", "uint")):
                values[name] = rng.integers(0, 2, tensor.shape).astype(dtype)
            else:
                values[name] = rng.standard_normal(tensor.shape, np.float32).astype(dtype)
        return values

    def _constants(self, graph: onnx.GraphProto, drawn: Mapping[str, Array]) -> dict[str, Array]:
        values = {tensor.name: to_numpy(tensor) for tensor in graph.initializer}
        values.update({sparse.values.name: to_numpy(sparse) for sparse in graph.sparse_initializer})
        values.update(drawn)
        for source in self._translation.constants:
            if not all(name in values for name in source.node.output if name):
                values.update(self._run_constant(source, values))
        return values

    def _run_constant(self, source: Source, values: Mapping[str, Array]) -> dict[str, Array]:
        kernel = make_kernel(source.node, self._types, self._opsets)
        return kernel({name: values[name] for name in source.reads})
