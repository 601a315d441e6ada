"""Forward and backward pass as one graph, traced by private functions of torch.

Only this file calls them. They are known for the torch versions in ``_VERSIONS``; other
versions raise an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.func import functional_call
from torch.fx import GraphModule

from cpplan.io.torch.sources import ROLE
from cpplan.io.torch.values import tensors_in
from cpplan.model.errors import InputError, first_line

# Key of a training module's metadata for the list of its results: see TrainingStep.results.
RESULTS = "cpplan_results"
_VERSIONS = ("2.13",)


def trace_joint(module: torch.nn.Module, example_inputs: Sequence[Any]) -> GraphModule:
    """The joint graph; see :func:`cpplan.io.torch.training_module`.

    Raises
    ------
    InputError
        If this version of torch is not known, or the module cannot be traced.
    """
    if ".".join(torch.__version__.split(".")[:2]) not in _VERSIONS:
        raise InputError(
            f"training graphs need torch {', '.join(_VERSIONS)}, whose private functions they "
            f"use: found torch {torch.__version__}"
        )
    from torch._functorch.aot_autograd import aot_export_module

    if not isinstance(module, torch.nn.Module):
        raise InputError(f"expected a torch.nn.Module, not {type(module).__name__}")
    if not isinstance(example_inputs, (tuple, list)):
        raise InputError(
            f"example_inputs: expected a tuple of inputs, not {type(example_inputs).__name__}"
        )
    try:
        joint, signature = aot_export_module(
            _Loss(module), tuple(example_inputs), trace_joint=True, output_loss_index=0
        )
    except Exception as error:  # whatever the user's module raises
        text = first_line(error)
        raise InputError(
            f"{type(module).__name__}: its forward and backward pass cannot be traced: {text}"
        ) from error
    constants = {*signature.inputs_to_parameters, *signature.inputs_to_buffers}
    for node in joint.graph.find_nodes(op="placeholder"):
        node.meta[ROLE] = "constant" if node.name in constants else "input"
    joint.meta[RESULTS] = _results(module, signature)
    joint.graph.eliminate_dead_code()
    joint.recompile()
    return joint


def _results(module: torch.nn.Module, signature: Any) -> list[tuple[str, str | int]]:
    """Kind and name of each result of a joint graph, in order."""
    own = _Loss(module)
    buffers = {held: name for name, held in own.state.items()}
    found: list[tuple[str, str | int]] = [
        ("buffer", buffers[held]) for held in signature.buffers_to_mutate.values()
    ]
    found += [("output", k) for k in range(len(signature.user_outputs))]
    weights = dict(module.named_parameters())
    return found + [("gradient", name) for name, w in weights.items() if w.requires_grad]


class _Loss(torch.nn.Module):  # type: ignore[misc]
    """Module that returns the loss, and then the other outputs without gradients.

    A weight shared by several layers is one parameter here; its gradient is the sum.
    """

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self.called = (module,)  # a tuple hides it: its parameters are not listed twice
        self.weights = {name: f"p{k}" for k, (name, _) in enumerate(module.named_parameters())}
        self.state = {name: f"b{k}" for k, (name, _) in enumerate(module.named_buffers())}
        for name, weight in module.named_parameters():
            self.register_parameter(self.weights[name], weight)
        for name, buffer in module.named_buffers():
            self.register_buffer(self.state[name], buffer)

    def forward(self, *inputs: Any) -> tuple[torch.Tensor, ...]:
        own = {name: getattr(self, held) for name, held in (self.weights | self.state).items()}
        found = functional_call(self.called[0], own, inputs, tie_weights=True)
        if isinstance(found, dict) and "loss" in found:
            found = [found["loss"], *(v for name, v in found.items() if name != "loss")]
        loss, *others = tensors_in(found)
        return (loss, *(other.detach() for other in others))
