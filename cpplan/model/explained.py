"""Explanations of a plan as data: its fullest step, the cost of each rule, the moves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cpplan.model.methods import method
from cpplan.model.plan_data import Scope, Status

if TYPE_CHECKING:
    import pandas

Role = Literal["read", "written", "workspace", "body", "waits"]
# Fields of an explanation that are not plain values.
_NESTED = ("fullest", "relaxations")


class LiveTensor(NamedTuple):
    """A buffer that holds bytes at the fullest step.

    Attributes
    ----------
    name
        Name of the buffer: the tensor whose storage it is.
    size
        Bytes that the buffer holds at this step.
    own
        Bytes of the buffer that no larger buffer shares.
    share
        ``own`` as a share of all bytes filled at this step.
    lower, upper
        Lifespan of the buffer, steps.
    offset
        Offset of the buffer, bytes; ``None`` if no layout was found.
    pool
        Name of the pool.
    within
        The larger buffer with which it shares bytes by choice, if any.
    role
        Use of the buffer by the op that runs: ``read``, ``written``, ``workspace``, or in a
        ``body`` of the op; ``waits`` if it is kept for a later op or for the caller. ``None`` if
        the op is not known.
    until
        The last op to access it; ``None`` if the caller needs it at the end, or if not known.
    """

    name: str
    size: int
    own: int
    share: float
    lower: int
    upper: int
    offset: int | None
    pool: str
    within: str | None
    role: Role | None = None
    until: str | None = None


class FullestStep(NamedTuple):
    """The tensors live at one step.

    Attributes
    ----------
    step
        The step; ``None`` if no tensor is ever live.
    op, kind
        Name and kind of the op that runs then, if known.
    filled
        Bytes that are filled; bytes that several buffers share by choice count once.
    tensors
        The tensors that fill these bytes, the largest first.
    """

    step: int | None
    op: str | None
    kind: str | None
    filled: int
    tensors: tuple[LiveTensor, ...]


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
        return str(method("Explanation.__str__")(self))

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


@dataclass(frozen=True, slots=True)
class MovedTensor:
    """Bytes that the moves of one tensor carry, and the number of moves by kind."""

    tensor: str
    size: int
    moved: int
    kinds: dict[str, int]


@dataclass(frozen=True, slots=True)
class MovesExplanation:
    """Tensors by the bytes that they move, and the bytes that more room in the fast pool saves.

    Attributes
    ----------
    name, status
        Name and status of the plan.
    moved_bytes, moved_bytes_bound, bound_by
        The plan's bytes moved, their bound, and the bound's name.
    capacity
        Capacity of the fast pool, bytes.
    tensors
        The tensors that move, the one with the most bytes moved first.
    saved_by_kib
        Bytes moved that one more KiB of the fast pool saves in the linear relaxation at this order;
        ``None`` if it was not solved, or no model was given.
    message
        Reason why there is no plan.
    """

    name: str
    status: str
    moved_bytes: int | None
    moved_bytes_bound: int | None
    bound_by: str | None
    capacity: int | None
    tensors: tuple[MovedTensor, ...]
    saved_by_kib: float | None
    message: str | None = None

    def __str__(self) -> str:
        return str(method("MovesExplanation.__str__")(self))
