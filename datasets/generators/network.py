"""A convolutional network, op by op: every op appends to one graph and returns its result's name.

Batch 1, float32, layout NCHW, inference: batch normalisation is folded into the convolution before
it. Weights are left out, because they are constants and lie outside the arena.
"""

from __future__ import annotations

from cpplan.model.graph import Graph, Op, Tensor

Shape = tuple[int, ...]


class Network:
    """A graph under construction."""

    def __init__(self, name: str):
        self.name = name
        self.shapes: dict[str, Shape] = {}
        self.inputs: list[str] = []
        self.ops: list[Op] = []

    def input(self, name: str, channels: int, extent: int) -> str:
        self.shapes[name] = (1, channels, extent, extent)
        self.inputs.append(name)
        return name

    def channels(self, tensor: str) -> int:
        return self.shapes[tensor][1]

    def extent(self, tensor: str) -> int:
        return self.shapes[tensor][2]

    def op(self, kind: str, inputs: list[str], shape: Shape) -> str:
        name = f"{kind.lower()}_{len(self.ops)}"
        self.ops.append(Op(name, kind, tuple(inputs), (f"t{len(self.ops)}",)))
        result = self.ops[-1].outputs[0]
        self.shapes[result] = shape
        return result

    def relu(self, x: str) -> str:
        return self.op("Relu", [x], self.shapes[x])

    def add(self, inputs: list[str]) -> str:
        """Their sum, weighted or not; of one tensor, that tensor."""
        return self.op("Add", inputs, self.shapes[inputs[0]]) if len(inputs) > 1 else inputs[0]

    def concat(self, inputs: list[str]) -> str:
        channels = sum(map(self.channels, inputs))
        return self.op("Concat", inputs, (1, channels, *self.shapes[inputs[0]][2:]))

    def conv(self, x: str, channels: int, stride: int = 1) -> str:
        return self._window("Conv", x, channels, stride)

    def pool(self, kind: str, x: str, stride: int = 1) -> str:
        """``MaxPool`` or ``AveragePool`` over 3×3."""
        return self._window(kind, x, self.channels(x), stride)

    def separable_conv(self, x: str, channels: int, stride: int = 1) -> str:
        """ReLU, depthwise convolution, pointwise convolution."""
        x = self._window("DepthwiseConv", self.relu(x), self.channels(x), stride)
        return self.conv(x, channels)

    def classify(self, x: str, classes: int) -> str:
        x = self.op("GlobalAveragePool", [x], (1, self.channels(x)))
        return self.op("Gemm", [x], (1, classes))

    def graph(self) -> Graph:
        """The network as a graph; tensors that no op reads are its outputs."""
        read = {name for op in self.ops for name in op.inputs}

        def kind(name: str) -> str:
            return "input" if name in self.inputs else "intermediate" if name in read else "output"

        tensors = (
            Tensor(name, shape=shape, dtype="float32", kind=kind(name))
            for name, shape in self.shapes.items()
        )
        return Graph(self.name, tuple(tensors), tuple(self.ops))

    def _window(self, kind: str, x: str, channels: int, stride: int) -> str:
        extent = -(-self.extent(x) // stride)
        return self.op(kind, [x], (1, channels, extent, extent))
