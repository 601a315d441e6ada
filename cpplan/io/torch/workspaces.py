"""Bytes that kernels allocate beside their results, from the events of torch's allocator.

The kernel of an op runs once for each shape, on zeros, while torch's profiler records the bytes
that the CPU allocator gives and takes back. The most bytes at once, minus the results, are the op's
workspace. It holds for this machine, this version of torch and this number of threads.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import autograd
from torch._C._profiler import _ExperimentalConfig
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from cpplan.io.torch.effects import storage_of
from cpplan.io.torch.values import tensors_in
from cpplan.model.errors import InputError, first_line

# Reads data that its forward kernel wrote as raw bytes: zeros there crash the process.
_OPAQUE = torch.ops.aten.mkldnn_rnn_layer_backward.default
# Op, shapes and other arguments -> bytes.
_measured: dict[Any, int] = {}


def workspace_of(node: Node, values: Mapping[Node, Any]) -> int:
    """Bytes that a node's kernel allocates beside its results; 0 for a node without kernel."""
    if not isinstance(node.target, OpOverload):
        return 0
    args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), values.__getitem__)
    key = node.target, _signature(args), _signature(kwargs), torch.get_num_threads()
    if key not in _measured:
        try:
            _measured[key] = _measure(node.target, args, kwargs)
        except InputError as error:
            raise InputError(f"node {node.name!r}: {error}") from error
        except Exception as error:  # whatever the kernel raises
            text = first_line(error)
            reason = f"its workspace cannot be measured: {text}"
            raise InputError(f"node {node.name!r}: {reason}") from error
    return _measured[key]


class Allocated(NamedTuple):
    """Bytes that a function took from torch's CPU allocator.

    Attributes
    ----------
    result
        The function's result.
    most
        Most bytes at once; earlier bytes that it freed are subtracted.
    left
        Bytes that it has not freed; negative if it freed more than it took.
    """

    result: Any
    most: int
    left: int


def most_allocated(run: Callable[[], Any]) -> tuple[Any, int]:
    """Result of a function, and the most bytes that torch's CPU allocator gave it at once."""
    with torch.no_grad():
        found = count_allocated(run)
    return found.result, found.most


def count_allocated(run: Callable[[], Any]) -> Allocated:
    """Result of a function, and the bytes that torch's CPU allocator gave it.

    Python's cycle collector rests meanwhile: what it frees belongs to earlier runs.
    """
    config = autograd.ProfilerConfig(
        autograd.ProfilerState.CPU, False, True, False, False, False, _ExperimentalConfig()
    )
    collects = gc.isenabled()
    gc.disable()
    autograd._enable_profiler_legacy(config)  # the newer profiler takes 0.25 s to start
    try:
        result = run()
    finally:
        threads = autograd._disable_profiler_legacy()
        if collects:
            gc.enable()
    held = most = 0
    for event in (event for events in threads for event in events):
        if event.kind() == "memory_alloc":  # the bytes are negative if they are freed
            held += event.cpu_memory_usage()
            most = max(most, held)
    return Allocated(result, most, held)


def _measure(op: OpOverload, args: Any, kwargs: Any) -> int:
    if op is _OPAQUE:
        raise InputError("its workspace cannot be measured: its kernel cannot run on zeros")
    # While torch compiles, tensors have no data.
    with _disable_current_modes(), torch.random.fork_rng(devices=[]):
        given, named = (tree_map(_zeros, value) for value in (args, kwargs))
        result, most = most_allocated(lambda: op(*given, **named))
    known = {storage_of(tensor) for tensor in tensors_in((*given, *named.values()))}
    kept = {
        storage_of(tensor): tensor.untyped_storage().nbytes()
        for tensor in tensors_in(result)
        if storage_of(tensor) not in known
    }
    return int(max(most - sum(kept.values()), 0))


def _zeros(value: Any) -> Any:
    """Tensor of zeros with the same layout; other values are returned as they are."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise InputError(
            "workspaces can be measured at fixed sizes only: give all symbolic sizes values (dims)"
        )
    if not isinstance(value, torch.Tensor):
        return value
    sizes = (*value.shape, *value.stride(), value.storage_offset())
    if not all(isinstance(size, int) for size in sizes):
        raise InputError(
            "workspaces can be measured at fixed sizes only: give all symbolic sizes values (dims)"
        )
    shape, stride = tuple(value.shape), value.stride()
    reach = 0 if 0 in shape else 1 + sum((e - 1) * s for e, s in zip(shape, stride, strict=True))
    return torch.zeros((reach,), dtype=value.dtype).as_strided(shape, stride)


def _signature(value: Any) -> Any:
    """Properties of a value on which a kernel's choice of workspace can depend."""
    if isinstance(value, torch.Tensor):
        return "tensor", tuple(map(str, value.shape)), tuple(map(str, value.stride())), value.dtype
    if isinstance(value, (tuple, list)):
        return tuple(map(_signature, value))
    if isinstance(value, dict):
        return tuple((key, _signature(part)) for key, part in value.items())
    return type(value), "nan" if isinstance(value, float) and math.isnan(value) else str(value)
