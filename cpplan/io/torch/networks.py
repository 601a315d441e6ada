"""Networks of the zoo as graphs, traced without storing their weights."""

from __future__ import annotations

from collections.abc import Callable

import torch

from cpplan.io.torch import read_torch, training_graph
from cpplan.model.graph import Graph
from cpplan.zoo.network import Network, quietly, without_weights
from cpplan.zoo.source import Options


def trace_network(
    build: Callable[[], Network], name: str, options: Options, *, workspaces: bool = False
) -> Graph:
    """The graph of a network or of its training step, traced with shapes only.

    With ``workspaces``, kernels run on zeros as well (:func:`~cpplan.io.torch.read_torch`).
    """
    network = without_weights(build, options)
    with quietly("traced"):
        if options.training:
            return training_graph(
                network.module, network.inputs, name=f"{name}_train", workspaces=workspaces
            )
        program = torch.export.export(network.module, network.inputs, strict=False)
    return read_torch(program, name=name, workspaces=workspaces)
