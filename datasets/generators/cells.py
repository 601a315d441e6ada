"""Networks of cells found by architecture search: NASNet-A and DARTS, from their genotypes.

A cell reads the results of the two cells before it, 0 the earlier and 1 the later, brings both to
its number of channels, and computes one node (2, 3, …) after the other, each the sum of two ops.
Its result is the concatenation of some of the nodes. In a reduction cell, ops that read 0 or 1
halve the resolution.

* Zoph, Vasudevan, Shlens and Le, "Learning Transferable Architectures for Scalable Image
  Recognition" (CVPR 2018), figure 4; NASNet-A (4 @ 1056), the mobile network.
* Liu, Simonyan and Yang, "DARTS: Differentiable Architecture Search" (ICLR 2019), figures 4 and 5:
  the second-order cells found on CIFAR-10.
"""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.model.graph import Graph
from generators.network import Network

Edge = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Cell:
    """Pairs of ``(what, operand)``, one a node, and the operands that make up the result."""

    nodes: tuple[tuple[Edge, Edge], ...]
    result: tuple[int, ...]
    reduction: bool = False


# "separable" is applied twice, "dilated" once. Kernel sizes do not change what lives in memory.
NASNET_NORMAL = Cell(
    nodes=(
        (("separable", 1), ("separable", 0)),
        (("separable", 0), ("separable", 0)),
        (("AveragePool", 1), ("identity", 0)),
        (("AveragePool", 0), ("AveragePool", 0)),
        (("separable", 1), ("identity", 1)),
    ),
    result=(0, 2, 3, 4, 5, 6),
)
NASNET_REDUCTION = Cell(
    nodes=(
        (("separable", 1), ("separable", 0)),
        (("MaxPool", 1), ("separable", 0)),
        (("AveragePool", 1), ("separable", 0)),
        (("identity", 3), ("AveragePool", 2)),
        (("separable", 2), ("MaxPool", 1)),
    ),
    result=(3, 4, 5, 6),
    reduction=True,
)
DARTS_NORMAL = Cell(
    nodes=(
        (("separable", 0), ("separable", 1)),
        (("separable", 0), ("separable", 1)),
        (("separable", 1), ("identity", 0)),
        (("identity", 0), ("dilated", 2)),
    ),
    result=(2, 3, 4, 5),
)
DARTS_REDUCTION = Cell(
    nodes=(
        (("MaxPool", 0), ("MaxPool", 1)),
        (("identity", 2), ("MaxPool", 1)),
        (("MaxPool", 0), ("identity", 2)),
        (("identity", 2), ("MaxPool", 1)),
    ),
    result=(2, 3, 4, 5),
    reduction=True,
)


def nasnet_mobile(name: str, *, channels: int = 44, repeats: int = 4) -> Graph:
    """A convolution, two reduction cells, and three times ``repeats`` normal cells, on 224×224."""
    network = Network(name)
    x = network.conv(network.input("image", 3, 224), 32, stride=2)
    before, x = x, _append(network, NASNET_REDUCTION, x, x, channels // 4)
    before, x = x, _append(network, NASNET_REDUCTION, before, x, channels // 2)
    for stage in range(3):
        if stage:
            before, x = x, _append(network, NASNET_REDUCTION, before, x, channels << stage)
        for _ in range(repeats):
            before, x = x, _append(network, NASNET_NORMAL, before, x, channels << stage)
    network.classify(network.relu(x), 1000)
    return network.graph()


def darts_cifar(name: str, *, channels: int = 36, cells: int = 8) -> Graph:
    """A convolution and ``cells`` cells on 32×32; those at one and two thirds are reductions."""
    network = Network(name)
    x = before = network.conv(network.input("image", 3, 32), 3 * channels)
    for k in range(cells):
        reduces = k in (cells // 3, 2 * cells // 3)
        channels *= 2 if reduces else 1
        cell = DARTS_REDUCTION if reduces else DARTS_NORMAL
        before, x = x, _append(network, cell, before, x, channels)
    network.classify(x, 10)
    return network.graph()


def single_cell(name: str, cell: Cell, *, channels: int, extent: int) -> Graph:
    """A cell between cells of its kind: it reads two results of as many channels as its own."""
    network = Network(name)
    wide = channels * len(cell.result)
    before, x = (network.input(read, wide, extent) for read in ("before", "x"))
    _append(network, cell, before, x, channels)
    return network.graph()


def _append(network: Network, cell: Cell, before: str, x: str, channels: int) -> str:
    if network.extent(before) > network.extent(x):
        states = [_factorized_reduction(network, before, channels)]
    else:
        states = [network.conv(network.relu(before), channels)]
    states.append(network.conv(network.relu(x), channels))
    for edges in cell.nodes:
        parts = []
        for what, operand in edges:
            stride = 2 if cell.reduction and operand < 2 else 1
            parts.append(_apply(network, what, states[operand], stride))
        states.append(network.add(parts))
    return network.concat([states[k] for k in cell.result])


def _apply(network: Network, what: str, x: str, stride: int) -> str:
    channels = network.channels(x)
    if what == "identity":
        return x if stride == 1 else _factorized_reduction(network, x, channels)
    if what == "dilated":
        return network.separable_conv(x, channels, stride)
    if what == "separable":
        return network.separable_conv(network.separable_conv(x, channels, stride), channels)
    return network.pool(what, x, stride)


def _factorized_reduction(network: Network, x: str, channels: int) -> str:
    """Two convolutions of stride 2, the second one pixel further; each makes half the channels."""
    x = network.relu(x)
    halves = (channels // 2, channels - channels // 2)
    return network.concat([network.conv(x, half, stride=2) for half in halves])
