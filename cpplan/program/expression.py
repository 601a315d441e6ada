"""Nested expressions, the form of a model in a frontend before its ops have an order.

Expressions are immutable and compared by identity: the same object used twice is one value,
computed once; two equal objects are two computations. Variables are known by name, a ``Let`` binds
its name within its body only, and an inner ``Let`` of the same name hides the outer one.

>>> from cpplan import to_anf
>>> x, y, z = (Var(name, shape=(), dtype="float32") for name in "xyz")
>>> product = Call("mul", [y, z], shape=(), dtype="float32")
>>> to_anf(Call("add", [x, product], shape=(), dtype="float32")).names
('mul_0', 'add_1')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from cpplan.model.errors import InputError
from cpplan.model.graph import Tensor

Shape: TypeAlias = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TensorType:
    """Bytes, extents and element type of a value; a missing size is computed from the others.

    Examples
    --------
    >>> TensorType((2, 3), "int8").tensor("x").size
    6
    """

    shape: Shape = None
    dtype: str | None = None
    size: int | None = None

    def tensor(self, name: str) -> Tensor:
        """A tensor of this type."""
        return Tensor(name, size=self.size, shape=self.shape, dtype=self.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var:
    """A variable, bound by the innermost ``Let`` of its name, or else an input of the graph.

    Only an input needs a type.

    Examples
    --------
    >>> Var("x", shape=(4,), dtype="float32").name
    'x'
    """

    name: str
    shape: Shape = None
    dtype: str | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"a variable's name must be a non-empty string, not {self.name!r}")
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(self.shape))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant:
    """A value known before the run; constants of one name are one value.

    Examples
    --------
    >>> Constant("weight", size=1024).size
    1024
    """

    name: str | None = None
    shape: Shape = None
    dtype: str | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise InputError(f"a constant's name must be a non-empty string, not {self.name!r}")
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(self.shape))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call:
    """One operator applied to arguments; a tuple among them stands for its items.

    Attributes
    ----------
    kind
        The operator's name.
    args
        Expressions, evaluated left to right.
    shape, dtype, size
        Type of the result.
    outputs
        Types of the results, if there is not exactly one result; the value is then a tuple.
    cost, recomputable
        As in :class:`~cpplan.model.graph.Op`.
    workspaces
        Bytes of every workspace.
    in_place
        ``(output, argument)`` positions; a tuple among the arguments counts as its items.
    placements
        ``(output, argument, byte offset)``: the op only copies the smaller of the two to or from
        that offset in the larger one; if both have the same size, the argument into the output.
    view_of_arg
        Position of the argument whose bytes the result is, or ``(position, byte offset)``.

    Examples
    --------
    >>> x = Var("x", size=8)
    >>> Call("split", [x], outputs=[TensorType(size=4), TensorType(size=4)]).kind
    'split'
    """

    kind: str
    args: tuple[Expression, ...] = ()
    shape: Shape = None
    dtype: str | None = None
    size: int | None = None
    outputs: tuple[TensorType, ...] | None = None
    cost: int | float = 1
    workspaces: tuple[int, ...] = ()
    recomputable: bool = True
    in_place: tuple[tuple[int, int], ...] = ()
    placements: tuple[tuple[int, int, int], ...] = ()
    view_of_arg: int | tuple[int, int] | None = None

    def __init__(
        self,
        kind: str,
        args: Iterable[Expression] = (),
        *,
        shape: Iterable[int] | None = None,
        dtype: str | None = None,
        size: int | None = None,
        outputs: Iterable[TensorType] | None = None,
        cost: int | float = 1,
        workspaces: Iterable[int] = (),
        recomputable: bool = True,
        in_place: Iterable[tuple[int, int]] = (),
        placements: Iterable[tuple[int, int, int]] = (),
        view_of_arg: int | tuple[int, int] | None = None,
    ):
        if not isinstance(kind, str) or not kind:
            raise InputError(f"a call's kind must be a non-empty string, not {kind!r}")
        place = f"call of {kind!r}"
        values = {
            "kind": kind,
            "args": _expressions(place, args),
            "shape": None if shape is None else tuple(shape),
            "dtype": dtype,
            "size": size,
            "outputs": None if outputs is None else tuple(outputs),
            "cost": cost,
            "workspaces": tuple(workspaces),
            "recomputable": recomputable,
            "in_place": tuple(in_place),
            "placements": tuple(placements),
            "view_of_arg": view_of_arg,
        }
        if outputs is not None and not (shape is None and dtype is None and size is None):
            raise InputError(f"{place}: give the type of the result or outputs, not both")
        if view_of_arg is not None and outputs is not None:
            raise InputError(f"{place}: only a call with one result can be a view of an argument")
        for field, value in values.items():
            object.__setattr__(self, field, value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuple:
    """A tuple of values; has no bytes of its own.

    Examples
    --------
    >>> len(Tuple([Var("x", size=4), Var("y", size=4)]).items)
    2
    """

    items: tuple[Expression, ...]

    def __init__(self, items: Iterable[Expression]):
        object.__setattr__(self, "items", _expressions("tuple", items))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGet:
    """One item of a tuple, of a call with several results, or of an ``If`` that returns a tuple.

    Examples
    --------
    >>> TupleGet(Tuple([Var("x", size=4)]), 0).index
    0
    """

    tuple: Expression
    index: int

    def __post_init__(self) -> None:
        _expressions("tuple access", (self.tuple,))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let:
    """A binding: computes ``value``, then ``body``, in which ``var`` is that value.

    Examples
    --------
    >>> x, t = Var("x", size=4), Var("t")
    >>> Let(t, Call("exp", [x], size=4), Call("mul", [t, t], size=4)).var.name
    't'
    """

    var: Var
    value: Expression
    body: Expression

    def __post_init__(self) -> None:
        if not isinstance(self.var, Var):
            raise InputError(f"let: expected a Var to bind, not {type(self.var).__name__}")
        _expressions(f"let of {self.var.name!r}", (self.value, self.body))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If:
    """One of two values of the same type; only its branch is computed.

    Examples
    --------
    >>> c, x, y = Var("c", size=1), Var("x", size=4), Var("y", size=4)
    >>> If(c, x, y).orelse is y
    True
    """

    condition: Expression
    then: Expression
    orelse: Expression

    def __post_init__(self) -> None:
        _expressions("if", (self.condition, self.then, self.orelse))


Expression: TypeAlias = Var | Constant | Call | Tuple | TupleGet | Let | If
_CLASSES = (Var, Constant, Call, Tuple, TupleGet, Let, If)


def is_expression(value: object) -> bool:
    """True if ``value`` is an expression.

    Examples
    --------
    >>> is_expression(Var("x")), is_expression("x")
    (True, False)
    """
    return isinstance(value, _CLASSES)


def _expressions(place: str, values: Iterable[Expression]) -> tuple[Expression, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{place}: expected a list of expressions, not {type(values).__name__}")
    items = tuple(values)
    for k, item in enumerate(items):
        if not isinstance(item, _CLASSES):
            raise InputError(f"{place}: item {k} must be an expression, not {type(item).__name__}")
    return items
