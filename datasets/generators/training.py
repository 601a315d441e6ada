"""One training step of convolutional networks: forward, backward, and the weights' updates.

The update of a weight frees its gradient; frameworks run all updates in the end, so that all
gradients wait for them. (An order is free to run them early: Steiner et al., "OLLA: Optimizing the
Lifetime and Location of Arrays", 2022.) Networks of these kinds are what rematerialization is
measured on (Jain et al., "Checkmate", MLSys 2020); which gradient reads what is in
``generators/tape.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.model.graph import Graph
from generators.tape import Tape

VGG11 = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")
VGG16 = (64, 64, "pool", 128, 128, "pool", *(256,) * 3, "pool", *((512,) * 3 + ("pool",)) * 2)
# Howard et al., "MobileNets" (2017), table 1: channels and stride of the separable layers.
MOBILENET = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)


def training_step(
    name: str, layers: Sequence[int | str] = VGG11, *, batch: int = 32, extent: int = 32
) -> Graph:
    """SGD on 3×3 convolutions with ReLU (a number of channels) and 2×2 max pools (``"pool"``)."""
    tape = Tape(name)
    x = _features(tape, tape.input("image", (batch, 3, extent, extent)), layers)
    tape.loss(x, "MeanSquaredError", operations=2)
    return tape.graph()


def vgg16(name: str, batch: int) -> Graph:
    """Simonyan and Zisserman (2015), configuration D, on 224×224; without dropout."""
    tape = Tape(name)
    x = _features(tape, tape.input("image", (batch, 3, 224, 224)), VGG16)
    for _ in range(2):
        x = tape.relu(tape.dense(x, 4096))
    return _classified(tape, tape.dense(x, 1000))


def mobilenet(name: str, batch: int) -> Graph:
    """MobileNet v1 on 224×224: depthwise and pointwise convolutions, each with batch norm."""
    tape = Tape(name)
    x = tape.input("image", (batch, 3, 224, 224))
    x = _normed(tape, tape.conv(x, 32, stride=2))
    for channels, stride in MOBILENET:
        before = tape.shape(x)[1]
        x = _normed(tape, tape.conv(x, before, stride=stride, groups=before))
        x = _normed(tape, tape.conv(x, channels, 1))
    return _classified(tape, tape.dense(tape.average(x), 1000))


def unet(name: str, batch: int, extent: int) -> Graph:
    """Ronneberger et al. (2015), with padding, so that results are as large as images; 2 classes.

    What each of the four levels computes on the way down waits for the way up.
    """
    tape = Tape(name)
    x, levels = tape.input("image", (batch, 3, extent, extent)), []
    for channels in (64, 128, 256, 512):
        levels.append(_features(tape, x, (channels, channels)))
        x = tape.max_pool(levels[-1])
    x = _features(tape, x, (1024, 1024))
    for level in reversed(levels):
        channels = tape.shape(level)[1]
        x = tape.concat(level, tape.up_conv(x, channels))
        x = _features(tape, x, (channels, channels))
    return _classified(tape, tape.conv(x, 2, 1))


def resnet18(name: str, batch: int) -> Graph:
    """He et al. (2016), table 1, on 224×224; where a stage begins, 1×1 convolutions on the side.

    The first pool has windows of 2×2 side by side, not of 3×3 that overlap.
    """
    tape = Tape(name)
    x = tape.input("image", (batch, 3, 224, 224))
    x = tape.max_pool(_normed(tape, tape.conv(x, 64, 7, stride=2)))
    for channels in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if channels > 64 and not block else 1
            y = _normed(tape, tape.conv(x, channels, stride=stride))
            y = tape.batch_norm(tape.conv(y, channels))
            if stride > 1:
                x = tape.batch_norm(tape.conv(x, channels, 1, stride=stride))
            x = tape.relu(tape.add(y, x))
    return _classified(tape, tape.dense(tape.average(x), 1000))


def _features(tape: Tape, x: str, layers: Sequence[int | str]) -> str:
    for layer in layers:
        x = tape.max_pool(x) if isinstance(layer, str) else tape.relu(tape.conv(x, layer))
    return x


def _normed(tape: Tape, x: str) -> str:
    return tape.relu(tape.batch_norm(x))


def _classified(tape: Tape, x: str) -> Graph:
    """The loss against labels, one for each image or pixel; then the whole step."""
    batch, _, *plane = tape.shape(x)
    labels = tape.input("labels", (batch, *plane), "int64")
    tape.loss(x, "SoftmaxCrossEntropyLoss", labels)
    return tape.graph()
