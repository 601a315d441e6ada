"""The compiled module or function that a graph is a part of, as dynamo traces it.

Dynamo passes a backend a graph, and not the module: both are found by what dynamo is tracing at the
time. Each call of ``torch.compile`` makes a backend of its own, by which it is recognized.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import getclosurevars
from types import CodeType
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError

if TYPE_CHECKING:
    from torch import nn

_HERE = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class Origin:
    """The part of a compiled module or function that a graph was traced from.

    Attributes
    ----------
    function
        Name of the traced function, ``"Net.forward"``; torch names what follows a graph break.
    graph
        Numbers that torch gives to the function and to the times it was traced: ``"0/1"``.
    shapes
        Shapes of the inputs; parameters and buffers are left out.
    inputs
        Positions of these inputs among the graph's arguments.
    backend
        Backend made by the call of ``torch.compile``.
    code
        Code of the traced function.
    module
        Reference to the module whose function was traced, if there is one.
    """

    function: str
    graph: str
    shapes: tuple[tuple[int, ...], ...]
    inputs: tuple[int, ...] = field(repr=False)
    backend: Any = field(repr=False)
    code: CodeType = field(repr=False)
    module: Callable[[], nn.Module | None] = field(repr=False)

    def __str__(self) -> str:
        inputs = ", ".join("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        return (
            f"{self.function} (graph {self.graph}, {f'inputs {inputs}' if inputs else 'no inputs'})"
        )

    def at(self, arguments: Sequence[Any]) -> Origin:
        """The same part with the shapes of other arguments of its graph."""
        return replace(self, shapes=tuple(tuple(arguments[k].shape) for k in self.inputs))


def titled(name: str, origin: Origin | None) -> str:
    """A graph's name, with its origin if that is known."""
    return name if origin is None else f"{name} of {origin}"


def find_origin() -> Origin | None:
    """The part that dynamo is tracing in this thread; ``None`` if it traces nothing."""
    import torch
    from torch import nn
    from torch._dynamo import eval_frame, external_utils
    from torch._dynamo.symbolic_convert import InstructionTranslator
    from torch._guards import CompileContext

    try:
        traced = InstructionTranslator.current_tx()
    except AttributeError:
        return None
    modules = [v for v in traced.f_locals.values() if isinstance(v, nn.Module)]
    name = getattr(traced.f_code, "co_qualname", traced.f_code.co_name)  # from Python 3.11 on
    if modules and traced.f_code.co_filename == external_utils.__file__:
        name = f"{type(modules[0]).__qualname__}.forward"  # of a module of torch's own
    inputs = [
        (k, tuple(given.example.shape))
        for k, given in enumerate(traced.output.graphargs)
        if isinstance(given.example, torch.Tensor) and not _is_held(given)
    ]
    return Origin(
        name,
        str(CompileContext.current_compile_id()),
        tuple(shape for _, shape in inputs),
        tuple(k for k, _ in inputs),
        eval_frame.innermost_backend(traced.output.compiler_fn),
        traced.f_code,
        weakref.ref(modules[0]) if modules else lambda: None,
    )


def newest_backend() -> Any:
    """Backend of the last call of ``torch.compile`` that is for a plan; ``None`` without one."""
    from torch._dynamo import eval_frame

    backends = list(eval_frame.cached_backends.values())
    return next(filter(_plans, reversed(backends)), None)


def backend_of(compiled: Any) -> Any:
    """Backend of a compiled module or function; ``None`` for a module that is not compiled."""
    from torch import nn
    from torch._dynamo import eval_frame

    call = compiled
    if isinstance(compiled, nn.Module) and not isinstance(compiled, eval_frame.OptimizedModule):
        call = compiled._compiled_call_impl  # set by ``nn.Module.compile``
        if call is None:
            return None
    if not hasattr(call, "get_compiler_config"):
        raise InputError(
            f"expected a module, or what torch.compile returns, not {type(compiled).__name__}"
        )
    return eval_frame.innermost_backend(
        getclosurevars(call.get_compiler_config).nonlocals["self"].callback
    )


def belongs(origin: Origin, compiled: Any) -> bool:
    """True if a part is traced from a module, a module in it, or a function, compiled or not."""
    from torch import nn
    from torch._dynamo import eval_frame

    if isinstance(compiled, nn.Module):
        return any(origin.module() is module for module in compiled.modules())
    return origin.code is getattr(eval_frame.innermost_fn(compiled), "__code__", None)


def _is_held(given: Any) -> bool:
    """True for an argument that a module holds as a parameter or buffer."""
    from torch import nn

    held = isinstance(given.example, nn.Parameter)
    return held or any(f".{kind}[" in given.source.name for kind in ("_parameters", "_buffers"))


def _plans(backend: Any) -> bool:
    """True for the backend ``cpplan`` and for inductor with a partitioner of cpplan's."""
    function = getattr(backend, "compiler_fn", backend)
    others = (getattr(backend, "config", None) or {}).values()
    homes = [getattr(function, "__module__", None), *(type(other).__module__ for other in others)]
    return any(str(home).startswith(_HERE) for home in homes)
