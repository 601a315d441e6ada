"""RandWire: networks whose wiring is a random graph.

Xie, Kirillov, Girshick and He, "Exploring Randomly Wired Neural Networks for Image Recognition"
(ICCV 2019): Watts-Strogatz graphs with K = 4 and P = 0.75, small computation regime. Edges go from
the lower to the higher node. A node adds up what it reads, with a weight for each, and applies ReLU
and a separable 3×3 convolution; nodes that read the stage's input halve the resolution; the stage's
output is the mean of what nobody reads.
"""

from __future__ import annotations

from cpplan.model.graph import Graph
from generators.network import Network


def randwire(name: str, seed: int, *, nodes: int = 32, channels: int = 78) -> Graph:
    """Three stages of ``nodes`` nodes on a 224×224 image, after two plain convolutions."""
    network = Network(name)
    x = network.input("image", 3, 224)
    x = network.conv(x, channels // 2, stride=2)
    x = network.conv(network.relu(x), channels, stride=2)
    for stage in range(3):
        x = _stage(network, x, nodes, channels << stage, seed + stage)
    x = network.conv(network.relu(x), 1280)
    network.classify(x, 1000)
    return network.graph()


def _stage(network: Network, x: str, nodes: int, channels: int, seed: int) -> str:
    import networkx

    wiring = networkx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed)
    results: list[str] = []
    for node in range(nodes):
        before = sorted(other for other in wiring[node] if other < node)
        read = network.add([results[other] for other in before]) if before else x
        results.append(network.separable_conv(read, channels, 1 if before else 2))
    last = [node for node in range(nodes) if all(other < node for other in wiring[node])]
    return network.add([results[node] for node in last])
