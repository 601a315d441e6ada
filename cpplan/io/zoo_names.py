"""Graphs of models by name, ``zoo://family/model``: what :mod:`cpplan.zoo` builds, read."""

from __future__ import annotations

from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph
from cpplan.zoo import find_model


def read_named(text: str, *, kernels: str | None = None) -> Graph:
    """The graph of a model by its name; ``kernels="measured"`` finds workspaces of torch models."""
    family, source, options = find_model(text)
    with located(text):
        if hasattr(family, "build"):
            from cpplan.io.torch import is_measured
            from cpplan.io.torch.networks import trace_network

            return trace_network(
                lambda: family.build(source.model, options), source.model, options,
                workspaces=is_measured(kernels),
            )  # fmt: skip
        if kernels is not None:
            raise InputError(f"kernels={kernels!r}: an ONNX model says nothing of its kernels")
        from cpplan.io.onnx.model import read_onnx

        return read_onnx(family.path(source.model), name=source.model)
