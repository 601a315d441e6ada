"""Effects of a node: the storages in which its results lie, and the storages that it overwrites.

The schema of an op with its own kernel is trusted: without alias annotations, the op returns new
storages and overwrites none. All other nodes are run on tensors without data, and the ops that they
call are examined: modules, Python functions, and ops composed of others, which may return an input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import TorchDispatchMode

from cpplan.io.torch import inner_graphs
from cpplan.io.torch.values import as_fake, tensors_in, tensors_of
from cpplan.model.errors import InputError, first_line

# In training they overwrite their statistics, which their schemas do not say.
_SILENT = ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm")
# Their results lie in the storage of the argument, which their schemas do not say.
_UNSAFE = ("_unsafe_view", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes")
# Composed ops whose kernels need sizes as numbers.
_WITH_NUMBERS = ("constant_pad_nd", "gru", "lstm", "pad", "rnn_relu", "rnn_tanh")
_STATISTICS = ("running_mean", "running_var")
MOST_PARTS = 10_000
MOST_CALLS = 100_000


@dataclass(frozen=True)
class Call:
    """A call of an op on tensors without data."""

    op: OpOverload
    args: Mapping[str, Any]
    result: Any


@dataclass(frozen=True)
class Effects:
    """The ops with kernels that a node calls, with its arguments and results.

    Attributes
    ----------
    alternatives
        Lists of calls: a branch has a list for each side, a loop has
        one for its body and one for its condition.
    read
        The arguments, in whose storages results may lie.
    weights
        If the node calls a module: its parameters and buffers by name, which it reads, too.
    results
        The values that the node returns.
    """

    alternatives: tuple[tuple[Call, ...], ...]
    read: tuple[Any, ...]
    weights: Mapping[str, torch.Tensor]
    results: Any

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of all alternatives."""
        return tuple(call for calls in self.alternatives for call in calls)

    @property
    def written(self) -> set[int]:
        """Storages (see :func:`storage_of`) that the node overwrites, new ones included."""
        return {storage_of(t) for call in self.calls for t in _written(call)}

    @property
    def draws(self) -> bool:
        """True if the node draws random numbers."""
        return any(_draws(call) for call in self.calls)


def find_effects(
    module: GraphModule, node: Node, values: Mapping[Node, Any], mode: FakeTensorMode
) -> Effects:
    """The effects of a ``call_function``, ``call_method`` or ``call_module`` node."""

    def value_of(argument: Node) -> Any:
        # An op may also change a tensor's shape and strides: protect those of the node's value.
        value = values[argument]
        if isinstance(value, (tuple, list)):
            return type(value)(_alias(part) for part in value)
        return _alias(value)

    if isinstance(node.target, OpOverload) and not _may_alias(node.target):
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
        call = Call(node.target, bind(node.target, args, kwargs), values[node])
        return Effects(((call,),), (args, kwargs), {}, values[node])
    with mode, torch.no_grad(), _kernels(node):
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), value_of)
        return _observe(module, node, args, kwargs, mode)


def only_kernel(effects: Effects, storages: Collection[int]) -> Call | None:
    """The call that makes the first result, if no other call accesses bytes of the storages."""
    if len(effects.alternatives) != 1:
        return None
    found = [call for call in effects.calls if _uses(call, storages)]
    results = tensors_in(effects.results)
    if len(found) != 1 or not results:
        return None
    made = {storage_of(tensor) for tensor in tensors_in(found[0].result)}
    return found[0] if storage_of(results[0]) in made else None


def _uses(call: Call, storages: Collection[int]) -> bool:
    """True if a call reads or writes bytes of the storages; views and size queries do not."""
    read = {storage_of(tensor) for tensor in tensors_in(tuple(call.args.values()))}
    if read.isdisjoint(storages):
        return False
    made = {storage_of(tensor) for tensor in tensors_in(call.result)}
    return bool(made - read or _written(call))


def storage_of(tensor: torch.Tensor) -> int:
    """A number that identifies a tensor's storage while its tensors are alive."""
    return int(tensor.untyped_storage()._cdata)


def bind(op: OpOverload, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name in the order of the op's schema, with defaults for missing ones."""
    schema = op._schema.arguments
    given = dict(zip((a.name for a in schema), args, strict=False)) | dict(kwargs)
    return {a.name: given.get(a.name, a.default_value) for a in schema}


def _kernels(node: Node) -> AbstractContextManager[None]:
    """Context for running a node without data; Python kernels accept symbolic sizes."""
    packet = getattr(node.target, "_overloadpacket", None)
    if packet is not None and packet.__name__ in _WITH_NUMBERS:
        kernels: AbstractContextManager[None] = enable_python_dispatcher()
        return kernels
    return nullcontext()


def _alias(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _may_alias(op: OpOverload) -> bool:
    annotated = any(a.alias_info for a in (*op._schema.arguments, *op._schema.returns))
    composite = op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    if op._overloadpacket.__name__ in _UNSAFE:
        return True
    return annotated or composite or torch.Tag.maybe_aliasing_or_mutating in op.tags


def _observe(
    module: GraphModule,
    node: Node,
    args: Any,
    kwargs: Any,
    mode: FakeTensorMode,
) -> Effects:
    fakes: dict[str, torch.Tensor] = {}
    runs: list[Callable[[], Any]] = []
    if node.op == "call_module":
        inner = module.get_submodule(str(node.target))
        fakes = {name: as_fake(own, mode) for name, own in tensors_of(inner).items()}
        runs = [partial(functional_call, inner, fakes, args, kwargs)]
    elif node.op == "call_method":
        runs = [partial(methodcaller(str(node.target), *args[1:], **kwargs), args[0])]
    elif not isinstance(node.target, HigherOrderOperator):
        runs = [partial(node.target, *args, **kwargs)]
    try:
        if isinstance(node.target, HigherOrderOperator):
            modules, operands = inner_graphs.alternatives(node.target, args)
            runs = [partial(inner_graphs.run, each, operands) for each in modules]
        observed = [_calls_of(run) for run in runs]
    except InputError as error:
        raise InputError(f"node {node.name!r}: {error}") from error
    except Exception as error:  # whatever the user's function raises
        text = first_line(error)
        raise InputError(f"node {node.name!r}: cannot be run without data: {text}") from error
    calls = tuple(tuple(found) for found, _ in observed)
    return Effects(calls, (args, kwargs), fakes, observed[0][1])


def _calls_of(run: Callable[[], Any]) -> tuple[list[Call], Any]:
    """The calls of ops with kernels that a callable makes, and its result."""
    calls: list[Call] = []

    class Observer(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = bind(op, args, kwargs or {})
            check_growth(op._overloadpacket.__name__, named, len(calls))
            result = op(*args, **(kwargs or {}))
            calls.append(Call(op, named, result))
            return result

    with Observer():
        return calls, run()


def _written(call: Call) -> list[torch.Tensor]:
    names = [
        a.name
        for a in call.op._schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
    ]
    if call.op._overloadpacket.__name__ in _SILENT and call.args["training"]:
        names += _STATISTICS
    return tensors_in([call.args.get(name) for name in names])


def _draws(call: Call) -> bool:
    if torch.Tag.nondeterministic_seeded not in call.op.tags:
        return False
    # Dropout that drops nothing does not draw; but native_dropout draws even at probability 0.
    return call.args.get("train") is not False and call.args.get("dropout_p") != 0


def check_growth(kind: str, args: Mapping[str, Any], calls: int) -> None:
    """Raise if an op is about to return too many tensors, or too many ops have run before it."""
    parts = _parts(kind.removeprefix("unsafe_"), args)
    if isinstance(parts, int) and parts > MOST_PARTS:
        raise InputError(f"returns {parts} tensors: expected at most {MOST_PARTS}")
    if calls >= MOST_CALLS:
        raise InputError(f"calls more than {MOST_CALLS} ops: expected fewer")


def _parts(kind: str, args: Mapping[str, Any]) -> Any:
    if kind in ("unbind", "split"):
        extent = args["self"].shape[args["dim"] or 0]
        size = 1 if kind == "unbind" else args.get("split_size", 0)
        return -(-extent // size) if isinstance(size, int) and size > 0 else 0
    if kind in ("chunk", "tensor_split"):
        return args.get("chunks", args.get("sections"))
    return 0
