"""A training step, op by op: what runs forward is recorded, and run back for the gradients.

Layout NCHW, float32. Costs are floating-point operations; a multiply-add is two. What each gradient
reads is what its kernel needs, and no more:

* convolution, transposed convolution, matrix product: the gradient of the input reads the weights;
  that of the weights reads the input; each costs as much as the op forward, and is an op of its own
* ReLU: its own result; 1 for every element
* max pool: its input and its result; 1 for every element of a window
* average over the plane, nearest upsampling, sum, concatenation: the gradient alone. That of a sum
  is the gradient of its result, and no op
* batch norm of the batch: its input and the statistics that it saved; 9 for every element, forward
  7. Running averages are left out: an op that keeps them could not run twice
* softmax and cross entropy: one op, which gives the loss and the gradient; 7 for every element

A tensor that several ops read has the sum of their gradients, added as they come. Every weight is
updated once (2 operations an element); the updates are listed last, as frameworks run them, and
none can run again. Weights are constants; biases of convolutions and products are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cpplan.model.graph import Graph, Op, Tensor

Shape = tuple[int, ...]


class Tape:
    """A training step under construction: every method runs a layer and returns its result's name.

    An op that writes one tensor bears its name.
    """

    def __init__(self, name: str):
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        self.forward: list[Op] = []
        self.backward: list[Op] = []
        self.updates: list[Op] = []
        self.gradients: dict[str, str] = {}
        self._rules: list[Callable[[], None]] = []
        self._counts: dict[str, int] = {}

    def input(self, name: str, shape: Shape, dtype: str = "float32") -> str:
        return self._tensor(name, shape, "input", dtype)

    def shape(self, tensor: str) -> Shape:
        shape = self.tensors[tensor].shape
        assert shape is not None
        return shape

    def conv(
        self, x: str, channels: int, kernel: int = 3, *, stride: int = 1, groups: int = 1
    ) -> str:
        """A convolution whose result has the extents of ``x`` over ``stride``, rounded up."""
        batch, before, height, width = self.shape(x)
        weight = (channels, before // groups, kernel, kernel)
        y = (batch, channels, -(-height // stride), -(-width // stride))
        return self._product("conv", "Conv", x, weight, y, 2 * math.prod(y) * math.prod(weight[1:]))

    def up_conv(self, x: str, channels: int) -> str:
        """A transposed convolution with 2×2 taps and stride 2: twice the extents."""
        batch, before, height, width = self.shape(x)
        y = (batch, channels, 2 * height, 2 * width)
        weight = (before, channels, 2, 2)
        # Every element of x is multiplied with every tap of its channel.
        return self._product(
            "up", "ConvTranspose", x, weight, y, 2 * batch * height * width * math.prod(weight)
        )

    def dense(self, x: str, features: int) -> str:
        batch, *rest = self.shape(x)
        weight = (features, math.prod(rest))
        return self._product(
            "dense", "Gemm", x, weight, (batch, features), 2 * batch * math.prod(weight)
        )

    def relu(self, x: str) -> str:
        size, name = self._size(x), self._count("relu")
        y = self._run(self.forward, name, "Relu", (x,), self.shape(x), size)
        self._rules.append(lambda: self._pull(name, "ReluGrad", x, (self.gradients[y], y), size))
        return y

    def max_pool(self, x: str, kernel: int = 2) -> str:
        """Windows side by side."""
        batch, channels, height, width = self.shape(x)
        name, shape = self._count("pool"), (batch, channels, height // kernel, width // kernel)
        cost = math.prod(shape) * kernel**2
        y = self._run(self.forward, name, "MaxPool", (x,), shape, cost)
        self._rules.append(
            lambda: self._pull(name, "MaxPoolGrad", x, (self.gradients[y], x, y), cost)
        )
        return y

    def average(self, x: str) -> str:
        """Over the plane."""
        name, size = self._count("average"), self._size(x)
        y = self._run(self.forward, name, "GlobalAveragePool", (x,), self.shape(x)[:2], size)
        self._rules.append(
            lambda: self._pull(name, "GlobalAveragePoolGrad", x, (self.gradients[y],), size)
        )
        return y

    def batch_norm(self, x: str) -> str:
        name, size, channels = self._count("norm"), self._size(x), self.shape(x)[1]
        scale = self._tensor(f"{name}_w", (2, channels), "constant")
        y = self._tensor(name, self.shape(x))
        saved = self._tensor(f"{name}_saved", (2, channels))
        self.forward.append(Op(name, "BatchNorm", (x, scale), (y, saved), cost=7 * size))

        def rule() -> None:
            dx, dw = self._tensor(f"{name}_dx", self.shape(x)), f"{name}_dw"
            reads = (self.gradients[y], x, saved, scale)
            writes = (dx, self._tensor(dw, (2, channels)))
            op = Op(f"{name}_grad", "BatchNormGrad", reads, writes, cost=9 * size)
            self.backward.append(op)
            self._accumulate(x, dx)
            self._update(name, dw, scale)

        self._rules.append(rule)
        return y

    def add(self, x: str, y: str) -> str:
        name = self._count("add")
        z = self._run(self.forward, name, "Add", (x, y), self.shape(x), self._size(x))

        def rule() -> None:
            for read in (x, y):
                self._accumulate(read, self.gradients[z])

        self._rules.append(rule)
        return z

    def concat(self, x: str, y: str) -> str:
        """Along the channels."""
        name, (batch, channels, *plane) = self._count("concat"), self.shape(x)
        shape = (batch, channels + self.shape(y)[1], *plane)
        size = math.prod(shape)
        z = self._run(self.forward, name, "Concat", (x, y), shape, size)

        def rule() -> None:
            parts = tuple(
                self._tensor(f"{name}_d{k}", self.shape(read)) for k, read in enumerate((x, y))
            )
            self.backward.append(
                Op(f"{name}_grad", "Split", (self.gradients[z],), parts, cost=size)
            )
            for read, part in zip((x, y), parts, strict=True):
                self._accumulate(read, part)

        self._rules.append(rule)
        return z

    def loss(self, x: str, kind: str, labels: str | None = None, *, operations: int = 7) -> None:
        """The end of the forward pass, with the gradient of ``x``; ``operations`` an element."""
        reads = (x,) if labels is None else (x, labels)
        self.gradients[x] = self._tensor(f"{x}_d", self.shape(x))
        writes = (self._tensor("loss", (1,), "output"), self.gradients[x])
        self.forward.append(Op("loss", kind, reads, writes, cost=operations * self._size(x)))

    def graph(self) -> Graph:
        """Forward, backward, updates. The tape is used up."""
        while self._rules:
            self._rules.pop()()
        ops = (*self.forward, *self.backward, *self.updates)
        return Graph(self.name, tuple(self.tensors.values()), ops)

    def _product(self, name: str, kind: str, x: str, weight: Shape, shape: Shape, cost: int) -> str:
        """An op that multiplies with weights, and its two gradients."""
        name = self._count(name)
        w = self._tensor(f"{name}_w", weight, "constant")
        y = self._run(self.forward, name, kind, (x, w), shape, cost)

        def rule() -> None:
            dy = self.gradients[y]
            if self.tensors[x].kind != "input":
                self._pull(name, f"{kind}GradInput", x, (dy, w), cost)
            dw = (dy, x)
            dw_name = self._run(self.backward, f"{name}_dw", f"{kind}GradWeight", dw, weight, cost)
            self._update(name, dw_name, w)

        self._rules.append(rule)
        return y

    def _pull(self, name: str, kind: str, x: str, reads: tuple[str, ...], cost: int) -> None:
        """Run the op that gives a gradient of ``x``."""
        dx = self._run(self.backward, f"{name}_dx", kind, reads, self.shape(x), cost)
        self._accumulate(x, dx)

    def _accumulate(self, x: str, gradient: str) -> None:
        if x in self.gradients:
            both, size = (self.gradients[x], gradient), self._size(x)
            name = self._count("sum")
            gradient = self._run(self.backward, name, "Add", both, self.shape(x), size)
        self.gradients[x] = gradient

    def _update(self, name: str, gradient: str, weight: str) -> None:
        cost = 2 * self._size(weight)
        op = Op(f"{name}_update", "SGD", (gradient, weight), cost=cost, recomputable=False)
        self.updates.insert(0, op)

    def _run(
        self,
        ops: list[Op],
        name: str,
        kind: str,
        reads: tuple[str, ...],
        shape: Shape,
        cost: int,
    ) -> str:
        ops.append(Op(name, kind, reads, (self._tensor(name, shape),), cost=cost))
        return name

    def _tensor(
        self, name: str, shape: Shape, kind: str = "intermediate", dtype: str = "float32"
    ) -> str:
        self.tensors[name] = Tensor(name, shape=shape, dtype=dtype, kind=kind)
        return name

    def _size(self, tensor: str) -> int:
        return math.prod(self.shape(tensor))

    def _count(self, kind: str) -> str:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return f"{kind}{self._counts[kind]}"
