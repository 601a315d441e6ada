"""Sources of a graph: a graph module, its constants, and a tensor without data for each node.

An exported program knows which placeholders are parameters. In a graph module, a placeholder is a
constant if its ``meta["cpplan"]`` says so; otherwise it is an input.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node

from cpplan.io.torch.archive import read_archive
from cpplan.io.torch.extents import Extents
from cpplan.io.torch.values import find_values, is_dense
from cpplan.model.errors import InputError
from cpplan.model.names import name_of_file

# Key of a placeholder's metadata that marks constants.
ROLE = "cpplan"
_LOGS = ("torch._export.serde.serialize", "torch._subclasses.fake_tensor")


@dataclass(frozen=True)
class Traced:
    """A graph module, with its constants and the values of its nodes.

    Attributes
    ----------
    constants
        Placeholder of a parameter, buffer or other constant -> the tensor held for it, which layers
        may share, or ``None`` if it is not known.
    values
        Node -> its value: a tensor without data, a number, or a tuple of these.
    mode
        Mode in which ops run on tensors without data.
    extents
        The symbolic sizes and their ranges.
    """

    name: str
    module: GraphModule
    constants: Mapping[str, torch.Tensor | None]
    values: Mapping[Node, Any]
    mode: FakeTensorMode
    extents: Extents


def open_source(
    source: str | PathLike[str] | ExportedProgram | GraphModule,
    dims: Mapping[str, object],
    example_inputs: Sequence[Any] | None = None,
) -> Traced:
    """The graph module of a source, with shapes.

    Raises
    ------
    InputError
        If the source is of another type, or a node has no shape.
    """
    name = None
    if isinstance(source, (str, PathLike)):
        name, source = name_of_file(source), read_archive(source)
    if isinstance(source, ExportedProgram):
        module, ranges = source.graph_module, source.range_constraints
        constants = {
            spec.arg.name: _held(source, spec.target)
            for spec in source.graph_signature.input_specs
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
        }
    elif isinstance(source, GraphModule):
        module, ranges = source, {}
        constants = {
            node.name: None for node in module.graph.nodes if node.meta.get(ROLE) == "constant"
        }
    else:
        raise InputError(
            "expected an exported program, a .pt2 file or a torch.fx.GraphModule, "
            f"not {type(source).__name__}"
        )
    values, mode = find_values(module, example_inputs)
    extents = Extents(values.values(), ranges, dims)
    values = extents.bound_values(values, mode)
    return Traced(name or _class_name(module), module, constants, values, mode, extents)


def _held(program: ExportedProgram, target: str) -> torch.Tensor | None:
    """The tensor of a placeholder, if it fills its storage; else ``None``."""
    found = program.state_dict.get(target, program.constants.get(target))
    if not isinstance(found, torch.Tensor) or not is_dense(found):
        return None
    return found if found.nbytes == found.untyped_storage().nbytes() else None


def _class_name(module: GraphModule) -> str:
    # Modules that torch traced from functions have no name of their own.
    name = type(module).__name__
    return name if name.isidentifier() else "main"


@contextmanager
def reading_archive() -> Iterator[None]:
    """Turn all errors raised in this context into ``InputError``, and silence torch's logs.

    A damaged or hostile program can make torch raise any exception.
    """
    logs = [logging.getLogger(name) for name in _LOGS]
    before = [log.disabled for log in logs]
    for log in logs:
        log.disabled = True
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"torch cannot read this exported program: {last_line(error)}") from error
    finally:
        for log, disabled in zip(logs, before, strict=True):
            log.disabled = disabled


def last_line(error: Exception) -> str:
    """The last line of an error's text, which may hold whole tracebacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__
