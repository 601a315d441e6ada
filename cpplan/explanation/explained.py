"""Explanations of a plan's peak, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cpplan.explanation.explanation_text import format_explanation
from cpplan.explanation.fullest_step import FullestStep
from cpplan.model.plan import Scope, Status

if TYPE_CHECKING:
    import pandas

# Fields of an explanation that are not plain values.
_NESTED = ("fullest", "relaxations")


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The cost of one rule of a plan in bytes.

    Attributes
    ----------
    rule
        The rule that is dropped; all other rules are kept, including the order of ops.
    instead
        The rule that takes its place, in words.
    before
        The plan's peak, summed over its pools, bytes; ``None`` if there is no plan.
    bound
        Lower bound on the peak of every plan without the rule, bytes.
    bound_by
        Name of the bound.
    peak
        Peak of a verified plan without the rule, bytes; ``None`` if none was sought or found.
    proved
        Lower bound on the peak of every plan with the rule, bytes.
    """

    rule: str
    instead: str
    before: int | None
    bound: int
    bound_by: str
    peak: int | None = None
    proved: int | None = None

    @property
    def at_most(self) -> int | None:
        """The most bytes that dropping the rule can save."""
        return None if self.before is None else max(0, self.before - self.bound)

    @property
    def saved(self) -> int | None:
        """Bytes saved by the plan that was found without the rule.

        A better plan that keeps the rule may save some of these bytes too.
        """
        if self.before is None or self.peak is None:
            return None
        return max(0, self.before - self.peak)

    @property
    def at_least(self) -> int | None:
        """The least bytes by which a plan with the rule exceeds the best one without it."""
        if self.peak is None or self.proved is None:
            return None
        return max(0, self.proved - self.peak)

    def share(self, count: int | None) -> float | None:
        """Bytes as a share of the plan's peak."""
        return None if count is None or not self.before else count / self.before

    def to_dict(self) -> dict[str, Any]:
        """The fields, and the savings in bytes and as shares of the peak."""
        return asdict(self) | {
            "at_least": self.at_least,
            "at_most": self.at_most,
            "at_most_share": self.share(self.at_most),
            "saved": self.saved,
            "saved_share": self.share(self.saved),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons why a plan is not smaller.

    Attributes
    ----------
    name
        Name of the model.
    status, capacity, peak, lower_bound, bound_by, scope
        These fields of the plan. With several pools, peak and bound are sums over all pools.
    steps
        Number of steps of the plan.
    fullest
        The step that gives the bound at the plan's order. If the bound does not come from a step,
        or only the plan is known, the step with the most filled bytes.
    order_bound, order_bound_by
        Bound proved without search at the plan's order, bytes, and its name; ``None`` if only the
        plan is known.
    forced_by
        The buffer whose fixed offset or size alone gives ``order_bound``, if there is one.
    relaxations
        The cost of each rule, the largest possible cost first; empty if only the plan is known.
    least_piece
        Text on the part of the model that gives the plan's bound on every splitting; ``None`` if
        the plan has another bound.

    Examples
    --------
    For use by other programs: one row a rule, or all fields as JSON.

    >>> import cpplan
    >>> problem = cpplan.Problem(("a",), [0], [1], [4], alignment=[8], fixed={0: 8})
    >>> found = cpplan.solve(problem).explain(problem)
    >>> found.to_frame()[["rule", "at_least", "at_most"]].values.tolist()
    [['fixed offsets', <NA>, 8], ['alignment', 0, 0]]
    >>> found.to_dict()["fullest"]["tensors"][0]["name"]
    'a'
    """

    name: str
    status: Status
    capacity: int | None
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
    least_piece: str | None = None

    @property
    def needed(self) -> int | None:
        """Bytes that the fullest step's op itself accesses; ``None`` if not known."""
        tensors = self.fullest.tensors
        if any(tensor.role is None for tensor in tensors):
            return None
        return sum(tensor.own for tensor in tensors if tensor.role != "waits")

    @property
    def waste(self) -> int | None:
        """Bytes of the peak that are not filled at the fullest step."""
        return None if self.peak is None else self.peak - self.fullest.filled

    def __str__(self) -> str:
        return format_explanation(self)

    def to_dict(self) -> dict[str, Any]:
        """The explanation as values ready for JSON."""
        head = [name for name in self.__dataclass_fields__ if name not in _NESTED]
        full = self.fullest
        return {name: getattr(self, name) for name in [*head, "needed", "waste"]} | {
            "fullest": full._asdict() | {"tensors": [t._asdict() for t in full.tensors]},
            "relaxations": [relaxation.to_dict() for relaxation in self.relaxations],
        }

    def to_frame(self) -> pandas.DataFrame:
        """The relaxations as a frame, one row a rule, with :meth:`Relaxation.to_dict`'s columns."""
        import pandas

        rows = [relaxation.to_dict() for relaxation in self.relaxations]
        columns = list(Relaxation("", "", None, 0, "").to_dict())
        frame: pandas.DataFrame = pandas.DataFrame(rows, columns=columns)
        for column in ("before", "peak", "proved", "at_least", "at_most", "saved"):
            frame[column] = frame[column].astype("Int64")
        for column in ("at_most_share", "saved_share"):
            frame[column] = frame[column].astype("Float64")
        return frame
