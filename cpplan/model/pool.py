"""Memory regions that buffers are placed in, and the cost of using them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError
from cpplan.model.names import check_name, tuple_of
from cpplan.model.printable import quote
from cpplan.model.tensor import LIMIT, check_count

PoolKind = Literal["workspace", "constant"]
# Name of a packing objective, in the tables of packing and of the checker.
Objective = str


@dataclass(frozen=True, slots=True)
class Pool:
    """A memory region (USMP's ``PoolInfo``).

    Attributes
    ----------
    name
        Name by which plans and candidates refer to it.
    capacity
        Bytes that the pool holds (``262144`` or ``"256 KiB"``), or ``None`` if it has no limit.
    alignment
        Alignment of every offset in the pool, bytes.
    base
        Address of its first byte; a multiple of the alignments of all buffers in the pool.
    kind
        ``workspace`` for tensors written while the model runs, ``constant`` for constants.
    cost_per_byte
        Cost of each byte of its peak, in any unit, the same for all pools.
    read_bandwidth, write_bandwidth
        Bytes a cycle; ``None`` if bandwidth is not limited.
    read_latency, write_latency
        Cycles before the first byte of each access.
    direct
        True if ops may access tensors in this pool directly when it is the slow pool of a plan in
        which tensors move; if false, tensors are copied to the fast pool first.
    engine
        True if copies from and to this pool, one after another, may run beside ops (by DMA, say).

    Examples
    --------
    >>> sram = Pool("sram", capacity=262144, read_bandwidth=4, read_latency=10)
    >>> sram.access_cycles(1024, reads=2, writes=1)
    532.0
    """

    name: str = "arena"
    capacity: int | None = None
    alignment: int = 1
    base: int = 0
    kind: PoolKind = "workspace"
    cost_per_byte: float = 1.0
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None
    read_latency: float = 0.0
    write_latency: float = 0.0
    direct: bool = False
    engine: bool = False

    def __post_init__(self) -> None:
        check_name("a pool's name", self.name)
        here = f"pool {self.name!r}"
        if isinstance(self.capacity, str):
            object.__setattr__(self, "capacity", parse_bytes(self.capacity))
        if self.capacity is not None:
            check_count(f"{here}: capacity", self.capacity)
        check_count(f"{here}: alignment", self.alignment, least=1)
        check_count(f"{here}: base", self.base)
        if self.base + (self.capacity or 0) >= LIMIT:
            raise InputError(f"{here}: base and capacity must end below 2**62")
        if self.base % self.alignment:
            raise InputError(
                f"{here}: base {self.base} is not a multiple of its alignment {self.alignment}"
            )
        if self.kind not in get_args(PoolKind):
            raise InputError(f"{here}: kind {quote(self.kind)}: expected workspace or constant")
        for switch in ("direct", "engine"):
            value = getattr(self, switch)
            if not isinstance(value, bool):
                raise InputError(f"{here}: {switch} must be true or false, not {quote(value)}")
        for field in ("cost_per_byte", "read_latency", "write_latency"):
            _check_number(f"{here}: {field}", getattr(self, field))
        for field in ("read_bandwidth", "write_bandwidth"):
            value = getattr(self, field)
            if value is not None:
                _check_number(f"{here}: {field}", value)
                if value == 0:
                    raise InputError(f"{here}: {field} must be positive, or None for no limit")

    def access_cycles(self, size: int, reads: int, writes: int) -> float:
        """Cycles that whole reads and writes of a buffer take.

        Parameters
        ----------
        size
            Bytes of the buffer.
        reads, writes
            Numbers of times that it is read and written as a whole.

        Examples
        --------
        >>> Pool("dram", read_latency=100, read_bandwidth=8).access_cycles(64, reads=2, writes=1)
        216.0
        """
        reading = self.read_latency + (size / self.read_bandwidth if self.read_bandwidth else 0.0)
        writing = self.write_latency + (
            size / self.write_bandwidth if self.write_bandwidth else 0.0
        )
        return reads * reading + writes * writing


def check_pools(pools: object) -> tuple[Pool, ...]:
    """Pools as a tuple; raises unless there is at least one and all names differ."""
    checked = tuple_of(Pool, "pools", pools)
    if not checked:
        raise InputError("pools must hold at least one pool")
    names = [pool.name for pool in checked]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two pools are named {twice!r}")
    return checked


def _check_number(what: str, value: object) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not (0 <= value < math.inf):  # type: ignore[operator]
        raise InputError(f"{what} must be a non-negative number, not {quote(value)}")
