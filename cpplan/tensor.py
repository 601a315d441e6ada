"""A tensor: a block of bytes with a name, and what is known of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cpplan.dtypes import tensor_bytes
from cpplan.errors import InputError
from cpplan.names import check_name, tuple_of
from cpplan.printable import quote

# An address plus a size must fit into 64 bits.
LIMIT = 2**62
KINDS = ("input", "output", "constant", "intermediate", "workspace")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A block of bytes with a name.

    Attributes
    ----------
    name
        Unique within the graph.
    size
        Bytes it occupies; worked out from ``shape`` and ``dtype`` if left out, and at least that if
        given. Only a view may occupy fewer: one that repeats its base's elements (``expand``).
    shape, dtype
        Extents and element type (``"float32"``, ``"int4"``, …), if known.
    kind
        ``input``, ``output``, ``constant``, ``intermediate`` or ``workspace``. An ``output`` that
        no op produces is an input handed back as it came.
    alignment
        Its offset must be a multiple of this many bytes.
    view_of
        ``(base, byte offset)`` if these bytes are part of another tensor's.
    pools
        Names of the pools it may lie in, in order of preference; any if left out.

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
        check_name("a tensor's name", self.name)
        if self.shape is not None:
            shape = tuple_of(object, f"tensor {self.name!r}: shape", self.shape)
            object.__setattr__(self, "shape", shape)
            for extent in self.shape:
                check_count(f"tensor {self.name!r}: extent", extent)
            check_count(f"tensor {self.name!r}: the product of its shape", math.prod(self.shape))
        computed = None
        if self.shape is not None and self.dtype is not None:
            computed = tensor_bytes(self.shape, self.dtype)
            check_count(f"tensor {self.name!r}: bytes of its shape and dtype", computed)
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
            base, offset = self.view_of
            check_count(f"tensor {self.name!r}: offset within {base!r}", offset)

    @property
    def nbytes(self) -> int:
        """The size as an ``int``; it is always known once the tensor exists."""
        assert self.size is not None
        return self.size


def check_count(what: str, value: object, *, least: int = 0) -> None:
    """Refuse what is no integer of at least ``least``, or is too large to be bytes.

    Raises
    ------
    InputError
        Names ``what`` and the value.

    Examples
    --------
    >>> check_count("tensor 'x': size", 12)
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        wanted = "a non-negative integer" if least == 0 else f"an integer of at least {least}"
        raise InputError(f"{what} must be {wanted}, not {quote(value)}")
    if value >= LIMIT:
        raise InputError(f"{what} must be below 2**62, not {quote(value)}")
