"""Packing problems with the pattern of a training step: equal layers forward, then backward."""

from __future__ import annotations

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.problem import Problem


def training_layers(
    layers: int, *, seed: int, a_layer: int = 12, kept: int = 4, steps: int = 24
) -> Problem:
    """A problem of equal layers, run forward and then backward, like a transformer's trace.

    Every layer has the same ``a_layer`` short-lived buffers in each direction, at the same relative
    steps, and ``kept`` more buffers that are live from its forward run to its backward run.

    Parameters
    ----------
    layers
        Number of layers of the network.
    seed
        Seed for the buffers of one layer.
    a_layer, kept
        Numbers of buffers live within one run of a layer, and between its two runs.
    steps
        Steps of one run of a layer.

    Raises
    ------
    InputError
        If there are no layers, steps or buffers.

    Examples
    --------
    >>> problem = training_layers(24, seed=1)
    >>> len(problem), len(set(problem.size.tolist())) <= 12 + 12 + 4
    (672, True)
    """
    if min(layers, steps) < 1 or min(a_layer, kept) < 0 or a_layer + kept < 1:
        raise InputError("training_layers needs at least one layer, one step and one buffer")
    rng = np.random.default_rng(seed)
    first = np.arange(layers) * steps
    # Layer k's backward run mirrors its forward run around the middle.
    back = (2 * layers - 1 - np.arange(layers)) * steps
    lower, upper, size = [], [], []
    for start in (first, back):
        begin = rng.integers(0, steps, a_layer)
        end = np.minimum(steps, begin + 1 + rng.integers(0, max(1, steps // 3), a_layer))
        lower.append((start[:, None] + begin).ravel())
        upper.append((start[:, None] + end).ravel())
        size.append(np.tile(_sizes(rng, a_layer), layers))
    written, read = rng.integers(0, steps, kept), rng.integers(1, steps + 1, kept)
    lower.append((first[:, None] + written).ravel())
    upper.append((back[:, None] + read).ravel())
    size.append(np.tile(_sizes(rng, kept), layers))
    count = layers * (2 * a_layer + kept)
    return Problem(
        [f"b{row}" for row in range(count)],
        lower=np.concatenate(lower),
        upper=np.concatenate(upper),
        size=np.concatenate(size),
        name=f"layers_{layers}_{seed}",
    )


def _sizes(rng: np.random.Generator, count: int) -> np.ndarray:
    """Sizes of activations: 64 KiB times small factors, some with a byte more as headers add."""
    return 65_536 * rng.integers(1, 65, count) + rng.integers(0, 2, count)
