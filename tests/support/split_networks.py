"""Small networks whose ops say along which axes they can run in pieces."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

from cpplan.model.axes import Axis, Window
from cpplan.model.graph import Graph, Op, Tensor

ROWS, COLUMNS, CHANNELS = 0, 1, 2
_KINDS = ["conv", "depthwise", "relu", "add", "concat", "dense"]
_KINDS += ["relu_over", "fold", "turn", "part", "part"]


@dataclass
class Network:
    """An image network in the making; tensors have shape (rows, columns, channels).

    Each method adds an op, and returns the name of what it writes.
    """

    dtype: str = "int8"
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)

    def image(self, rows: int, columns: int, channels: int, name: str = "x") -> str:
        return self._tensor(name, (rows, columns, channels), kind="input")

    def conv(
        self,
        x: str,
        channels: int,
        *,
        taps: int = 3,
        stride: int = 1,
        depthwise: bool = False,
        padding: int | None = None,
    ) -> str:
        rows, columns, wide = self._shape(x)
        pad = taps // 2 if padding is None else padding
        size = [(n + 2 * pad - taps) // stride + 1 for n in (rows, columns)]
        y = self._tensor(None, (*size, wide if depthwise else channels))
        axes = [
            Axis(name, n, (Window(x, axis, stride, -pad, taps), Window(y, axis)))
            for name, axis, n in (("rows", ROWS, size[0]), ("columns", COLUMNS, size[1]))
        ]
        own = (Window(x, CHANNELS),) if depthwise else ()
        axes.append(Axis("channels", self._shape(y)[2], (*own, Window(y, CHANNELS))))
        if not depthwise and self.dtype.startswith("float"):
            axes.append(Axis("terms", wide, (Window(x, CHANNELS),), accumulates=True))
        cost = math.prod(self._shape(y)) * taps * taps * (1 if depthwise else wide)
        return self._op("Conv", (x,), y, axes, cost)

    def relu(self, x: str) -> str:
        y = self._tensor(None, self._shape(x))
        return self._op("Relu", (x,), y, self._same(x, y), 0, in_place=self._over(y, x))

    def add(self, a: str, b: str) -> str:
        y = self._tensor(None, self._shape(a))
        return self._op("Add", (a, b), y, self._same(a, b, y), 0, in_place=self._over(y, a, b))

    def concat(self, a: str, b: str) -> str:
        (rows, columns, one), (_, _, other) = self._shape(a), self._shape(b)
        y = self._tensor(None, (rows, columns, one + other))
        parts = Window(a, CHANNELS), Window(b, CHANNELS, offset=-one), Window(y, CHANNELS)
        channels = Axis("channels", one + other, parts)
        return self._op("Concat", (a, b), y, [*self._same(a, b, y)[:2], channels], 0)

    def relu_over(self, x: str) -> str:
        """A rectifier that writes over what it reads: its output is a view."""
        y = self._tensor(None, self._shape(x), view_of=(x, 0))
        return self._op("Relu_", (x,), y, self._same(x, y), 0)

    def fold(self, x: str, columns: int) -> str:
        """A view in which some columns are channels; rows and groups of columns stay."""
        rows, wide, channels = self._shape(x)
        y = self._tensor(None, (rows, wide // columns, channels * columns), view_of=(x, 0))
        axes = [
            Axis("rows", rows, (Window(x, ROWS), Window(y, ROWS))),
            Axis(
                "columns",
                wide // columns,
                (Window(x, COLUMNS, columns, 0, columns), Window(y, COLUMNS)),
            ),
        ]
        return self._op("Reshape", (x,), y, axes, 0)

    def turn(self, x: str) -> str:
        """A view with rows and columns exchanged."""
        rows, columns, channels = self._shape(x)
        y = self._tensor(None, (columns, rows, channels), view_of=(x, 0))
        axes = [
            Axis(name, n, (Window(x, axis), Window(y, other)))
            for name, n, axis, other in (
                ("rows", columns, COLUMNS, ROWS),
                ("columns", rows, ROWS, COLUMNS),
                ("channels", channels, CHANNELS, CHANNELS),
            )
        ]
        return self._op("Transpose", (x,), y, axes, 0)

    def part(self, x: str, along: int, start: int, stop: int) -> str:
        """A view of some positions along one axis of a tensor that is no view."""
        shape = list(self._shape(x))
        whole = self.tensors[x].nbytes
        steps = [whole // math.prod(shape[: k + 1]) for k in range(len(shape))]
        shape[along] = stop - start
        nbytes = sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) + steps[-1]
        y = self._tensor(None, tuple(shape), view_of=(x, start * steps[along]))
        self.tensors[y] = replace(self.tensors[y], size=nbytes)
        axes = [
            Axis(name, n, (Window(x, k, 1, start if k == along else 0), Window(y, k)))
            for k, (name, n) in enumerate(zip(("rows", "columns", "channels"), shape, strict=True))
        ]
        return self._op("Slice", (x,), y, axes, 0)

    def attention(self, query: str, key: str, value: str) -> str:
        """Sums of values for each row of the query, which needs all keys and values."""
        rows = self._shape(query)[ROWS]
        y = self._tensor(None, self._shape(query))
        axes = [Axis("rows", rows, (Window(query, ROWS), Window(y, ROWS)))]
        cost = rows * rows * math.prod(self._shape(key)) * 2
        return self._op("Attention", (query, key, value), y, axes, cost)

    def dense(self, x: str, channels: int) -> str:
        """A matrix product over everything, which cannot be split."""
        y = self._tensor(None, (1, 1, channels))
        return self._op("Dense", (x,), y, [], math.prod(self._shape(x)) * channels)

    def graph(self, name: str = "net", *outputs: str) -> Graph:
        """The graph, in which what nobody reads, or ``outputs``, are outputs."""
        read = {name for op in self.ops for name in op.inputs}
        kinds: dict[str, Any] = {
            key: "output"
            for key, tensor in self.tensors.items()
            if tensor.kind != "input" and (key not in read or key in outputs)
        }
        tensors = (replace(t, kind=kinds.get(key, t.kind)) for key, t in self.tensors.items())
        return Graph(name, tuple(tensors), tuple(self.ops))

    def _same(self, *names: str) -> list[Axis]:
        shape = self._shape(names[-1])
        return [
            Axis(axis, shape[k], tuple(Window(name, k) for name in dict.fromkeys(names)))
            for k, axis in enumerate(("rows", "columns", "channels"))
        ]

    def _over(self, y: str, *inputs: str) -> tuple[tuple[str, str], ...]:
        """In-place pairs with the inputs that have no gaps."""
        size = self.tensors[y].nbytes
        return tuple((y, x) for x in inputs if self.tensors[x].nbytes == size)

    def has_gaps(self, x: str) -> bool:
        """True if a view leaves out bytes between its elements."""
        tensor = self.tensors[x]
        return tensor.nbytes > replace(tensor, size=None).nbytes

    def _op(
        self,
        kind: str,
        inputs: tuple[str, ...],
        output: str,
        axes: list[Axis],
        cost: int,
        **more: Any,
    ) -> str:
        name = f"{kind.lower()}{len(self.ops)}"
        self.ops.append(Op(name, kind, inputs, (output,), cost=cost, axes=tuple(axes), **more))
        return output

    def _shape(self, name: str) -> tuple[int, ...]:
        shape = self.tensors[name].shape
        assert shape is not None
        return shape

    def _tensor(
        self,
        name: str | None,
        shape: tuple[int, ...],
        kind: Any = "intermediate",
        view_of: tuple[str, int] | None = None,
    ) -> str:
        name = name or f"t{len(self.tensors)}"
        self.tensors[name] = Tensor(name, shape=shape, dtype=self.dtype, kind=kind, view_of=view_of)
        return name


def random_network(rng: random.Random) -> Graph:
    """Two to six layers, some of them branches or views."""
    net = Network(rng.choice(["int8", "float32"]))
    ends = [net.image(rng.randint(4, 12), rng.randint(4, 8), rng.randint(1, 4))]
    for _ in range(rng.randint(2, 6)):
        x = rng.choice(ends[-2:])
        kind = rng.choice(_KINDS)
        shape = net.tensors[x].shape
        assert shape is not None
        if kind == "conv":
            ends.append(
                net.conv(x, rng.randint(1, 4), taps=rng.choice([1, 3]), stride=rng.choice([1, 2]))
            )
        elif kind == "depthwise":
            ends.append(net.conv(x, 0, taps=3, depthwise=True))
        elif kind in ("add", "concat"):
            others = [y for y in ends if net.tensors[y].shape == shape and y != x]
            ends.append(getattr(net, kind)(x, rng.choice(others)) if others else net.relu(x))
        elif kind == "fold" and not net.has_gaps(x):
            ends.append(net.fold(x, next(k for k in (2, 3, 1) if shape[1] % k == 0)))
        elif kind == "part" and net.tensors[x].view_of is None:
            along = rng.randrange(3)
            start, stop = sorted(rng.sample(range(shape[along] + 1), 2))
            ends += [net.part(x, along, start, stop), x]
        elif kind in ("relu_over", "turn") and not net.has_gaps(x):
            ends.append(getattr(net, kind)(x))
        else:
            ends.append(net.relu(x))
    return net.graph()
