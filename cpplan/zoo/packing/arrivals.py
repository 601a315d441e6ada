"""Packing problems with random lifespans, like the requests of a long run to an allocator."""

from __future__ import annotations

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.problem import Problem


def random_lifespans(
    count: int,
    *,
    seed: int,
    live: float = 50,
    smallest: int = 64,
    largest: int = 1 << 20,
    alignment: int = 1,
    steps: int | None = None,
) -> Problem:
    """A problem with uniform starts, exponential lifetimes and log-uniform sizes. O(count).

    Parameters
    ----------
    count
        Number of buffers; a million takes about a second.
    seed
        The same seed gives the same problem.
    live
        Mean number of buffers live at a step.
    smallest, largest
        Limits on the size, bytes. Sizes are rounded up to the alignment.
    alignment
        Alignment of every buffer, bytes.
    steps
        Number of steps from which starts are drawn; if left out, 16 per buffer, so that few starts
        coincide.

    Raises
    ------
    InputError
        If an argument is out of its range.
    """
    steps = 16 * count if steps is None else steps
    if min(count, steps, alignment) < 1 or live <= 0 or not 1 <= smallest <= largest:
        raise InputError(
            "random_lifespans needs count, steps and alignment of at least 1, live above 0 "
            "and 1 <= smallest <= largest"
        )
    rng = np.random.default_rng(seed)
    lower = rng.integers(0, steps, count)
    # Little's law: the mean number live is the arrivals per step times the mean lifetime.
    lifetime = rng.exponential(live * steps / count, count)
    size = np.exp(rng.uniform(np.log(smallest), np.log(largest + 1), count)).astype(np.int64)
    size = np.clip(size, smallest, largest)
    return Problem(
        [f"b{row}" for row in range(count)],
        lower=lower,
        upper=lower + np.maximum(1, np.rint(lifetime).astype(np.int64)),
        size=-(-size // alignment) * alignment,
        alignment=np.full(count, alignment),
        name=f"lifespans_{count}_{seed}",
    )


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
