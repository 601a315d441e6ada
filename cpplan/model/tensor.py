"""Tensors: blocks of bytes with a name, a size and other properties."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cpplan.model.dtypes import BITS, tensor_bytes
from cpplan.model.errors import InputError
from cpplan.model.names import check_name, tuple_of
from cpplan.model.printable import quote

if TYPE_CHECKING:
    from cpplan.model.shapes import Dim

# An address plus a size must fit into 64 bits.
LIMIT = 2**62
KINDS = ("input", "output", "constant", "intermediate", "workspace")


class Placement(NamedTuple):
    """A copy that an op makes of all bytes of ``part``, to or from byte ``offset`` of ``whole``.

    One is an input of the op, the other an output: an input of a concatenation within its output,
    or an output of a split within its input. If the part lies there in the arena, the op need not
    copy it.
    """

    part: str
    whole: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """A block of bytes with a name.

    Attributes
    ----------
    name
        Unique within the graph.
    size
        Bytes that the tensor occupies; computed from ``shape`` and ``dtype`` if left out, and not
        smaller than that if given, except for a view that repeats its base's elements (``expand``).
    shape, dtype
        Extents and element type (``"float32"``, ``"int4"``, …), if known. Extents may be
        expressions of named variables (``"2*n + 1"``): the graph then has the variables' bounds,
        and replaces the tensor by one with its bytes at the bounds (see
        :class:`~cpplan.model.symbols.Symbols`).
    kind
        ``input``, ``output``, ``constant``, ``intermediate`` or ``workspace``. An ``output`` that
        no op produces is an input that is returned unchanged.
    alignment
        Its offset must be a multiple of this many bytes.
    view_of
        ``(base, byte offset)`` if these bytes are part of another tensor's.
    pools
        Names of the pools that it may lie in, in order of preference; any pool if left out.

    Examples
    --------
    >>> Tensor("x", shape=(8, 4), dtype="float32").size
    128
    """

    name: str
    size: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    kind: str = "intermediate"
    alignment: int = 1
    view_of: tuple[str, int] | None = None
    pools: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self._is_plain():
            return
        check_name("a tensor's name", self.name)
        if self.shape is not None:
            extents = tuple_of(object, f"tensor {self.name!r}: shape", self.shape)
            shape = tuple(read_count(f"tensor {self.name!r}: extent", e) for e in extents)
            object.__setattr__(self, "shape", shape)
        computed = None
        if self.symbolic:
            if self.size is not None:
                raise InputError(f"tensor {self.name!r}: give no size to a symbolic shape")
        else:
            computed = self._computed_size()
            if self.size is None:
                if computed is None:
                    raise InputError(f"tensor {self.name!r}: give size, or shape and a known dtype")
                object.__setattr__(self, "size", computed)
            check_count(f"tensor {self.name!r}: size", self.size)
        if computed is not None and self.view_of is None and self.nbytes < computed:
            raise InputError(
                f"tensor {self.name!r}: size {self.size} is less than its shape and dtype need "
                f"({computed} B)"
            )
        if self.kind not in KINDS:
            raise InputError(
                f"tensor {self.name!r}: kind {self.kind!r} is not understood: "
                f"expected one of {', '.join(KINDS)}"
            )
        check_count(f"tensor {self.name!r}: alignment", self.alignment, least=1)
        if self.pools is not None:
            pools = tuple_of(str, f"tensor {self.name!r}: pools", self.pools)
            if not pools:
                raise InputError(f"tensor {self.name!r}: has no candidate pool")
            object.__setattr__(self, "pools", tuple(dict.fromkeys(pools)))
        if self.view_of is not None:
            if not (isinstance(self.view_of, tuple) and len(self.view_of) == 2):
                raise InputError(
                    f"tensor {self.name!r}: view_of must be (base, byte offset), "
                    f"not {self.view_of!r}"
                )
            base, given = self.view_of
            offset = read_count(f"tensor {self.name!r}: offset within {base!r}", given)
            object.__setattr__(self, "view_of", (base, offset))

    def _is_plain(self) -> bool:
        """True if a quick check finds all fields right, as for most tensors."""
        view_of = self.view_of
        return (
            (self.pools is None or _is_one_name(self.pools))
            and type(self.size) is type(self.alignment) is int
            and 0 <= self.size < LIMIT
            and self._has_plain_shape(self.size)
            and 1 <= self.alignment < LIMIT
            and self.kind in KINDS
            and type(self.name) is str
            and self.name != ""
            and self.name.isascii()
            and (
                view_of is None
                or (
                    type(view_of) is tuple
                    and len(view_of) == 2
                    and type(view_of[1]) is int
                    and 0 <= view_of[1] < LIMIT
                )
            )
        )

    def _has_plain_shape(self, size: int) -> bool:
        """True if there is no shape, or its elements have whole bytes and fit into the size."""
        shape, dtype = self.shape, self.dtype
        if shape is None or type(dtype) is not str:
            return shape is None and dtype is None
        bits = BITS.get(dtype, 0)
        return (
            type(shape) is tuple
            and bits >= 8
            and all(type(extent) is int and extent >= 0 for extent in shape)
            and math.prod(shape) * bits <= 8 * size
        )

    @property
    def symbolic(self) -> bool:
        """True if the tensor's shape depends on variables."""
        return any(not isinstance(extent, int) for extent in self.shape or ())

    @property
    def nbytes(self) -> int:
        """Size in bytes; raises ``InputError`` for a tensor whose shape has no bounds yet."""
        if self.size is None:
            shape = ", ".join(map(str, self.shape or ()))
            raise InputError(f"tensor {self.name!r}: the bounds of its shape [{shape}] are unknown")
        return self.size

    def _computed_size(self) -> int | None:
        """Bytes that shape and dtype give, or ``None`` unless both are known."""
        if self.shape is None:
            return None
        shape = tuple(extent for extent in self.shape if isinstance(extent, int))
        check_count(f"tensor {self.name!r}: the product of its shape", math.prod(shape))
        if self.dtype is None:
            return None
        computed = tensor_bytes(shape, self.dtype)
        check_count(f"tensor {self.name!r}: bytes of its shape and dtype", computed)
        return computed


def _is_one_name(pools: object) -> bool:
    """True for a tuple of one string."""
    return type(pools) is tuple and len(pools) == 1 and type(pools[0]) is str


def read_count(what: str, value: object) -> int | Dim:
    """Non-negative integer or expression of variables, given as such or as text."""
    if not isinstance(value, int):
        from cpplan.model.shapes import Dim, parse_dim

        if isinstance(value, Dim):
            return value
        if isinstance(value, str):
            try:
                value = parse_dim(value)
            except InputError as error:
                raise InputError(f"{what}: {error}") from error
            if isinstance(value, Dim):
                return value
    check_count(what, value)
    assert isinstance(value, int)
    return value


def check_count(what: str, value: object, *, least: int = 0) -> None:
    """Raise unless a value is an integer of at least ``least`` and small enough for bytes."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        wanted = "a non-negative integer" if least == 0 else f"an integer of at least {least}"
        raise InputError(f"{what} must be {wanted}, not {quote(value)}")
    if value >= LIMIT:
        raise InputError(f"{what} must be below 2**62, not {quote(value)}")


@dataclass(frozen=True, slots=True)
class Storage:
    """The tensors of one storage in the arena, and its writer.

    Attributes
    ----------
    tensor
        The tensor that has the whole storage.
    tensors
        All tensors in the storage.
    writer
        Name of the op that alone writes the whole storage, or ``None``.
    brought
        True if the caller writes the storage before the first op.
    kept
        True if the storage must lie in a pool to the end.
    movable
        True if one op, or the caller, writes all its bytes at once, so that its copies agree.
    shared
        True if an op may write another storage over it, or it over another: one op, or the caller,
        writes all its bytes, and it is no constant and no workspace.
    """

    tensor: Tensor
    tensors: tuple[Tensor, ...]
    writer: str | None
    brought: bool
    kept: bool
    movable: bool
    shared: bool
