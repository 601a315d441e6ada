"""Kernels of our own, where ONNX has no reference kernel or one that cannot run all forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.in_place import is_affine
from cpplan.io.onnx.pooling import make_pooling

if TYPE_CHECKING:
    import onnx

Kernel = Callable[[Sequence["Array | None"]], "Sequence[Array] | None"]
# Kinds with kernels of our own; onnx has no reference kernels of the second group.
OURS = (
    "AveragePool", "BatchNormalization", "GatherElements", "GlobalMaxPool", "MaxPool", "Pad",
    "STFT",
)  # fmt: skip
OURS_ALONE = ("GlobalLpPool", "MaxRoiPool", "Multinomial")
_EPSILON = 1e-5


def own_kernel(node: onnx.NodeProto, opset: int) -> Kernel | None:
    """Our own kernel of a node, used instead of the reference kernel; ``None`` if we have none.

    The kernel returns ``None`` for inputs that the reference kernel must handle.
    """
    if node.domain:
        return None
    if node.op_type == "BatchNormalization":
        return make_batch_norm(node, opset)
    made = _MAKERS.get(node.op_type)
    return make_pooling(node) if made is None else made(node)


def make_draw(node: onnx.NodeProto) -> Kernel:
    """A kernel for ``Multinomial``.

    The greatest of logarithms of probabilities plus Gumbel noise is a class drawn by these
    probabilities (E. J. Gumbel, 1954).
    """
    import onnx

    given: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    dtype = onnx.helper.tensor_dtype_to_np_dtype(given.get("dtype", onnx.TensorProto.INT32))
    seed = given.get("seed")

    def draw(inputs: Sequence[Array | None]) -> list[Array]:
        (logits,) = inputs
        assert logits is not None
        rng = np.random.default_rng(None if seed is None else abs(int(seed)))
        shape = (logits.shape[0], given.get("sample_size", 1), logits.shape[1])
        found: Array = (logits[:, None] + rng.gumbel(size=shape)).argmax(2)
        return [found.astype(dtype)]

    return draw


def make_batch_norm(node: onnx.NodeProto, opset: int) -> Kernel | None:
    """A kernel for a ``BatchNormalization`` that uses given statistics; ``None`` for others.

    The reference kernels of opsets 7 to 13 always normalise by the statistics of the input, but the
    operator's definition says so only if these statistics are outputs.
    """
    if not is_affine(node, opset):
        return None
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), _EPSILON)

    def normalise(inputs: Sequence[Array | None]) -> list[Array]:
        image, *vectors = (array for array in inputs if array is not None)
        ones = (1,) * (image.ndim - 2)
        scale, bias, mean, var = (vector.reshape(-1, *ones) for vector in vectors)
        found: Array = scale * (image - mean) / np.sqrt(var + epsilon) + bias
        return [found.astype(image.dtype)]

    return normalise


def make_gather(node: onnx.NodeProto) -> Kernel:
    """A kernel for ``GatherElements``.

    The reference kernel fails where the indices have fewer positions than the data.
    """
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)

    def gather(inputs: Sequence[Array | None]) -> list[Array]:
        data, indices = inputs
        assert data is not None
        assert indices is not None
        kept = list(map(slice, indices.shape))
        kept[axis] = slice(None)
        return [np.take_along_axis(data[tuple(kept)], indices, axis)]

    return gather


def make_pad(node: onnx.NodeProto) -> Kernel:
    """A kernel for ``Pad`` by negative numbers, which cut."""
    import onnx

    given: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    mode = given.get("mode", b"constant").decode()
    # Before opset 11, pads and value are attributes.
    stated = given.get("pads", given.get("paddings"))

    def pad(inputs: Sequence[Array | None]) -> list[Array] | None:
        data, pads, value, axes = [*inputs, None, None, None][:4]
        if stated is not None:
            pads, value = np.array(stated), np.array(given.get("value", 0.0))
        assert data is not None
        assert pads is not None
        if not (pads < 0).any():
            return None
        along = range(data.ndim) if axes is None else [int(k) % data.ndim for k in axes]
        both = np.zeros((data.ndim, 2), np.int64)
        both[list(along)] = pads.reshape(2, -1).T
        kept = (
            slice(max(0, -low), extent - max(0, -high))
            for (low, high), extent in zip(both.tolist(), data.shape, strict=True)
        )
        filled = {"constant_values": 0 if value is None else value.item()}
        named = filled if mode == "constant" else {}
        fill: Any = np.pad  # its stubs know no mode that is a variable
        return [fill(data[tuple(kept)], np.maximum(both, 0), mode, **named)]

    return pad


def make_stft(node: onnx.NodeProto) -> Kernel:
    """A kernel for ``STFT`` of real signals.

    The reference kernel takes the batch for the signal if there is no last axis of extent one.
    """
    one_side = next((a.i for a in node.attribute if a.name == "onesided"), 1)

    def transform(inputs: Sequence[Array | None]) -> list[Array] | None:
        signal, step, window, length = [*inputs, None, None][:4]
        assert signal is not None
        assert step is not None
        if signal.ndim == 3 and signal.shape[-1] == 2:
            return None
        signal = signal.reshape(len(signal), -1)
        bins = int(length) if length is not None else 0 if window is None else len(window)
        if not 0 < bins <= signal.shape[1]:
            return None
        frames = np.lib.stride_tricks.sliding_window_view(signal, bins, 1)[:, :: int(step)]
        frames = frames if window is None else frames * window
        found = np.fft.rfft(frames) if one_side else np.fft.fft(frames)
        return [np.stack([found.real, found.imag], -1).astype(signal.dtype)]

    return transform


_MAKERS: Mapping[str, Callable[[onnx.NodeProto], Kernel]] = {
    "GatherElements": make_gather,
    "Multinomial": make_draw,
    "Pad": make_pad,
    "STFT": make_stft,
}
