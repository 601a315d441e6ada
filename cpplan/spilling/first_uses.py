"""Small searches that reach every compiled loop of the room with its real types."""

from __future__ import annotations

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.problem import spill_problem
from cpplan.spilling.search.addresses import AddressSearch
from cpplan.spilling.search.orders import climb_orders, flatten
from cpplan.spilling.search.repacking import Repacking


def use_orders() -> None:
    """Climb from the order of two ops that read the same input."""
    tensors = Tensor("x", 8, kind="input"), Tensor("a", 8), Tensor("b", 8, kind="output")
    ops = Op("f", inputs=("x",), outputs=("a",)), Op("g", inputs=("x",), outputs=("b",))
    program = to_anf(Graph("g", tensors, ops))
    problem = spill_problem(program, Residency(), (Pool("fast", 16), Pool("slow")))
    flat = flatten(program.graph, problem, program.order, share=False)
    climb_orders(flat, [program.order], Deadline(float("inf")), 0)


def use_addresses() -> None:
    """Place the operands of two ops that read the same input, and change the gap between."""
    tensors = Tensor("x", 8, kind="input"), Tensor("a", 8), Tensor("b", 8, kind="output")
    ops = Op("f", inputs=("x",), outputs=("a",)), Op("g", inputs=("x", "a"), outputs=("b",))
    program = to_anf(Graph("g", tensors, ops))
    problem = spill_problem(program, Residency(), (Pool("fast", 24), Pool("slow")))
    search = AddressSearch(problem, 24, 0)
    search.run([(problem.all_kept(), None)], Deadline(0.1, deterministic=True), 0)


def use_repacking() -> None:
    """Pack three tensors where two fit, and keep one more gap."""
    spans = (0, 4), (1, 5), (2, 6)
    tensors = tuple(Tensor(f"t{k}", 8) for k in range(len(spans)))
    ops = tuple(
        Op(
            f"op{step}",
            inputs=tuple(f"t{k}" for k, (_, last) in enumerate(spans) if last == step),
            outputs=tuple(f"t{k}" for k, (first, _) in enumerate(spans) if first == step),
        )
        for step in range(7)
    )
    problem = spill_problem(
        to_anf(Graph("g", tensors, ops)), Residency(), (Pool("fast", 16), Pool("slow"))
    )
    search = Repacking(problem, 16, 0)
    search.run(problem.all_kept(), None, Deadline(0.1, deterministic=True), 0)
