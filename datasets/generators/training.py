"""One training step of a convolutional chain: forward, backward, and the weights' updates.

The backward pass of a convolution is two ops, one for the gradient of what it read and one for that
of its weights. The update of the weights frees their gradient; frameworks run all updates in the
end, so that all gradients wait for them. (An order is free to run them early: Steiner et al.,
"OLLA: Optimizing the Lifetime and Location of Arrays", 2022.)
"""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.graph import Graph, Op, Tensor

VGG11 = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")


def training_step(
    name: str, layers: Sequence[int | str] = VGG11, *, batch: int = 32, extent: int = 32
) -> Graph:
    """SGD on 3×3 convolutions with ReLU (a number of channels) and 2×2 max pools (``"pool"``)."""
    tensors = [Tensor("x0", shape=(batch, 3, extent, extent), dtype="float32", kind="input")]
    forward: list[Op] = []
    backward: list[Op] = []
    updates: list[Op] = []

    def tensor(name: str, shape: tuple[int, ...], kind: str = "intermediate") -> str:
        tensors.append(Tensor(name, shape=shape, dtype="float32", kind=kind))
        return name

    def shape(name: str) -> tuple[int, ...]:
        found = next(t.shape for t in tensors if t.name == name)
        assert found is not None
        return found

    x = "x0"
    for k, layer in enumerate(layers, 1):
        _, channels, extent, _ = shape(x)
        if isinstance(layer, str):
            y = tensor(f"x{k}", (batch, channels, extent // 2, extent // 2))
            forward.append(Op(f"pool{k}", "MaxPool", (x,), (y,)))
            grad = tensor(f"dx{k - 1}", shape(x))
            backward.append(Op(f"pool{k}_grad", "MaxPoolGrad", (f"dx{k}", x, y), (grad,)))
        else:
            weight = tensor(f"w{k}", (layer, channels, 3, 3), "constant")
            z = tensor(f"z{k}", (batch, layer, extent, extent))
            y = tensor(f"x{k}", shape(z))
            forward.append(Op(f"conv{k}", "Conv", (x, weight), (z,)))
            forward.append(Op(f"relu{k}", "Relu", (z,), (y,)))
            after = [Op(f"relu{k}_grad", "ReluGrad", (f"dx{k}", y), (tensor(f"dz{k}", shape(z)),))]
            if k > 1:
                grad = tensor(f"dx{k - 1}", shape(x))
                after.append(Op(f"conv{k}_dx", "ConvGradInput", (f"dz{k}", weight), (grad,)))
            grad = tensor(f"dw{k}", shape(weight))
            after.append(Op(f"conv{k}_dw", "ConvGradWeight", (f"dz{k}", x), (grad,)))
            # Listed back to front, because the layers are.
            backward += after[::-1]
            updates.append(Op(f"update{k}", "SGD", (grad, weight), recomputable=False))
        x = y
    loss = tensor("loss", (1,), "output")
    grad = tensor(f"dx{len(layers)}", shape(x))
    forward.append(Op("loss", "MeanSquaredError", (x,), (loss, grad)))
    return Graph(name, tuple(tensors), (*forward, *backward[::-1], *updates))
