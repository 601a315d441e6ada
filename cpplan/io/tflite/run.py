"""A TFLite model made ready to run op by op, by LiteRT's reference kernels.

The unplanned run is a run of the whole model. An op, or a piece of an op, runs as a model of its
own with the weights that it needs. Reference kernels compute each element of a result in a fixed
order, so that pieces compute the same bytes as the whole, also for floats. Where LiteRT has no
reference kernel of an operator, its other kernels run, which serve for whole operators only.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.litert_process import shapes_by_litert
from cpplan.io.pieces import Box, PieceWork, slices
from cpplan.io.tflite.extents import bind_extents
from cpplan.io.tflite.graph import translate
from cpplan.io.tflite.model import naming, parse_model
from cpplan.io.tflite.operators import is_stateful
from cpplan.io.tflite.piece_operators import NoOperatorError, PieceOperators, check_litert
from cpplan.io.tflite.scratch import REFERENCE, check_kernels
from cpplan.io.tflite.single import single_model
from cpplan.model.errors import InputError
from cpplan.model.graph import Op
from cpplan.model.names import name_of_file
from cpplan.verification.tensor_bytes import Array

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter


class TfliteRun:
    """A model with values for its inputs and constants, as ``execute`` runs it.

    See :class:`cpplan.verification.execution.ModelRun` and
    :class:`cpplan.io.execution.DividedRun`.

    Parameters
    ----------
    model
        A file.
    dims
        Extents of axes that the file leaves open.
    inputs
        Values of inputs; other inputs are random, over the whole range of small integers.
    seed
        Seed of random inputs.
    weights
        ``"model"``: the weights in the file.
    ordered
        Not needed: these kernels always add up in a fixed order.
    kernels
        Kernels that were planned for, as in :func:`~cpplan.io.tflite.read_tflite`.

    Attributes
    ----------
    graph
        The model as ``read_tflite`` gives it.
    output_names
        The model's outputs in its order.

    Raises
    ------
    InputError
        If the file cannot be read or run, an input does not match, or an operator keeps state.
    MissingExtraError
        If the package ``tflite`` or ``ai-edge-litert`` is missing.
    """

    def __init__(
        self,
        model: str | PathLike[str],
        dims: Mapping[str, int],
        inputs: Mapping[str, Array],
        *,
        seed: int,
        weights: str,
        ordered: bool = False,
        kernels: str | None = None,
    ):
        check_litert("executing TFLite models")
        from ai_edge_litert import schema_py_generated as schema

        with naming(model):
            if weights != "model":
                raise InputError(f"weights={weights!r}: a TFLite model runs with those in its file")
            self._file = bind_extents(parse_model(model), dims)
            kernels = kernels or REFERENCE
            check_kernels(kernels)
            self._translation = translate(self._file, name_of_file(model), kernels=kernels)
            self.graph, self._source = self._translation.graph, model
            source = self._file.subgraphs[0]
            kept = next((o.kind for o in source.operators if is_stateful(o)), None)
            kept = kept or next((t.name for t in source.tensors if t.variable), None)
            if kept is not None:
                raise InputError(f"{kept} keeps state from run to run: it cannot be executed")
            made: Any = schema.ModelT.InitFromPackedBuf(bytearray(self._file.data), 0)
            for tensor, bound in zip(made.subgraphs[0].tensors, source.tensors, strict=True):
                tensor.shape = np.array(bound.shape, np.int32)
            self._made = made
            self._number = {n: k for n, (s, k) in self._translation.keys.items() if s == 0}
            names = {k: name for name, k in self._number.items()}
            self.output_names = tuple(names[k] for k in source.outputs)
            self._given = [names[k] for k in source.inputs]
            self._values = self._inputs(inputs, np.random.default_rng(seed))
        self._kernels: dict[str, _Kernel] = {}
        # Why the model cannot run by reference kernels.
        self._refusal: InputError | None = None

    def values(self) -> Mapping[str, Array]:
        """Every value of the unplanned run of the whole model, constants and inputs included."""
        source = self._file.subgraphs[0]
        with naming(self._source):
            shapes = {k: list(source.tensors[k].shape) for k in source.inputs}
            self._refusal = _refusal_of_reference(self._file.data, shapes)
            whole = _interpreter(self._file.data, shapes, reference=self._refusal is None)
            for name in self._given:
                whole.set_tensor(self._number[name], self._values[name])
            _invoke(whole)
            # Loops do not compute results that nothing reads, unless these end the model.
            read = {*self.output_names, *(name for op in self.graph.ops for name in op.inputs)}
            for tensor in self.graph.tensors:
                known = tensor.kind == "workspace" or tensor.name in self._values
                if not known and tensor.name in read:
                    self._values[tensor.name] = whole.get_tensor(self._number[tensor.name])
            for op in self.graph.ops:
                if not read.issuperset(op.outputs):
                    self._values = {**self.compute(op, {}), **self._values}
        return self._values

    def compute(self, op: Op, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run an op on these inputs; inputs left out have their values of the unplanned run."""
        operator = self._made.subgraphs[0].operators[self._translation.operators[op.name]]
        inputs = [n for n in dict.fromkeys(op.inputs) if self.graph.tensor[n].kind != "constant"]
        with naming(self._source):
            if op.name not in self._kernels:
                ends = [[self._number[name] for name in names] for names in (inputs, op.outputs)]
                self._kernels[op.name] = _Kernel(
                    self._made, [operator], *ends, reference=self._refusal is None
                )
            results = self._kernels[op.name].run(
                [arrays[name] if name in arrays else self._values[name] for name in inputs]
            )
        return dict(zip(op.outputs, results, strict=True))

    def output(self, name: str, value: Array) -> Array:
        """An output in the form that the caller gets, from its value."""
        return value

    def compute_piece(
        self, work: PieceWork, parts: Mapping[str, Array], sums: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """Parts of an op's outputs that a piece computes from parts of its inputs.

        If no operator computes the piece, the whole operator runs on inputs that are zero outside
        the parts. No TFLite operator adds up in pieces, so ``sums`` is empty.
        """
        assert not sums
        with naming(self._source):
            if self._refusal is not None:
                raise InputError(f"pieces run by reference kernels alone: {self._refusal}")
            try:
                return self._piece(work, parts)
            except NoOperatorError:
                inputs = {}
                for name, part in parts.items():
                    inputs[name] = np.zeros_like(self._values[name])
                    inputs[name][slices(work.boxes[name])] = part
        results = self.compute(work.op, inputs)
        return {n: a[slices(work.boxes[n])] for n, a in results.items() if n in work.boxes}

    def _piece(self, work: PieceWork, parts: Mapping[str, Array]) -> dict[str, Array]:
        """The parts that the operator of a piece computes."""
        made, main = copy.copy(self._made), copy.copy(self._made.subgraphs[0])
        main.tensors, made.buffers = list(main.tensors), list(made.buffers)
        made.operatorCodes = [copy.copy(code) for code in made.operatorCodes]
        made.subgraphs = [main, *made.subgraphs[1:]]
        adding = PieceOperators(self._file, self._translation, made)
        inputs: dict[str, int] = {}
        outputs: dict[int, int] = {}

        def read(tensor: str, box: Box) -> int:
            if tensor not in inputs:
                shape = [high - low for low, high in box]
                inputs[tensor] = adding.tensor(self._number[tensor], f"{tensor} part", shape)
            return inputs[tensor]

        def result(like: int, shape: Sequence[int]) -> int:
            outputs[like] = adding.tensor(like, "piece", shape)
            return outputs[like]

        adding.piece(work, read, result)
        written = [name for name in work.op.outputs if self._number[name] in outputs]
        ends = list(inputs.values()), [outputs[self._number[name]] for name in written]
        kernel = _Kernel(made, adding.new, *ends)
        return dict(zip(written, kernel.run([parts[name] for name in inputs]), strict=True))

    def _inputs(self, given: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        unknown = next((name for name in given if name not in self._given), None)
        if unknown is not None:
            has = ", ".join(self._given) or "none"
            raise InputError(f"the model has no input {unknown!r}: it has {has}")
        values: dict[str, Array] = {}
        for name in self._given:
            source = self._file.subgraphs[0].tensors[self._number[name]]
            dtype = np.dtype(source.dtype)
            if name in given:
                values[name] = np.array(given[name], order="C")
                if values[name].shape != source.shape or values[name].dtype != dtype:
                    raise InputError(
                        f"input {name!r} is {values[name].dtype}{list(values[name].shape)}: "
                        f"expected {dtype}{list(source.shape)}"
                    )
            elif dtype.kind in "iu" and dtype.itemsize < 4 and source.scales:
                low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
                values[name] = rng.integers(low, high + 1, source.shape).astype(dtype)
            elif dtype.kind in "biu":
                values[name] = rng.integers(0, 2, source.shape).astype(dtype)
            else:
                values[name] = rng.standard_normal(source.shape, np.float32).astype(dtype)
        return values


class _Kernel:
    """LiteRT's interpreter of a few operators as a model of their own."""

    def __init__(
        self,
        made: Any,
        operators: Sequence[Any],
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        reference: bool = True,
    ):
        model = single_model(made, operators, inputs, outputs)
        self._run = _interpreter(model, {}, reference=reference)
        self._inputs = [entry["index"] for entry in self._run.get_input_details()]
        self._outputs = [entry["index"] for entry in self._run.get_output_details()]

    def run(self, values: Sequence[Array]) -> list[Array]:
        """The outputs, for these inputs."""
        for index, value in zip(self._inputs, values, strict=True):
            self._run.set_tensor(index, np.array(value, order="C"))
        _invoke(self._run)
        return [self._run.get_tensor(index) for index in self._outputs]


def _refusal_of_reference(data: bytes, shapes: Mapping[int, list[int]]) -> InputError | None:
    """Why a model cannot run by reference kernels, if it can by others; raise if it cannot."""
    try:
        shapes_by_litert(data, shapes, reference=True)
    except InputError as error:
        try:
            shapes_by_litert(data, shapes)
        except InputError as other:
            raise InputError(f"the runtime refuses it: {other}") from None
        return error
    return None


def _interpreter(
    data: bytes, shapes: Mapping[int, list[int]], *, reference: bool = True
) -> Interpreter:
    """LiteRT with its reference kernels, or with others, and with inputs of these shapes."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kinds = OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    with _refusals():
        made = Interpreter(
            model_content=data,
            experimental_op_resolver_type=kinds[0 if reference else 1],
            experimental_preserve_all_tensors=True,
        )
        for k, shape in shapes.items():
            made.resize_tensor_input(k, shape)
        made.allocate_tensors()
    return made


def _invoke(interpreter: Interpreter) -> None:
    with _refusals():
        interpreter.invoke()


@contextmanager
def _refusals() -> Iterator[None]:
    """The runtime's errors as one line, which says what it refuses."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise InputError(f"the runtime refuses it: {' '.join(str(error).split())}") from error
