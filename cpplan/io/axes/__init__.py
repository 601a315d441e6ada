"""Axes along which the ops of models can run in pieces: one table of rules for each framework.

A rule gives the axes of an op of one kind, from an :class:`~cpplan.io.axes.operation.Operation`.
Readers of ONNX, TFLite and torch ask the table of their framework (``"onnx"``, ``"tflite"``,
``"torch"``) for every op; a kind without a rule has no axes, and a region ends there.
:func:`register_axes` adds the rule of a kernel of one's own, or another one for a known kind.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

from cpplan.io.axes.operation import NoAxes, Operation, Rule, element_wise, same
from cpplan.model.axes import Axis, Window
from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError
from cpplan.model.methods import find_function
from cpplan.model.names import not_understood
from cpplan.model.tensor import Tensor

__all__ = ["Operation", "Rule", "element_wise", "find_axes", "register_axes", "same"]

# Framework -> the function that gives its table.
_TABLES = {
    "onnx": "cpplan.io.onnx.axes:rules",
    "tflite": "cpplan.io.tflite.axes:rules",
    "torch": "cpplan.io.torch.axes:rules",
}
_REGISTERED: dict[str, dict[str, Rule]] = {framework: {} for framework in _TABLES}


def register_axes(framework: str, kind: str, rule: Rule | None) -> None:
    """Register the rule that gives the axes of all ops of a kind, instead of the known one.

    Parameters
    ----------
    framework
        ``"onnx"``, ``"tflite"`` or ``"torch"``.
    kind
        As the framework calls it: ``"Conv"``, ``"com.microsoft.QLinearAdd"``, ``"CONV_2D"``, the
        name of a custom operator, ``"aten.convolution"``.
    rule
        ``None`` for ops that cannot be split.

    Raises
    ------
    InputError
        If the framework is not one of these, or the kind is no text.
    """
    if framework not in _TABLES:
        raise not_understood(f"framework {framework!r}", framework, _TABLES)
    if not isinstance(kind, str) or not kind:
        raise InputError(f"a kind of op must be a non-empty string, not {kind!r}")
    if rule is not None and not callable(rule):
        raise InputError(f"the rule for {kind!r} must be a function or None, not {rule!r}")
    _REGISTERED[framework][kind] = rule or _no_axes


def find_axes(framework: str, operation: Operation) -> tuple[Axis, ...]:
    """Axes of an op by its framework's table, those of one step and unfit ones left out.

    Windows must be of tensors of whole bytes an element; a tensor that an op reads in two roles
    must be needed in both alike.
    """
    registered = _REGISTERED[framework].get(operation.kind)
    rule = registered or _table(framework).get(operation.kind)
    if rule is None:
        return ()
    apart, name_of = _by_role(operation)
    tensors = {t.name: t for t in (*apart.inputs, *apart.outputs) if t is not None}
    if any(0 in (tensor.shape or ()) for tensor in tensors.values()):
        return ()
    try:
        found = [axis for axis in rule(apart) if axis.extent > 1]
    except NoAxes:
        return ()
    except (IndexError, ValueError, ZeroDivisionError):
        if registered:
            raise
        return ()  # a damaged model, whose shapes are not those of the kind of op
    fitting = (_by_name(axis, name_of) for axis in found if _fits(axis, tensors))
    return tuple(axis for axis in fitting if axis is not None)


@cache
def _table(framework: str) -> dict[str, Rule]:
    found: dict[str, Rule] = find_function(_TABLES[framework])()
    return found


def _no_axes(operation: Operation) -> tuple[Axis, ...]:
    return ()


def _by_role(operation: Operation) -> tuple[Operation, dict[str, str]]:
    """The op with inputs that it names more than once apart, and their names by those given."""
    times = Counter(t.name for t in operation.inputs if t is not None)
    name_of: dict[str, str] = {}
    if max(times.values(), default=0) < 2:
        return operation, name_of
    inputs: list[Tensor | None] = []
    for k, tensor in enumerate(operation.inputs):
        if tensor is not None and times[tensor.name] > 1:
            name_of[f"{tensor.name} as input {k}"] = tensor.name
            tensor = replace(tensor, name=f"{tensor.name} as input {k}")
        inputs.append(tensor)
    return replace(operation, inputs=tuple(inputs)), name_of


def _by_name(axis: Axis, name_of: dict[str, str]) -> Axis | None:
    """The axis with one window a tensor; ``None`` if it needs different parts in its roles."""
    if not name_of:
        return axis
    windows: dict[str, list[Window]] = {}
    for window in axis.windows:
        name = name_of.get(window.tensor, window.tensor)
        windows.setdefault(name, []).append(replace(window, tensor=name))
    roles = Counter(name_of.values())
    for name, found in windows.items():
        if len(set(found)) > 1 or len(found) < roles[name]:
            return None
    return replace(axis, windows=tuple(found[0] for found in windows.values()))


def _fits(axis: Axis, tensors: dict[str, Tensor]) -> bool:
    """True if the windows are of tensors with whole bytes an element."""
    dtypes = (tensors[window.tensor].dtype for window in axis.windows)
    return all(dtype is not None and BITS[dtype] % 8 == 0 for dtype in dtypes)
