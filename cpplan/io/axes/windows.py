"""Axes of ops whose window slides over an image: convolutions, pools and their transposes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cpplan.io.axes.operation import NoAxes, Operation, same, shape_of
from cpplan.model.axes import Axis, Window
from cpplan.model.tensor import Tensor
from cpplan.runtime import limits


@dataclass(frozen=True, slots=True)
class Slide:
    """Steps of a window along one axis of an image.

    Attributes
    ----------
    taps, stride, dilation
        Of the window.
    before
        Padding in front of the image's first position.
    """

    taps: int
    stride: int = 1
    dilation: int = 1
    before: int = 0

    @property
    def reach(self) -> int:
        """Positions from the window's first tap to its last, both included."""
        return self.dilation * (self.taps - 1) + 1

    def window(self, tensor: str, axis: int) -> Window:
        """The positions that a step reads."""
        return Window(tensor, axis, self.stride, -self.before, self.reach)


def same_padding(extent: int, places: int, slide: Slide, *, lower: bool = False) -> int:
    """Padding in front of an image that has as many places for a window as its stride allows."""
    total = max(0, (places - 1) * slide.stride + slide.reach - extent)
    return (total + 1) // 2 if lower else total // 2


def slide_axes(
    operation: Operation, image: Tensor, slides: Sequence[Slide], first: int
) -> Iterator[Axis]:
    """Batch and spatial axes of an op whose window slides over an image."""
    output = operation.output
    shape, extents = shape_of(output), shape_of(image)
    names = _image_names(operation, len(shape))
    if len(extents) != len(shape) or len(slides) != len(shape) - 2:
        raise NoAxes
    yield same("batch", shape[0], [(image, 0), (output, 0)])
    for axis, slide in enumerate(slides, first):
        last = (shape[axis] - 1) * slide.stride - slide.before
        if slide.before >= slide.reach or last >= extents[axis]:
            continue  # a step that reads nothing but padding: kernels refuse it
        windows = slide.window(image.name, axis), Window(output.name, axis)
        yield Axis(names[axis], shape[axis], windows)


def transposed_axes(
    operation: Operation, image: Tensor, slides: Sequence[Slide], first: int
) -> Iterator[Axis]:
    """Batch and spatial axes of a transposed convolution: a table of what each row is made of.

    Position ``i`` of the image adds to positions ``i stride - before + k dilation`` of the output.
    """
    output = operation.output
    shape, extents = shape_of(output), shape_of(image)
    names = _image_names(operation, len(shape))
    yield same("batch", shape[0], [(image, 0), (output, 0)])
    for axis, slide in enumerate(slides, first):
        if slide.dilation != 1 or slide.taps < slide.stride:
            continue  # some positions are made of nothing
        if shape[axis] > limits.MOST_POSITIONS:
            continue
        table = []
        for position in range(shape[axis]):
            last = (position + slide.before) // slide.stride
            start = -(-(position + slide.before - slide.reach + 1) // slide.stride)
            low = min(max(start, 0), extents[axis])
            table.append((low, max(low, min(last + 1, extents[axis]))))
        if all(low < high for low, high in table):  # else some are nothing but the bias
            windows = Window(image.name, axis, table=tuple(table)), Window(output.name, axis)
            yield Axis(names[axis], shape[axis], windows)


def channel_axes(
    operation: Operation,
    image: Tensor,
    weights: tuple[Tensor, int],
    vectors: Sequence[Tensor | None],
    *,
    groups: int,
    terms: int | None = None,
) -> Iterator[Axis]:
    """Channels of a convolution's output, or its groups.

    Parameters
    ----------
    weights
        With their axis of the output's channels.
    vectors
        Bias, scales and the like: those of as many elements as channels are cut with them.
    groups
        Groups of channels that do not mix.
    terms
        Axis of the weights along which products are added up, if they may be added in parts.
    """
    output = operation.output
    channels = 1 if operation.layout == "channels first" else len(shape_of(output)) - 1
    made, read = shape_of(output)[channels], shape_of(image)[channels]
    tensor, along = weights
    if made % groups or read % groups or shape_of(tensor)[along] != made:
        return
    stride = made // groups if groups > 1 else 1
    steps = groups if groups > 1 else made
    windows = [
        Window(output.name, channels, stride, 0, stride),
        Window(tensor.name, along, stride, 0, stride),
    ]
    if groups > 1:
        width = read // groups
        windows.append(Window(image.name, channels, width, 0, width))
    cut = (v for v in vectors if v is not None and shape_of(v) == (made,))
    windows += [Window(vector.name, 0, stride, 0, stride) for vector in cut]
    yield Axis("channels", steps, tuple(windows))
    if terms is not None and groups == 1 and shape_of(tensor)[terms] == read:
        windows = [Window(image.name, channels), Window(tensor.name, terms)]
        yield Axis("terms", read, tuple(windows), accumulates=True)


def _image_names(operation: Operation, rank: int) -> tuple[str, ...]:
    if rank == 3:
        first = operation.layout == "channels first"
        return ("batch", "channels", "columns") if first else ("batch", "columns", "channels")
    return operation.names(rank)
