"""Kernels of a TVM module: the parameters that they read and write, and variants for plans.

What a kernel does is read from its TIR, never from its name. A kernel accepts tensors that begin
within a storage if the buffers of its parameters have a variable offset (:func:`with_offsets`), and
writes a result over an operand if both are one parameter (:func:`joined`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import tirx

# Objects of TVM's IR; TVM has no type hints.
Expr: TypeAlias = Any
PrimFunc: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel, with what it does to the tensors that it is called with.

    Attributes
    ----------
    function
        The TIR function; its tensors are the parameters that are buffers.
    read, written
        Positions of parameters whose elements it loads and stores.
    opaque
        Positions of parameters that it uses in another way, for instance by their address. They are
        taken to be read and written, and their tensors must begin at the start of a storage.
    pure
        True if it does nothing else than load and store.
    """

    function: PrimFunc
    read: frozenset[int]
    written: frozenset[int]
    opaque: frozenset[int]
    pure: bool

    @cached_property
    def cost(self) -> int:
        """Arithmetic operations plus elements of the parameters; at least 1."""
        try:
            operations = tvm.s_tir.analysis.estimate_tir_flops(self.function.body)
        except tvm.error.TVMError:  # loops of unknown extent
            operations = 0.0
        elements = 0
        for parameter in self.function.params:
            extents = parameter.ty.shape if tirx.buffer.is_buffer_var(parameter) else [0]
            known = [int(extent) if isinstance(extent, tirx.IntImm) else 1 for extent in extents]
            count = 1
            for extent in known:
                count *= extent
            elements += count
        return max(1, int(operations) + elements)

    @cached_property
    def _stages(self) -> list[_Stage]:
        """The loop nests of the kernel, which run one after another."""
        return [_Stage(each) for each in _statements(self.function.body)]

    def may_join(self, results: Sequence[int], operands: Sequence[int]) -> bool:
        """True if a result may be stored over operands: no element is read after it is overwritten.

        All loads of the operands are in loop nests before the one that stores the result, or in
        that one, which then stores every element once, at the index at which it loads.

        Parameters
        ----------
        results
            Positions of all parameters that get the tensor that is written.
        operands
            Positions of all parameters that get the tensor that is read.
        """
        parameters = self.function.params
        if len(results) != 1 or any(k in self.opaque | self.written for k in operands):
            return False
        target, sources = parameters[results[0]], [parameters[k] for k in operands]
        if results[0] in self.opaque or not all(_alike(target, source) for source in sources):
            return False
        storing = [k for k, stage in enumerate(self._stages) if target in stage.stored]
        if len(storing) != 1:
            return False
        before, stage = self._stages[: storing[0]], self._stages[storing[0]]
        after = self._stages[storing[0] + 1 :]
        if any(target in each.loaded for each in before):
            return False
        if any(source in each.loaded for each in after for source in sources):
            return False
        read_here = [source for source in sources if source in stage.loaded]
        return not read_here or stage.copies_index(target, read_here)


def read_kernel(function: PrimFunc) -> Kernel:
    """The facts of a TIR function."""
    positions = {parameter: k for k, parameter in enumerate(function.params)}
    named, accessed = Counter[Expr](), Counter[Expr]()
    loaded, stored = set[int](), set[int]()
    effects: list[Expr] = []

    def count(variable: Expr) -> None:
        named[variable] += 1

    def load(access: Expr) -> None:
        accessed[access.source] += 1
        if access.source in positions:
            loaded.add(positions[access.source])

    def store(statement: Expr) -> None:
        accessed[statement.buffer] += 1
        if statement.buffer in positions:
            stored.add(positions[statement.buffer])

    def declare(region: Expr) -> None:
        accessed[region.source] += 1

    def match(block: Expr) -> None:  # other names of parts of a buffer
        for matched in block.match_buffers:
            named[matched.source.source] += 1

    def call(expression: Expr) -> None:
        kind = (
            expression.op.get_attr("TCallEffectKind")
            if isinstance(expression.op, tvm.ir.Op)
            else None
        )
        if kind is None or int(kind) > tirx.CallEffectKind.ReadState.value:
            effects.append(expression)

    callbacks = [
        (tvm.ir.TensorLoad, load),
        (tirx.BufferStore, store),
        (tvm.ir.TensorRegion, declare),
        (tvm.ir.Call, call),
        (tvm.s_tir.SBlock, match),
        (tirx.Var, count),
    ]
    tvm_ffi.structural_walk(function.body, callbacks)
    buffers = {p: k for p, k in positions.items() if tirx.buffer.is_buffer_var(p)}
    opaque = frozenset(k for p, k in buffers.items() if named[p] > accessed[p])
    return Kernel(function, frozenset(loaded) | opaque, frozenset(stored) | opaque, opaque,
                  not effects and not opaque)  # fmt: skip


def with_offsets(function: PrimFunc, alignment: int) -> PrimFunc:
    """The function, with tensors that may begin at any multiple of ``alignment`` bytes."""
    new: dict[Expr, Expr] = {}
    for parameter in function.params:
        if tirx.buffer.is_buffer_var(parameter) and _begins_at_zero(parameter):
            new[parameter] = _with_offset(parameter, alignment)
    return _substituted(function, new, [new.get(p, p) for p in function.params])


def joined(function: PrimFunc, pairs: Sequence[tuple[int, Sequence[int]]]) -> PrimFunc:
    """The function without some results: each is stored over the first of its operands instead."""
    new, gone = dict[Expr, Expr](), set[int]()
    for result, operands in pairs:
        first = function.params[operands[0]]
        for position in (result, *operands[1:]):
            new[function.params[position]] = first
            gone.add(position)
    kept = [p for k, p in enumerate(function.params) if k not in gone]
    return _substituted(function, new, kept)


class _Stage:
    """A loop nest with the buffers that it loads from and stores to."""

    def __init__(self, statement: Expr):
        self.statement = statement
        self.loads: list[Expr] = []
        self.stores: list[Expr] = []
        tvm_ffi.structural_walk(
            statement,
            [
                (tvm.ir.TensorLoad, lambda load: self.loads.append(load)),
                (tirx.BufferStore, lambda store: self.stores.append(store)),
            ],
        )
        self.loaded = {load.source for load in self.loads}
        self.stored = {store.buffer for store in self.stores}

    def copies_index(self, target: Expr, sources: Sequence[Expr]) -> bool:
        """True if each element of a target is stored once, and sources are loaded there only."""
        loops, block = [], self.statement
        while isinstance(block, tirx.For):
            loops.append(block.loop_var)
            block = block.body
        if not isinstance(block, tvm.s_tir.SBlockRealize) or len(self.stores) != 1:
            return False
        inner, values = block.block, list(block.iter_values)
        # Loop variables one to one to the block's: no instance runs twice.
        if len(values) != len(loops) or {*values} != {*loops} or inner.init is not None:
            return False
        if any(each.iter_type != tirx.IterVar.DataPar for each in inner.iter_vars):
            return False
        if not isinstance(inner.body, tirx.BufferStore):
            return False
        indices = list(inner.body.indices)
        variables = [each.var for each in inner.iter_vars if not _is_one(each.dom.extent)]
        if any(sum(index.same_as(variable) for index in indices) != 1 for variable in variables):
            return False
        # Loads anywhere in the nest, also in its bounds and predicates.
        return all(
            tvm_ffi.structural_equal(list(load.indices), indices)
            for load in self.loads
            if load.source in sources
        )


def _statements(body: Expr) -> list[Expr]:
    """Statements that run one after another."""
    if isinstance(body, tvm.s_tir.SBlockRealize):
        plain = not body.iter_values and body.block.init is None
        return _statements(body.block.body) if plain else [body]
    if isinstance(body, tirx.SeqStmt):
        return [each for part in body.seq for each in _statements(part)]
    return [body]


def _alike(buffer: Expr, other: Expr) -> bool:
    """True if elements at the same index lie at the same place."""
    mine, theirs = buffer.ty, other.ty
    return (
        mine.dtype == theirs.dtype
        and mine.storage_scope == theirs.storage_scope
        and tvm_ffi.structural_equal(list(mine.shape), list(theirs.shape))
        and not (mine.strides or theirs.strides)
    )


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, tirx.IntImm) and extent.value == 1


def _begins_at_zero(buffer: Expr) -> bool:
    offset = buffer.ty.elem_offset
    return offset is None or (isinstance(offset, tirx.IntImm) and offset.value == 0)


def _with_offset(buffer: Expr, alignment: int) -> Expr:
    """The buffer, declared to begin at a multiple of ``alignment`` bytes."""
    old, bits = buffer.ty, tvm.DataType(str(buffer.dtype)).bits
    return tirx.decl_buffer(
        old.shape,
        old.dtype,
        buffer.name,
        strides=old.strides,
        elem_offset=tirx.Var(f"{buffer.name}_offset", "int64"),
        scope=old.storage_scope,
        data_alignment=old.data_alignment,
        offset_factor=max(1, alignment * 8 // bits),
        layout=old.layout,
    )


def _substituted(function: PrimFunc, new: dict[Expr, Expr], params: list[Expr]) -> PrimFunc:
    body = tvm_ffi.structural_map(function.body, (tirx.Var, lambda var: new.get(var, var)))
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs)
