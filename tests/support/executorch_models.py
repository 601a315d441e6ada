"""Models for ExecuTorch, and how they are lowered and run."""

from __future__ import annotations

import copy
import logging

import networkx
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from executorch.runtime import Runtime
from torch import nn


def lower(model, inputs):
    """The edge program; what depends on weights only is computed beforehand.

    Else the transposed weights of every linear layer are copied into the arena when it runs.
    """
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    exported = torch.export.export(model.eval(), inputs, strict=False).run_decompositions()
    # It says that it does nothing within control flow.
    logging.getLogger().disabled = True
    try:
        return to_edge(constant_prop_pass(exported))
    finally:
        logging.getLogger().disabled = False


def finish(edge, planning=None, **config):
    """The program with a memory planning pass, or an algorithm for one, or ExecuTorch's own."""
    if planning is None:
        planning = MemoryPlanningPass()
    elif not isinstance(planning, MemoryPlanningPass):
        planning = MemoryPlanningPass(memory_planning_algo=planning)
    config = ExecutorchBackendConfig(memory_planning_pass=planning, **config)
    return copy.deepcopy(edge).to_executorch(config)


def bytes_of(program) -> int:
    """Bytes of all memories that the program asks for."""
    return sum(program.executorch_program.execution_plan[0].non_const_buffer_sizes)


def run(program, inputs):
    """The results of ExecuTorch's runtime."""
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    return [torch.as_tensor(result).clone() for result in method.execute(inputs)]


def same(results, others) -> bool:
    """Equal bit for bit, where a result is no number too."""
    return all(
        torch.equal(torch.nan_to_num(a, 12345.0), torch.nan_to_num(b, 12345.0))
        for a, b in zip(results, others, strict=True)
    )


def settle(model, shape, rounds=8):
    """Batch normalization's statistics from random images, so that results depend on the input."""
    generator = torch.Generator().manual_seed(1)
    model.train()
    with torch.no_grad():
        for _ in range(rounds):
            model(torch.randn(4, *shape[1:], generator=generator))
    return model.eval()


class Separable(nn.Module):
    """ReLU, a separable 3x3 convolution and batch normalization."""

    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.wide = nn.Conv2d(inside, inside, 3, stride, 1, groups=inside, bias=False)
        self.deep = nn.Conv2d(inside, outside, 1, bias=False)
        self.norm = nn.BatchNorm2d(outside)

    def forward(self, x):
        return self.norm(self.deep(self.wide(torch.relu(x))))


class Stage(nn.Module):
    """A random graph of separable convolutions, each of the weighted sum of what it reads."""

    def __init__(self, inside: int, outside: int, nodes: int, seed: int):
        super().__init__()
        wiring = networkx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed)
        self.before = [sorted(j for j in wiring[k] if j < k) for k in range(nodes)]
        self.last = [k for k in range(nodes) if all(j < k for j in wiring[k])]
        self.nodes = nn.ModuleList(
            Separable(outside if before else inside, outside, 1 if before else 2)
            for before in self.before
        )
        self.weights = nn.ParameterList(
            nn.Parameter(torch.rand(max(len(before), 1))) for before in self.before
        )

    def forward(self, x):
        results = []
        for node, before, weight in zip(self.nodes, self.before, self.weights, strict=True):
            read = x
            if before:
                gates = torch.sigmoid(weight)
                read = results[before[0]] * gates[0]
                for k, other in enumerate(before[1:], 1):
                    read = read + results[other] * gates[k]
            results.append(node(read))
        mean = results[self.last[0]]
        for k in self.last[1:]:
            mean = mean + results[k]
        return mean / len(self.last)


class RandWire(nn.Module):
    """Three randomly wired stages (Xie et al., ICCV 2019: Watts-Strogatz, small regime)."""

    def __init__(self, nodes: int = 32, channels: int = 78, seed: int = 0, classes: int = 1000):
        super().__init__()
        half = channels // 2
        self.stem = nn.Sequential(
            nn.Conv2d(3, half, 3, 2, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(),
            nn.Conv2d(half, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip
        widths = [channels, channels, 2 * channels, 4 * channels]
        self.stages = nn.Sequential(
            *(Stage(widths[k], widths[k + 1], nodes, seed + k) for k in range(3))
        )
        self.head = nn.Sequential(
            nn.ReLU(), nn.Conv2d(widths[-1], 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU()
        )
        self.classify = nn.Linear(1280, classes)

    def forward(self, x):
        return self.classify(self.head(self.stages(self.stem(x))).mean((2, 3)))


def torchvision_model(name: str):
    """A model of torchvision with random weights.

    Its wheels bring compiled operators for one version of torch only; classifiers need none of
    them, but importing it needs their names.
    """
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float threshold) -> Tensor")
    _LIBRARIES.append(library)
    import torchvision

    options = {"init_weights": True, "aux_logits": False} if name == "googlenet" else {}
    return torchvision.models.get_model(name, weights=None, **options)


# They last as long as what refers to them.
_LIBRARIES: list[object] = []
