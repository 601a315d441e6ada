"""Writes plans into a TVM module: one storage a memory, tensors at offsets, kernels that take them.

Bindings follow the plan's order. An allocation or a view is bound right before its first use. An op
that runs again is called again with tensors of its own, and a result over an operand is written by
a variant of the kernel with one parameter for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import tvm
from tvm import relax, tirx

from cpplan.io.tvm.kernels import joined, with_offsets
from cpplan.io.tvm.regions import ALIGNMENT, Allocation, Region
from cpplan.io.tvm.steps import Step
from cpplan.model.graph import Op
from cpplan.model.plan import Plan
from cpplan.program.runs_graph import graph_of_runs

# Objects of TVM's IR; TVM has no type hints.
Expr: TypeAlias = Any
Function: TypeAlias = Any
Module: TypeAlias = Any
Var: TypeAlias = Any

_NOWHERE: Mapping[str, tuple[Var, Expr]] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class PlannedRegion:
    """A region with its plan, and the steps of its storages.

    Without planned tensors, ``plan`` is ``None`` and there are no steps.
    """

    region: Region
    plan: Plan | None
    steps: tuple[Step, ...] = ()

    def storages(self) -> Iterator[tuple[Allocation, list[int]]]:
        """Yield a tensor for each memory, with the bytes of its storage in each step."""
        if self.plan is None:
            return
        left, allocations = self.region.left, self.region.allocations
        memories = {each.pool: each for name, each in allocations.items() if name not in left}
        for pool, allocation in memories.items():
            name = pool if pool in self.steps[-1].bytes else self.plan.pools[0].name
            yield allocation, [step.bytes[name] for step in self.steps]


def write_module(
    module: Module, functions: Mapping[str, Function], planned: Sequence[PlannedRegion]
) -> Module:
    """The module with planned storages; its kernels accept tensors at multiples of 64 bytes."""
    writer = _Writer(module, planned)
    for name, function in functions.items():
        body = writer.sequence(function.body)
        writer.builder.update_func(
            module.get_global_var(name),
            relax.Function(
                function.params, body, function.ret_ty, function.is_pure, function.attrs
            ),
        )
    written = writer.builder.get()
    for variable, function in list(written.functions_items()):
        if isinstance(function, tirx.PrimFunc):
            written.update_func(variable, with_offsets(function, ALIGNMENT))
    return written


class _Writer:
    """Writes the regions of a module."""

    def __init__(self, module: Module, planned: Sequence[PlannedRegion]):
        self.module = module
        self.builder = relax.BlockBuilder(module)
        self.planned = [(each.region.sequence, each) for each in planned]
        self._variants: dict[tuple[str, tuple[tuple[int, tuple[int, ...]], ...]], Expr] = {}

    def sequence(self, sequence: Expr, within: Mapping[str, tuple[Var, Expr]] = _NOWHERE) -> Expr:
        """A sequence with its plan, and with those of the branches in it.

        ``within`` has memory -> storage of the function, and the offset in it where a branch's own
        begins.
        """
        found = next(each for original, each in self.planned if original.same_as(sequence))
        return _RegionWriter(self, found, within).write()

    def variant(self, kernel: Expr, pairs: Sequence[tuple[int, Sequence[int]]]) -> Expr:
        """The kernel that stores some results over operands."""
        key = kernel.name_hint, tuple((result, tuple(operands)) for result, operands in pairs)
        if key not in self._variants:
            function = joined(self.module[kernel], pairs).without_attr("global_symbol")
            self._variants[key] = self.builder.add_func(function, f"{kernel.name_hint}_in_place")
        return self._variants[key]


class _RegionWriter:
    """Writes the bindings of one region."""

    def __init__(
        self, writer: _Writer, planned: PlannedRegion, within: Mapping[str, tuple[Var, Expr]]
    ):
        self.writer, self.region, self.plan = writer, planned.region, planned.plan
        self.planned, self.steps = planned, planned.steps
        self.bindings: list[Expr] = []
        # Variable, and the copies that it lies in -> the variable that has them.
        self.bound: dict[tuple[Var, tuple[str, ...]], Var] = {}
        # Memory -> its storage, and the offset of the first byte. Storages that grow are its own.
        self.storages = dict(within) if len(planned.steps) == 1 else {}
        self.over: dict[str, str] = {}
        if self.plan is not None:
            relations = self.plan.relations
            self.over = {each.tensor: each.other for each in relations if each.kind == "in place"}

    def write(self) -> Expr:
        graph, plan = self.region.graph, self.plan
        self._bind_storages()
        order = [op.name for op in graph.ops] if plan is None else plan.order
        assert order is not None
        # A plan's first copy has the tensor's own name, also that of an output.
        tensors = tuple(
            replace(each, kind="intermediate") if each.kind == "output" else each
            for each in graph.tensors
        )
        runs = graph_of_runs(replace(graph, tensors=tensors), order)
        latest: dict[str, str] = {}
        for run in runs.graph.ops:
            copies = {runs.origin[each]: each for each in (*run.inputs, *run.outputs)}
            self._write_run(self.region.bindings[runs.origin[run.name]], run, copies)
            latest |= {runs.origin[each]: each for each in run.outputs}
        body = self._value(self.region.sequence.body, latest)
        return relax.SeqExpr([relax.BindingBlock(self.bindings)], body)

    def _bind_storages(self) -> None:
        """One storage for each memory that the region does not share with its function."""
        for allocation, sizes in self.planned.storages():
            if allocation.pool in self.storages:
                continue
            value = self.writer.builder.normalize(
                relax.op.memory.alloc_storage(
                    relax.ShapeExpr([self._number(sizes)]),
                    allocation.device,
                    allocation.scope,
                    "uint8",
                )
            )
            storage = relax.Var("storage", value.ty)
            self.storages[allocation.pool] = storage, tirx.IntImm("int64", 0)
            self.bindings.append(relax.VarBinding(storage, value))

    def _number(self, numbers: Sequence[int]) -> Expr:
        """A number of each step as an expression: that of the first step whose limits hold."""
        found = tirx.IntImm("int64", numbers[-1])
        for step, one in zip(self.steps[-2::-1], numbers[-2::-1], strict=True):
            holds = [var <= step.limits[name] for name, var in self.region.variables.items()]
            number = tirx.IntImm("int64", one)
            if holds and number.value != getattr(found, "value", None):
                found = tirx.Select(tirx.all(*holds), number, found)
        return found

    def _write_run(self, binding: Expr, run: Op, copies: Mapping[str, str]) -> None:
        var, value = binding.var, binding.value
        if isinstance(value, relax.If):
            for used in relax.analysis.free_vars(value):
                self._value(used, {})
            within = {}
            for name in run.workspaces:
                pool = self.region.allocations[name].pool
                within[pool] = self.storages[pool][0], self._offset(name, pool)
            branches = value.true_branch, value.false_branch
            value = relax.If(value.cond, *(self.writer.sequence(one, within) for one in branches))
        elif isinstance(value, relax.Call):
            value = self._call(value, run, copies)
        else:
            value = self._value(value, copies)
        if isinstance(binding, relax.MatchCast):
            self.bindings.append(relax.MatchCast(var, value, binding.ty))
            return
        if run.name not in self.region.bindings:  # it runs again
            var = relax.Var(var.name, var.ty)
        self.bindings.append(relax.VarBinding(var, value))

    def _call(self, call: Expr, run: Op, copies: Mapping[str, str]) -> Expr:
        names = [self.region.names.get(each, ()) for each in call.args]
        pairs: list[tuple[int, list[int]]] = []
        for original, copy in copies.items():
            if copy in run.outputs and (operand := self.over.get(copy)) is not None:
                read = next(name for name, each in copies.items() if each == operand)
                pairs.append(
                    (
                        next(k for k, each in enumerate(names) if original in each),
                        [k for k, each in enumerate(names) if read in each],
                    )
                )
        gone = {k for result, operands in pairs for k in (result, *operands[1:])}
        arguments = [self._value(each, copies) for k, each in enumerate(call.args) if k not in gone]
        called = self.writer.variant(call.op, pairs) if pairs else call.op
        return relax.Call(called, arguments, call.attrs, call.ty_args)

    def _value(self, value: Expr, copies: Mapping[str, str]) -> Expr:
        """A value that lies in these copies of tensors; what it needs is bound before."""
        if isinstance(value, tvm.ir.Var):
            return self._variable(value, copies) if value in self.region.definitions else value
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._value(each, copies) for each in value.fields])
        if isinstance(value, relax.TupleGetItem):
            return relax.TupleGetItem(self._value(value.tuple_value, copies), value.index)
        return value

    def _variable(self, var: Var, copies: Mapping[str, str]) -> Var:
        names = self.region.names[var]
        key = var, tuple(copies.get(each, each) for each in names)
        if key not in self.bound:
            definition = self.region.definitions[var].value
            if names and var.same_as(self.region.allocations[names[0]].var):
                value = self._allocation(names[0], key[1][0])
            elif isinstance(definition, relax.Call):  # a view
                arguments = [self._value(each, copies) for each in definition.args]
                value = relax.Call(definition.op, arguments, definition.attrs, definition.ty_args)
            else:
                value = self._value(definition, copies)
            new = var if key[1] == names else relax.Var(var.name, var.ty)
            self.bound[key] = new
            self.bindings.append(relax.VarBinding(new, value))
        return self.bound[key]

    def _allocation(self, name: str, copy: str) -> Expr:
        """The call that allocates a copy of a tensor: within a storage, if it is planned."""
        allocation = self.region.allocations[name]
        if name in self.region.left:
            return self.region.definitions[allocation.var].value
        return relax.op.memory.alloc_tensor(
            self.storages[allocation.pool][0],
            self._offset(copy, allocation.pool),
            allocation.shape,
            allocation.dtype,
            allocation.device,
        )

    def _offset(self, copy: str, pool: str) -> Expr:
        """Offset of a copy in its storage, an expression of the variables of shapes."""
        return self.storages[pool][1] + self._number([step.offset[copy] for step in self.steps])
