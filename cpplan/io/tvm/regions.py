"""Regions of a Relax function as graphs: a body, or the branch of an ``if``.

A region is read after TVM's ``CallTIRRewrite``: every intermediate tensor is a call of
``R.builtin.alloc_tensor``, and kernels write it. A kernel that only loads and stores, and writes
tensors that nothing wrote before, may run anywhere between what it needs and what needs it. All
other calls are *barriers*: packed functions, functions of libraries, other Relax functions, ``if``,
casts that bind variables of shapes, and kernels that write a tensor again. They keep their place,
and nothing passes them.

A tensor is planned if nothing but kernels accesses its elements, and its bytes have bounds.
Others are left to TVM: tensors that a barrier gets, whose kernel needs their address, or that leave
the region, unless these are to lie in the storage too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import tvm
from tvm import relax, tirx

from cpplan.io.tvm.kernels import Kernel, read_kernel
from cpplan.model.dtypes import BITS, tensor_bytes
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op
from cpplan.model.shapes import Range
from cpplan.model.symbols import Symbols
from cpplan.model.tensor import Tensor

# Objects of TVM's IR; TVM has no type hints.
Expr: TypeAlias = Any
Module: TypeAlias = Any
Var: TypeAlias = Any

# Allocations that a value may lie in; those of a tuple's elements one by one.
Reach: TypeAlias = "frozenset[str] | tuple[Reach, ...]"

# Bytes: storages of TVM's virtual machine begin at multiples of it, and so do tensors within one.
ALIGNMENT = 64
# Calls whose result lies in the storage of their first argument, and that compute nothing.
_VIEWS = ("relax.reshape", "relax.memory.view")
_ALLOCATE = "relax.builtin.alloc_tensor"


@dataclass(frozen=True)
class Allocation:
    """A tensor that a region allocates, or a storage of branches.

    Attributes
    ----------
    var
        Its Relax variable, ``None`` for a storage.
    shape, dtype
        Extents as a Relax expression, and the element type.
    device, scope
        Index of the device, and the scope of its memory.
    """

    var: Var
    shape: Expr
    dtype: str
    device: int
    scope: str

    @property
    def pool(self) -> str:
        """Name of the memory that it lies in."""
        return f"device {self.device}, {self.scope}"

    @property
    def nbytes(self) -> int | None:
        """Bytes of the tensor, ``None`` unless its shape is fixed."""
        if not isinstance(self.shape, relax.ShapeExpr):
            return None
        extents = list(self.shape.values)
        if not all(isinstance(extent, tirx.IntImm) for extent in extents):
            return None
        return tensor_bytes([int(extent.value) for extent in extents], self.dtype)


@dataclass(frozen=True, eq=False)
class Region:
    """A sequence of bindings, what is known of each, and the graph of what is planned.

    Attributes
    ----------
    sequence
        The Relax expression.
    graph
        An op for each call, and a tensor for each planned allocation.
    bindings
        Op -> its binding.
    kernels
        Op -> the kernel that it calls, if it calls one.
    definitions
        Variable -> its binding, for allocations and for values that no call computes.
    allocations
        All tensors that the region allocates, and workspaces, by name.
    names
        Variable -> the allocations that it may lie in.
    left
        Allocations that are not planned -> the reason.
    variables
        Variables of the shapes of what is planned, by name.
    """

    sequence: Expr
    graph: Graph
    bindings: Mapping[str, Expr]
    kernels: Mapping[str, Kernel]
    definitions: Mapping[Var, Expr]
    allocations: Mapping[str, Allocation]
    names: Mapping[Var, tuple[str, ...]]
    left: Mapping[str, str]
    variables: Mapping[str, Var]


class RegionReader:
    """Reads the regions of one module; the facts of a kernel are read once."""

    def __init__(self, module: Module):
        self.module = module
        self._kernels: dict[Expr, Kernel] = {}

    def read(
        self,
        name: str,
        sequence: Expr,
        bounds: Mapping[str, Range],
        *,
        outputs: bool = False,
        storages: Callable[[Expr], Iterable[Allocation]] = lambda branches: (),
    ) -> Region:
        """A region as a graph.

        Parameters
        ----------
        name
            Name of the graph.
        sequence
            The Relax expression.
        bounds
            Variables of shapes that have bounds. Tensors that depend on others are left to TVM.
        outputs
            True if tensors that leave the region are planned, as the graph's outputs.
        storages
            ``if`` -> storages that its branches need, which are planned as its workspaces.
        """
        found = _Bindings(self, storages)
        for block in sequence.blocks:
            for binding in block.bindings:
                found.read(binding)
        for each in found.names_of(sequence.body):
            if outputs:
                found.results.add(each)
            else:
                found.leave(each, "it leaves the region")
        tensors = found.tensors(bounds)
        symbolic = any(tensor.symbolic for tensor in tensors.values())
        graph = Graph(
            name,
            tuple(tensors.values()),
            tuple(found.ops(tensors)),
            Symbols(bounds) if symbolic else None,
        )
        return Region(
            sequence,
            graph,
            {op: step.binding for op, step in found.steps.items()},
            {op: step.kernel for op, step in found.steps.items() if step.kernel is not None},
            found.definitions,
            found.allocations,
            {var: tuple(_flat(reach)) for var, reach in found.reaches.items()},
            found.left,
            {
                var.name: var
                for name in tensors
                for extent in found.allocations[name].shape.values
                for var in tirx.analysis.undefined_vars(extent)
            },
        )

    def kernel(self, call: Expr) -> Kernel | None:
        """The kernel that is called, ``None`` if something else is."""
        if not isinstance(call.op, tvm.ir.GlobalVar):
            return None
        function = self.module[call.op]
        if not isinstance(function, tirx.PrimFunc):
            return None
        if call.op not in self._kernels:
            self._kernels[call.op] = read_kernel(function)
        return self._kernels[call.op]


@dataclass(frozen=True)
class _Step:
    """A call.

    Attributes
    ----------
    read
        Allocations whose elements it may read.
    first, again
        Allocations that it is the first to write, and others that it writes.
    workspaces
        Storages of its branches.
    """

    binding: Expr
    kernel: Kernel | None
    read: tuple[str, ...]
    first: tuple[str, ...]
    again: tuple[str, ...]
    barrier: bool
    workspaces: tuple[str, ...] = ()


class _Bindings:
    """The bindings of a region, read one after another."""

    def __init__(self, reader: RegionReader, storages: Callable[[Expr], Iterable[Allocation]]):
        self.reader, self._storages = reader, storages
        self.reaches: dict[Var, Reach] = {}
        self.definitions: dict[Var, Expr] = {}
        self.allocations: dict[str, Allocation] = {}
        self.left: dict[str, str] = {}
        self.steps: dict[str, _Step] = {}
        # Allocation -> the op that writes it first.
        self.writer: dict[str, str] = {}
        # Allocations whose elements change later, and those that leave the region.
        self.changing: set[str] = set()
        self.results: set[str] = set()

    def read(self, binding: Expr) -> None:
        value = binding.value
        called = value.op if isinstance(value, relax.Call) else None
        name = called.name if isinstance(called, tvm.ir.Op) else ""
        if isinstance(binding, relax.MatchCast):
            self._read_barrier(binding, "match_cast")
        elif name == _ALLOCATE:
            self._read_allocation(binding)
        elif name in _VIEWS or not isinstance(value, (relax.Call, relax.If, relax.SeqExpr)):
            self.definitions[binding.var] = binding
            self.reaches[binding.var] = self._reach(value.args[0] if name in _VIEWS else value)
        elif called is not None and (kernel := self.reader.kernel(value)) is not None:
            self._read_kernel(binding, kernel)
        else:
            self._read_barrier(binding, _callee(value))

    def names_of(self, value: Expr) -> list[str]:
        """Allocations that a value may lie in."""
        return _flat(self._reach(value))

    def leave(self, name: str, reason: str) -> None:
        self.left.setdefault(name, reason)

    def tensors(self, bounds: Mapping[str, Range]) -> dict[str, Tensor]:
        """The allocations that are planned; the others are left, each for a reason."""
        found: dict[str, Tensor] = {}
        for name, allocation in self.allocations.items():
            if name not in self.writer:
                self.leave(name, "nothing writes it")
            if name in self.left:
                continue
            try:
                found[name] = _tensor(name, allocation, bounds, self._kind(name))
            except InputError as error:
                self.leave(name, str(error))
        pools = {name: self.allocations[name].pool for name in found}
        if len(set(pools.values())) > 1:
            found = {name: replace(each, pools=(pools[name],)) for name, each in found.items()}
        return found

    def ops(self, tensors: Container[str]) -> Iterator[Op]:
        """An op for each step."""
        barrier: tuple[str, ...] = ()
        since: list[str] = []
        alone = not any(step.barrier for step in self.steps.values())
        for name, step in self.steps.items():
            accessed = dict.fromkeys((*step.read, *step.again))
            written_outside = [self.writer[each] for each in accessed if each not in tensors]
            after = (*barrier, *since) if step.barrier else (*barrier, *written_outside)
            yield Op(
                name,
                _callee(step.binding.value),
                inputs=tuple(each for each in accessed if each in tensors),
                outputs=tuple(each for each in step.first if each in tensors),
                workspaces=step.workspaces,
                cost=1 if step.kernel is None else step.kernel.cost,
                recomputable=self._runs_again(step, tensors, alone),
                in_place=tuple(self._in_place(step, tensors)),
                after=tuple(each for each in after if each != name),
            )
            if step.barrier:
                barrier, since = (name,), []
            else:
                since.append(name)

    def _read_allocation(self, binding: Expr) -> None:
        shape, dtype, device, scope = binding.value.args
        name = _unused(binding.var.name, self.allocations)
        self.definitions[binding.var] = binding
        self.reaches[binding.var] = frozenset([name])
        self.allocations[name] = Allocation(
            binding.var, shape, str(dtype.value), int(device.value), str(scope.value)
        )

    def _read_kernel(self, binding: Expr, kernel: Kernel) -> None:
        read, written, barrier = list[str](), list[str](), not kernel.pure
        for position, argument in enumerate(binding.value.args):
            names = self.names_of(argument)
            if position in kernel.opaque:
                for name in names:
                    self.leave(name, "its kernel needs its address")
            if position in kernel.written:
                # Memory of the caller, or one of several tensors.
                barrier |= len(names) != 1
                written += names
            if position in kernel.read:
                read += names
        self._add(binding, kernel, read, written, barrier)

    def _read_barrier(self, binding: Expr, name: str) -> None:
        names = [
            each
            for var in _variables(binding.value)
            for each in _flat(self.reaches.get(var, frozenset()))
        ]
        for each in names:
            self.leave(each, f"{name} gets it")
        # Its result may be one of its arguments.
        self.reaches[binding.var] = frozenset(names)
        own: list[str] = []
        if isinstance(binding.value, relax.If):
            for storage in self._storages(binding.value):
                own.append(_unused("branches", self.allocations))
                self.allocations[own[-1]] = storage
        self._add(binding, None, names, names, barrier=True, workspaces=own)

    def _add(
        self, binding: Expr, kernel: Kernel | None, read: list[str], written: list[str],
        barrier: bool, workspaces: Iterable[str] = (),
    ) -> None:  # fmt: skip
        name = _unused(_callee(binding.value), self.steps)
        self.writer.update(dict.fromkeys(workspaces, name))
        first = tuple(dict.fromkeys(each for each in written if each not in self.writer))
        again = tuple(dict.fromkeys(each for each in written if each in self.writer))
        self.writer.update(dict.fromkeys(first, name))
        for each in read:
            if each not in self.writer:
                self.leave(each, "it is read before it is written")
                self.writer[each] = name
        self.changing.update(again)
        barrier |= bool(again)
        read = [each for each in dict.fromkeys(read) if each not in first]
        self.steps[name] = _Step(
            binding, kernel, tuple(read), first, again, barrier, tuple(workspaces)
        )

    def _kind(self, name: str) -> str:
        """The kind of a planned tensor."""
        if name in self.results:
            return "output"
        return "workspace" if self.allocations[name].var is None else "intermediate"

    def _runs_again(self, step: _Step, tensors: Container[str], alone: bool) -> bool:
        """True if a second run writes the same values, and nothing notices that it ran."""
        if step.kernel is None or step.barrier:
            return False
        if any(each in self.changing or each not in tensors for each in step.first):
            return False
        if any(each in self.changing for each in step.read):
            return False
        # What is not of this region may be changed by a barrier.
        return alone or all(
            self.names_of(argument) or isinstance(argument, tvm.ir.GenericConst)
            for position, argument in enumerate(step.binding.value.args)
            if position in step.kernel.read
        )

    def _in_place(self, step: _Step, tensors: Container[str]) -> Iterator[tuple[str, str]]:
        """Results that the kernel may store over an operand, with the operand."""
        if step.kernel is None or step.barrier:
            return
        places: dict[str, list[int]] = {}
        for position, argument in enumerate(step.binding.value.args):
            for name in self.names_of(argument):
                places.setdefault(name, []).append(position)
        for result in step.first:
            for operand in step.read:
                if (
                    result in tensors
                    and operand in tensors
                    and not self.changing.intersection((result, operand))
                    and step.kernel.may_join(places[result], places[operand])
                ):
                    yield result, operand

    def _reach(self, value: Expr) -> Reach:
        if isinstance(value, relax.Tuple):
            return tuple(self._reach(each) for each in value.fields)
        if isinstance(value, relax.TupleGetItem):
            whole = self._reach(value.tuple_value)
            return whole[value.index] if isinstance(whole, tuple) else whole
        if isinstance(value, tvm.ir.Var):
            return self.reaches.get(value, frozenset())
        return frozenset()


def _tensor(name: str, allocation: Allocation, bounds: Mapping[str, Range], kind: str) -> Tensor:
    """An allocation as a tensor."""
    if not isinstance(allocation.shape, relax.ShapeExpr):
        raise InputError("its shape is known at run time only")
    if BITS.get(allocation.dtype, 1) % 8:
        raise InputError(f"elements of type {allocation.dtype} are not whole bytes")
    extents: list[Any] = []
    for extent in allocation.shape.values:
        for var in tirx.analysis.undefined_vars(extent):
            if var.name not in bounds:
                raise InputError(f"its shape depends on {var.name}, which has no bounds")
        extents.append(_extent(extent))
    return Tensor(
        name, shape=tuple(extents), dtype=allocation.dtype, alignment=ALIGNMENT, kind=kind
    )


_OPERATORS = {tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*", tirx.FloorDiv: "//", tirx.FloorMod: "%"}
_FUNCTIONS = {tirx.Min: "min", tirx.Max: "max"}


def _extent(extent: Expr) -> int | str:
    """An extent as a number, or as the text of an expression."""
    if isinstance(extent, tirx.IntImm):
        return int(extent.value)
    if isinstance(extent, tirx.Var):
        return f"`{extent.name}`"
    if isinstance(extent, tirx.Cast):
        return _extent(extent.value)
    operator, function = _OPERATORS.get(type(extent)), _FUNCTIONS.get(type(extent))
    if operator is None and function is None:
        raise InputError(f"its shape has {extent}, which is not understood")
    left, right = _extent(extent.a), _extent(extent.b)
    return f"({left} {operator} {right})" if operator else f"{function}({left}, {right})"


def _callee(value: Expr) -> str:
    """The name of what is called."""
    if isinstance(value, relax.If):
        return "if"
    called = getattr(value, "op", None)
    if isinstance(called, tvm.ir.GlobalVar):
        return str(called.name_hint)
    if isinstance(called, relax.ExternFunc):
        return str(called.global_symbol)
    return str(called.name) if isinstance(called, tvm.ir.Op) else "call"


def _variables(value: Expr) -> list[Var]:
    """The variables that an expression uses and does not bind."""
    return list(relax.analysis.free_vars(value))


def _flat(reach: Reach) -> list[str]:
    """Names in a reach, each once."""
    if isinstance(reach, frozenset):
        return sorted(reach)
    return list(dict.fromkeys(name for each in reach for name in _flat(each)))


def _unused(name: str, taken: Container[str]) -> str:
    """The name, with a number if it is taken."""
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found
