"""A planned training step for a user's own loop: loss, gradients and buffers by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen

from cpplan.io.torch.joint import RESULTS
from cpplan.model.errors import InputError


class TrainingStep:
    """Training step that runs a training module, adds to the gradients and updates the buffers.

    Parameters
    ----------
    module
        The module that was traced. Each call uses its current parameters and buffers.
    joint
        The training module made from it, perhaps reordered by
        :func:`cpplan.io.torch.reorder_graph_module`.

    Attributes
    ----------
    results
        Results of the training module in order: ``("buffer", name)``, ``("output", k)`` or
        ``("gradient", name)``. Output 0 is the loss.

    Raises
    ------
    InputError
        If :func:`cpplan.io.torch.training_module` did not make the graph module.

    Examples
    --------
    >>> import torch
    >>> from cpplan.io.torch import training_module
    >>> class Loss(torch.nn.Linear):
    ...     def forward(self, x):
    ...         return super().forward(x).square().mean()
    >>> model = Loss(3, 2)
    >>> step = TrainingStep(model, training_module(model, (torch.ones(4, 3),)))
    >>> loss = step(torch.ones(4, 3))
    >>> loss.shape, model.weight.grad.shape
    (torch.Size([]), torch.Size([2, 3]))
    >>> step(torch.ones(5, 3))
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: input 0: is torch.float32[5, 3]: expected torch.float32[4, 3]
    """

    def __init__(self, module: torch.nn.Module, joint: GraphModule):
        results = joint.meta.get(RESULTS)
        if results is None:
            raise InputError("expected a graph module made by training_module")
        self.module, self.results = module, tuple(results)
        self._joint = GraphModule(joint, joint.graph.__deepcopy__({}))
        self._joint.graph.set_codegen(_BoxedCodeGen())
        self._joint.recompile()
        placeholders = joint.graph.find_nodes(op="placeholder")
        held = len(list(module.parameters())) + len(list(module.buffers()))
        if len(placeholders) < held:
            raise InputError(
                f"the graph module is for another module than {type(module).__name__}: it takes "
                f"{len(placeholders)} tensors, but the module holds {held}"
            )
        self._expected = [
            node.meta["val"] if isinstance(node.meta.get("val"), torch.Tensor) else None
            for node in placeholders
        ]

    def __call__(self, *inputs: Any) -> Any:
        """The loss, or a tuple of the loss and the other outputs."""
        weights, buffers = dict(self.module.named_parameters()), dict(self.module.named_buffers())
        given: list[Any] = [*weights.values(), *buffers.values(), *inputs]
        self._check(given, [*weights, *buffers], len(inputs))
        outputs = []
        with torch.no_grad():
            values = self._joint.forward(given)
            for (kind, name), value in zip(self.results, values, strict=True):
                if kind == "output":
                    outputs.append(value)
                elif kind == "buffer":
                    buffers[name].copy_(value)
                elif value is not None:
                    _add_gradient(weights[name], value)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _check(self, given: Sequence[Any], names: Sequence[str], inputs: int) -> None:
        if len(given) != len(self._expected):
            most = len(self._expected) - len(names)
            raise InputError(f"expected {most} inputs, not {inputs}")
        for k, (value, expected) in enumerate(zip(given, self._expected, strict=True)):
            if expected is None:
                continue
            found = _described(value)
            if found != _described(expected):
                what = repr(names[k]) if k < len(names) else f"input {k - len(names)}"
                raise InputError(f"{what}: is {found}: expected {_described(expected)}")


def _add_gradient(weight: torch.Tensor, gradient: torch.Tensor) -> None:
    if weight.grad is None:
        weight.grad = gradient
    else:
        weight.grad.add_(gradient)


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype}{list(value.shape)}"
