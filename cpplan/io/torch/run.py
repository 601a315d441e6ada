"""A torch model made ready to run op by op: constants, inputs and torch's own kernels.

A tensor's value is the bytes of its storage from its first to its last element, so a view is a part
of its base. Every kernel gets copies of its arguments at aligned addresses, because only there do
equal arguments give equal bits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node, map_arg

from cpplan.io.torch import is_measured
from cpplan.io.torch.archive import read_archive
from cpplan.io.torch.effects import storage_of
from cpplan.io.torch.nodes import Names, is_part, names_in
from cpplan.io.torch.sources import last_line, open_source, reading_archive
from cpplan.io.torch.translation import naming, translate
from cpplan.io.torch.values import attribute_of, tensors_in, tensors_of
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.names import name_of_file
from cpplan.verification.tensor_bytes import Array


@dataclass(frozen=True)
class _Form:
    """Shape, strides and element type of a tensor, and its first element in its storage."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Form:
        return cls(tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype)

    def on(self, storage: torch.Tensor) -> torch.Tensor:
        """A tensor of this form over the bytes of a storage."""
        made = torch.empty(0, dtype=self.dtype)
        return made.set_(storage.untyped_storage(), self.offset, self.shape, self.stride)


class TorchRun:
    """A torch model with values of its inputs and constants, which ``execute`` runs.

    See :class:`cpplan.verification.execution.ModelRun`.

    Attributes
    ----------
    graph
        The model as ``read_torch`` gives it.
    output_names
        Names of the tensors that the model returns, in their order.

    Raises
    ------
    InputError
        If the model cannot be read, a size is symbolic, an input does not match, or a tensor is
        read after an op has overwritten its bytes.
    """

    def __init__(
        self,
        model: str | PathLike[str] | ExportedProgram | GraphModule,
        dims: Mapping[str, int],
        inputs: Mapping[str, Array],
        *,
        seed: int,
        weights: str,
        ordered: bool = False,
        kernels: str | None = None,
    ):
        if weights not in ("model", "random"):
            raise InputError(f"weights={weights!r} is not understood: expected model or random")
        if ordered:
            raise InputError(
                "plans in pieces cannot be executed for torch models: no kernel runs a piece"
            )
        source, name = model, None
        with naming(model):
            if isinstance(model, (str, PathLike)):
                name = name_of_file(model)
                with reading_archive():
                    source = read_archive(model, data=True, drawn=weights == "random")
            self._traced = open_source(source, dims)
            translation = translate(
                self._traced, name or self._traced.name, workspaces=is_measured(kernels)
            )
        self.graph, self._nodes, self._names = (
            translation.graph, translation.nodes, translation.names,
        )  # fmt: skip
        self._model, self._module = model, self._traced.module
        self._check_tensors()
        _check_overwritten(self.graph, translation.overwritten)
        [output] = self._module.graph.find_nodes(op="output")
        returned = (names_in(self._names.get(node)) for node in output.all_input_nodes)
        self.output_names = tuple(dict.fromkeys(name for names in returned for name in names))
        self._forms: dict[str, _Form] = {}
        self._values: dict[str, Array] = {}
        self._others: dict[Node, Any] = {}
        self._draws: dict[str, dict[str, Array]] = {}
        self._held = _tensors_held(source)
        self._redraws = weights == "random"
        self._seed, self._inputs = seed, dict(inputs)

    def values(self) -> dict[str, Array]:
        """All values of the unplanned run, constants and inputs included."""
        ops = {node: name for name, node in self._nodes.items()}
        rng = np.random.default_rng(self._seed)
        known = {node.name for node in self._module.graph.find_nodes(op="placeholder")}
        unknown = next((name for name in self._inputs if name not in known), None)
        if unknown is not None:
            raise InputError(
                f"the model has no input {unknown!r}: it has {', '.join(sorted(known)) or 'none'}"
            )
        with torch.no_grad(), torch.random.fork_rng(devices=[]), naming(self._model):
            torch.manual_seed(self._seed)
            for node in self._module.graph.nodes:
                if node.op == "placeholder":
                    self._keep(node, self._start(node, rng))
                elif node.op == "get_attr":
                    self._keep(node, attribute_of(self._module, node))
                elif node in ops:
                    op = self.graph.op[ops[node]]
                    self._keep_weights(op, node)
                    results = self._run(op, node, self._values, first=True)
                    if op.sequence is not None:
                        self._draws[op.name] = results
                    self._values.update(results)
                elif is_part(node, self._traced.values) and self._traced.values[node] is None:
                    self._others[node] = None  # a gradient that is not asked for
                elif node.op != "output" and not names_in(self._names.get(node)):
                    self._others[node] = self._call(node, self._value_of)
        return self._values

    def compute(self, op: Op, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Run an op on the given inputs, and on the unplanned run's values for all others.

        A random op draws once: every further run returns the same values.
        """
        if op.name in self._draws:
            return self._draws[op.name]
        with torch.no_grad(), naming(self._model):
            return self._run(op, self._nodes[op.name], {**self._values, **arrays}, first=False)

    def output(self, name: str, value: Array) -> Array:
        """An output's elements in the order of their indices, from its value.

        The bytes, if NumPy lacks the element type.
        """
        tensor = self._tensor(name, value)
        if tensor.dtype not in _NUMPY:
            return value
        elements: Array = tensor.numpy()
        return elements

    def _check_tensors(self) -> None:
        if self.graph.symbols is not None:
            raise InputError(
                "a model with symbolic sizes cannot be executed: give their values as dims"
            )
        for tensor in self.graph.tensors:
            if tensor.dtype is None and tensor.kind != "workspace":
                raise InputError(
                    f"tensor {tensor.name!r} has an element type that execution does not support"
                )

    def _start(self, node: Node, rng: np.random.Generator) -> Any:
        """Value of a placeholder: given by the caller, held by the model, or random."""
        like = self._traced.values[node]
        if not isinstance(like, torch.Tensor):
            return like
        shape = tuple(int(extent) for extent in like.shape)
        if node.name in self._inputs:
            given = torch.from_numpy(np.array(self._inputs[node.name], order="C"))
            if tuple(given.shape) != shape or given.dtype != like.dtype:
                raise InputError(
                    f"input {node.name!r} is {given.dtype}{list(given.shape)}: "
                    f"expected {like.dtype}{list(shape)}"
                )
            return given
        held = self._held.get(node.name)
        if held is not None and not (self._redraws and _is_weight(held)):
            return held
        if not (like.dtype.is_floating_point or like.dtype.is_complex):
            return torch.from_numpy(np.asarray(rng.integers(0, 2, shape))).to(like.dtype)
        drawn = torch.from_numpy(np.asarray(rng.standard_normal(shape, np.float32)))
        if node.name in self._traced.constants and len(shape) > 1:
            drawn = drawn * math.sqrt(2 / max(1, math.prod(shape[1:])))
        return drawn.to(like.dtype)

    def _keep(self, node: Node, value: Any) -> None:
        names = self._names.get(node)
        if isinstance(names, str) and isinstance(value, torch.Tensor):
            self._values[names] = self._laid_out(names, value, self._traced.values[node])
        else:
            self._others[node] = value

    def _keep_weights(self, op: Op, node: Node) -> None:
        """Store the parameters and buffers of the module that a node calls."""
        if node.op != "call_module":
            return
        for name, owned in tensors_of(self._module.get_submodule(str(node.target))).items():
            constant = f"{node.target}:{name}"
            if constant in op.inputs:
                self._values[constant] = self._laid_out(constant, owned, owned)

    def _run(
        self, op: Op, node: Node, arrays: Mapping[str, Array], *, first: bool
    ) -> dict[str, Array]:
        """The bytes of an op's results."""
        given = {name: self._tensor(name, arrays[name]) for name in op.inputs}
        storages = {storage_of(tensor): name for name, tensor in given.items()}

        def value_of(argument: Node) -> Any:
            if argument in self._others:
                return self._others[argument]
            return _filled(self._names[argument], given)

        found = self._call(node, value_of)
        names = names_in(self._names[node])
        if first and not names:
            self._others[node] = found
        likes = tensors_in(self._traced.values[node])
        results: dict[str, Array] = {}
        for name, result, like in zip(names, tensors_in(found), likes, strict=True):
            source = storages.get(storage_of(result))
            if self.graph.root[name][0] == name:  # no view, or one of no bytes
                results[name] = self._laid_out(name, result, like)
            elif source is None or self.graph.root[source][0] != self.graph.root[name][0]:
                raise VerificationError(
                    f"op {op.name!r}: tensor {name!r} is planned as a view, but its kernel makes "
                    "a new one"
                )
            else:
                self._forms[name] = _Form.of(result)
                results[name] = self._shown(name, result)
        return results

    def _value_of(self, argument: Node) -> Any:
        """The value of a node in the unplanned run."""
        if argument in self._others:
            return self._others[argument]
        names = self._names[argument]
        return _filled(
            names, {name: self._tensor(name, self._values[name]) for name in names_in(names)}
        )

    def _call(self, node: Node, value_of: Callable[[Node], Any]) -> Any:
        args, kwargs = map_arg((node.args, dict(node.kwargs)), value_of)
        try:
            if node.op == "call_function":
                found = node.target(*args, **kwargs)
                return found.zero_() if _is_unwritten(node) else found
            if node.op == "call_method":
                return operator.methodcaller(str(node.target), *args[1:], **kwargs)(args[0])
            return self._module.get_submodule(str(node.target))(*args, **kwargs)
        except Exception as error:  # whatever the kernel raises
            raise InputError(f"op {node.name!r} does not run: {last_line(error)}") from error

    def _laid_out(self, name: str, value: torch.Tensor, like: torch.Tensor) -> Array:
        """The bytes of a new tensor in the planned layout; between its elements they are zero."""
        if tuple(value.shape) != tuple(like.shape) or value.dtype != like.dtype:
            raise VerificationError(
                f"tensor {name!r} is {value.dtype}{list(value.shape)}, but it is planned as "
                f"{like.dtype}{list(like.shape)}"
            )
        form = _Form.of(like)
        begin = self.graph.root[name][1]
        if self.graph.tensor[name].view_of is not None:
            form = _Form(form.shape, form.stride, begin // value.element_size(), form.dtype)
        self._forms[name] = form
        laid = form.on(torch.zeros(self._storage_bytes(name), dtype=torch.uint8))
        laid.copy_(value)
        return self._shown(name, laid)

    def _shown(self, name: str, tensor: torch.Tensor) -> Array:
        """Bytes of a tensor in its storage; as its array if they are its elements in order."""
        begin, nbytes = self.graph.root[name][1], self.graph.tensor[name].nbytes
        whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        raw: Array = whole[begin : begin + nbytes].numpy().copy()
        plain = tensor.is_contiguous() and tensor.numel() * tensor.element_size() == nbytes
        if plain and tensor.dtype in _NUMPY:
            raw = raw.view(_NUMPY[tensor.dtype]).reshape(tuple(tensor.shape))
        return raw

    def _tensor(self, name: str, array: Array) -> torch.Tensor:
        """A tensor with these bytes, in a storage as large as the planned one."""
        begin = self.graph.root[name][1]
        storage = torch.zeros(self._storage_bytes(name), dtype=torch.uint8)
        raw = torch.from_numpy(np.array(array, order="C").reshape(-1).view(np.uint8))
        storage[begin : begin + raw.numel()] = raw
        return self._forms[name].on(storage)

    def _storage_bytes(self, name: str) -> int:
        return self.graph.tensor[self.graph.root[name][0]].nbytes


# Element types of torch that NumPy has, too.
_NUMPY = {
    dtype: torch.empty(0, dtype=dtype).numpy().dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.float32, torch.float64,
    )
}  # fmt: skip


def _is_unwritten(node: Node) -> bool:
    """True if a call returns memory as it is, which differs from run to run."""
    return getattr(node.target, "__name__", "").split(".")[0] in (
        "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    )  # fmt: skip


def _check_overwritten(graph: Graph, overwritten: Mapping[str, Sequence[str]]) -> None:
    """Raise if a tensor is used after an op has overwritten its bytes.

    A tensor has one value in an unplanned run. An op that overwrites a tensor (``relu_``) returns
    the new bytes under another name, and they may be read only by that name.
    """
    named: dict[str, set[str]] = {}
    for tensor in graph.tensors:
        if tensor.name not in graph.producer:
            named.setdefault(graph.root[tensor.name][0], set()).add(tensor.name)
    writer_of: dict[str, str] = {}

    def check(reader: str, name: str) -> None:
        if name in writer_of:
            raise InputError(
                f"{reader} reads {name!r} after op {writer_of[name]!r} has overwritten it: such a "
                "model cannot be executed"
            )

    for op in graph.ops:
        for name in op.inputs:
            check(f"op {op.name!r}", name)
        for name in overwritten.get(op.name, ()):
            root = graph.root[name][0]
            if graph.tensor[root].kind == "constant":
                continue
            places = {(graph.root[each], graph.tensor[each].nbytes) for each in op.outputs}
            alone = (graph.root[name], graph.tensor[name].nbytes) in places
            if graph.tensor[root].kind == "output" or not alone:
                raise InputError(
                    f"op {op.name!r} overwrites {name!r} without returning exactly these bytes: "
                    "such a model cannot be executed"
                )
            writer_of |= dict.fromkeys(named.pop(root, ()), op.name)
        for name in op.outputs:
            named.setdefault(graph.root[name][0], set()).add(name)
    for tensor in graph.tensors:
        if tensor.kind == "output":
            check("the caller", tensor.name)


def _tensors_held(source: object) -> dict[str, torch.Tensor]:
    """Placeholder -> parameter, buffer or constant that an exported program holds."""
    if not isinstance(source, ExportedProgram):
        return {}
    found = {
        spec.arg.name: source.state_dict.get(spec.target, source.constants.get(spec.target))
        for spec in source.graph_signature.input_specs
        if spec.target is not None
    }
    return {name: held for name, held in found.items() if isinstance(held, torch.Tensor)}


def _is_weight(tensor: torch.Tensor) -> bool:
    """True for a tensor that random weights replace: floats with two axes or more."""
    return bool(tensor.dtype.is_floating_point) and tensor.dim() > 1


def _filled(names: Names, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Nested names, each replaced by its tensor."""
    if isinstance(names, list):
        return [_filled(part, tensors) for part in names]
    if isinstance(names, dict):
        return {key: _filled(part, tensors) for key, part in names.items()}
    return None if names is None else tensors[names]
