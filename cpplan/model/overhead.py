"""Bytes that a runtime needs of an arena beside the tensors that a plan places."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.model.tensor import check_count


@dataclass(frozen=True, slots=True)
class Overhead:
    """Bytes that a runtime needs of an arena beside the tensors.

    Attributes
    ----------
    runtime
        Name of the runtime.
    kept
        Bytes that it keeps.
    before
        Bytes that it needs in place of the tensors, before it first runs the model.
    """

    runtime: str
    kept: int
    before: int = 0

    def __post_init__(self) -> None:
        for name in ("kept", "before"):
            check_count(f"overhead of {self.runtime}: {name}", getattr(self, name))

    def total(self, peak: int) -> int:
        """Bytes of the arena, for tensors with this peak."""
        return self.kept + max(peak, self.before)

    def room(self, limit: int) -> int:
        """Bytes left for tensors in an arena of ``limit`` bytes; 0 if it is too small without."""
        left = limit - self.kept
        return left if left >= self.before else 0
