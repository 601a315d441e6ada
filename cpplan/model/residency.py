"""Residency of the model's inputs, outputs and constants in the arena."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from cpplan.model.names import not_understood
from cpplan.model.pool import Pool

_CHOICES = {
    "inputs": ("reuse", "keep", "outside"),
    "outputs": ("keep", "outside"),
    "constants": ("outside", "keep"),
}


@dataclass(frozen=True, slots=True)
class Residency:
    """Memory and lifespan of graph inputs, graph outputs and constants.

    Attributes
    ----------
    inputs
        ``"reuse"``: in the arena, their bytes free after the last use (what TFLite Micro and
        ExecuTorch do); ``"keep"``: in the arena to the end, so that the model can run again on
        them; ``"outside"``: in the caller's memory.
    outputs
        ``"keep"``: in the arena from their definition to the end; ``"outside"``: in the caller's
        memory.
    constants
        ``"outside"``: in read-only memory; ``"keep"``: in the arena throughout.

    Examples
    --------
    >>> Residency(inputs="outside").inputs
    'outside'
    """

    inputs: str = "reuse"
    outputs: str = "keep"
    constants: str = "outside"

    def __post_init__(self) -> None:
        for field in fields(self):
            value, known = getattr(self, field.name), _CHOICES[field.name]
            if value not in known:
                raise not_understood(f"{field.name}={value!r}", value, known)


def choose_residency(
    inputs: str = "reuse",
    outputs: str = "keep",
    constants: str | None = None,
    pools: Iterable[Pool] = (),
) -> Residency:
    """The residency asked for; by default, constants are kept if there is a pool for them."""
    if constants is None:
        constants = "keep" if any(pool.kind == "constant" for pool in pools) else "outside"
    return Residency(inputs, outputs, constants)
