"""Values of the nodes of a graph module: tensors have shapes, but no data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.passes.shape_prop import TensorMetadata

from cpplan.model.errors import InputError, first_line

# Name of the module in which an exported program keeps its assumptions on input sizes.
CHECKS = "_guards_fn"


def find_values(
    module: GraphModule, example_inputs: Sequence[Any] | None
) -> tuple[dict[Node, Any], FakeTensorMode]:
    """The value of every node, and the mode in which their tensors were made.

    The values come from the example inputs or, if there are none, from the nodes' ``meta``, where
    the tracer has put them.

    Raises
    ------
    InputError
        If the module does not run on the example inputs, or a node has no shape.
    """
    if example_inputs is not None:
        if not isinstance(example_inputs, (tuple, list)):
            raise InputError(
                f"example_inputs: expected a tuple of inputs, not {type(example_inputs).__name__}"
            )
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        return _propagate(module, example_inputs, mode), mode
    traced = {node: _traced_value(node) for node in module.graph.nodes}
    for node in traced:
        if node.op == "get_attr":
            traced[node] = attribute_of(module, node)
    leaves = list(flatten(tuple(traced.values())))
    # All values are known, so no kernel needs to run on made-up data, which may be huge.
    mode = FakeTensorMode(
        shape_env=_environment(leaves), allow_non_fake_inputs=True, allow_fallback_kernels=False
    )
    with mode, sizes_left_open(mode):
        return {node: as_fake(value, mode) for node, value in traced.items()}, mode


def sizes_left_open(mode: FakeTensorMode) -> AbstractContextManager[None]:
    """Context in which running ops fixes no symbolic size.

    Without it, an op that needs a size as a number would replace the variable by the example's
    size, in the program, too.
    """
    environment = mode.shape_env
    return nullcontext() if environment is None else environment.suppress_guards()


def attribute_of(module: GraphModule, node: Node) -> Any:
    """The attribute that a ``get_attr`` node reads."""
    found: Any = module
    for part in str(node.target).split("."):
        found = getattr(found, part)
    return found


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def flatten(value: Any) -> Iterator[Any]:
    """The leaves of nested tuples, lists and dictionaries."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from flatten(part)
    elif isinstance(value, dict):
        yield from flatten(tuple(value.values()))
    else:
        yield value


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors among the leaves of a nested value."""
    return [leaf for leaf in flatten(value) if isinstance(leaf, torch.Tensor)]


def is_dense(tensor: torch.Tensor) -> bool:
    """True if the tensor has strides and a storage; sparse tensors have none."""
    return bool(tensor.layout is torch.strided)


def as_fake(value: Any, mode: FakeTensorMode) -> Any:
    """The value with its tensors replaced by tensors without data; call it inside the mode."""
    if type(value) in (tuple, list):
        return type(value)(as_fake(part, mode) for part in value)
    if isinstance(value, TensorMetadata):
        return torch.empty_strided(value.shape, value.stride, dtype=value.dtype)
    if not isinstance(value, torch.Tensor) or not is_dense(value):
        return value
    if isinstance(value, FakeTensor) and value.fake_mode is mode:
        return value
    shape, stride, offset = tuple(value.shape), value.stride(), value.storage_offset()
    if offset == 0 and all(isinstance(size, int) for size in (*shape, *stride)):
        return torch.empty_strided(shape, stride, dtype=value.dtype, device=value.device)
    elements = offset + sum((e - 1) * s for e, s in zip(shape, stride, strict=True)) + 1
    if any(isinstance(extent, int) and extent == 0 for extent in shape):
        elements = offset
    storage = torch.empty((elements,), dtype=value.dtype, device=value.device)
    return storage.as_strided(shape, stride, offset)


def _environment(leaves: Sequence[Any]) -> Any:
    """The shape environment of the symbolic sizes among the values, or ``None``."""
    for leaf in leaves:
        sizes = (*leaf.shape, *leaf.stride()) if isinstance(leaf, torch.Tensor) else (leaf,)
        for size in sizes:
            if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return size.node.shape_env
    return None


def _traced_value(node: Node) -> Any:
    returns = getattr(getattr(node.target, "_schema", None), "returns", None)
    for key in ("val", "example_value", "tensor_meta"):
        if key in node.meta:
            if node.meta[key] is None and returns and str(returns[0].type) == "Tensor":
                raise InputError(f"node {node.name!r}: expected a dense tensor")
            return node.meta[key]
    if node.op in ("output", "get_attr") or node.target == CHECKS or returns == []:
        return None
    if node.op == "placeholder" and not node.users and _is_traced(node):
        return None  # a number that the tracer has written into the graph
    raise InputError(
        f"node {node.name!r} has no shape: give example_inputs, or a module that was traced with "
        'them (its nodes then have meta["val"])'
    )


def _is_traced(node: Node) -> bool:
    """True if a tracer has recorded the values of the nodes."""
    return any("val" in other.meta for other in node.graph.nodes)


def _propagate(
    module: GraphModule, example_inputs: Sequence[Any], mode: FakeTensorMode
) -> dict[Node, Any]:
    found: dict[Node, Any] = {}

    class Recorder(Interpreter):  # type: ignore[misc]
        def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
            return as_fake(super().get_attr(target, args, kwargs), mode)

        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            inner = self.fetch_attr(target)
            fakes = {name: as_fake(own, mode) for name, own in tensors_of(inner).items()}
            return functional_call(inner, fakes, args, kwargs)

        def run_node(self, node: Node) -> Any:
            found[node] = as_fake(super().run_node(node), mode)
            return found[node]

    try:
        with mode, torch.no_grad():
            Recorder(module).run(*(as_fake(given, mode) for given in example_inputs))
    except Exception as error:  # whatever the user's module raises
        text = first_line(error)
        raise InputError(f"cannot be run on its example inputs: {text}") from error
    return found
