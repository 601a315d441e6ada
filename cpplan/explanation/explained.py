"""What an explanation says, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cpplan.explanation.fullest_step import FullestStep
from cpplan.plan import Scope, Status

if TYPE_CHECKING:
    import pandas

# Fields of an explanation that are not plain values.
_NESTED = ("fullest", "relaxations")


@dataclass(frozen=True, slots=True)
class Relaxation:
    """What one rule of a plan costs.

    Attributes
    ----------
    rule
        The rule that is dropped, all others kept, the order of ops included.
    instead
        What holds in its place, in words.
    before
        The plan's peak, in all its pools together, bytes; ``None`` if there is no plan.
    bound
        Without the rule, no plan has a smaller peak, bytes.
    bound_by
        What proves that.
    peak
        Of a verified plan without the rule, bytes; ``None`` if none was sought or found.
    """

    rule: str
    instead: str
    before: int | None
    bound: int
    bound_by: str
    peak: int | None = None

    @property
    def at_most(self) -> int | None:
        """Dropping the rule saves no more than this many bytes."""
        return None if self.before is None else self.before - self.bound

    @property
    def saved(self) -> int | None:
        """Bytes that dropping the rule saves, in a plan that is at hand."""
        return None if self.before is None or self.peak is None else self.before - self.peak

    def share(self, count: int | None) -> float | None:
        """Bytes as a share of the plan's peak."""
        return None if count is None or not self.before else count / self.before

    def to_dict(self) -> dict[str, Any]:
        """The fields, savings in bytes, and the same as shares of the peak."""
        return asdict(self) | {
            "at_most": self.at_most,
            "at_most_share": self.share(self.at_most),
            "saved": self.saved,
            "saved_share": self.share(self.saved),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a plan is not smaller.

    Attributes
    ----------
    name
        Of the model.
    status, peak, lower_bound, bound_by, scope
        The plan's. With several pools, peak and bound are those of all together.
    steps
        How many the plan has.
    fullest
        The step that makes the bound at the plan's order, or, from the plan alone and where the
        bound is not made at a step, the one at which most bytes are filled.
    order_bound, order_bound_by
        What is proved without search at the plan's order, bytes; ``None`` from the plan alone.
    forced_by
        The buffer that makes that bound by itself, by its fixed offset or its size, if one does.
    relaxations
        What each rule costs, the one that may cost most first; empty from the plan alone.
    """

    name: str
    status: Status
    peak: int | None
    lower_bound: int | None
    bound_by: str | None
    scope: Scope
    steps: int
    fullest: FullestStep
    order_bound: int | None = None
    order_bound_by: str | None = None
    forced_by: str | None = None
    relaxations: tuple[Relaxation, ...] = ()

    @property
    def waste(self) -> int | None:
        """Bytes of the peak that are not filled at the fullest step."""
        return None if self.peak is None else self.peak - self.fullest.filled

    def __str__(self) -> str:
        from cpplan.report.explanation_text import format_explanation

        return format_explanation(self)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        head = [name for name in self.__dataclass_fields__ if name not in _NESTED]
        full = self.fullest
        return {name: getattr(self, name) for name in [*head, "waste"]} | {
            "fullest": full._asdict() | {"tensors": [t._asdict() for t in full.tensors]},
            "relaxations": [relaxation.to_dict() for relaxation in self.relaxations],
        }

    def to_frame(self) -> pandas.DataFrame:
        """One row a rule that was dropped, as in :meth:`Relaxation.to_dict`."""
        import pandas

        rows = [relaxation.to_dict() for relaxation in self.relaxations]
        columns = list(Relaxation("", "", None, 0, "").to_dict())
        frame: pandas.DataFrame = pandas.DataFrame(rows, columns=columns)
        for column in ("before", "peak", "at_most", "saved"):
            frame[column] = frame[column].astype("Int64")
        for column in ("at_most_share", "saved_share"):
            frame[column] = frame[column].astype("Float64")
        return frame
