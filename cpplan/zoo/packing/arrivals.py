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

    Examples
    --------
    >>> problem = random_lifespans(10_000, seed=1)
    >>> len(problem), int(problem.size.min()) >= 64, int(problem.size.max()) <= 1 << 20
    (10000, True, True)
    >>> steps = 16 * len(problem)
    >>> round(float((problem.upper - problem.lower).sum()) / steps, -1)
    50.0
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
