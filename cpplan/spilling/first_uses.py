"""Small searches that reach every compiled loop of the room with its real types."""

from __future__ import annotations

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import SpillProblem
from cpplan.program.anf import Program, to_anf
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.problem import spill_problem
from cpplan.spilling.search.addresses import AddressSearch
from cpplan.spilling.search.repacking import Repacking

_ENDLESS = Deadline(float("inf"))


def use_addresses() -> None:
    """Place three tensors where two fit."""
    _, problem = _overlapping()
    AddressSearch(problem, problem.capacity).place_best([problem.all_kept()], _ENDLESS)


def use_repacking() -> None:
    """Pack three tensors where two fit, and keep one more gap."""
    _, problem = _overlapping()
    search = Repacking(problem, problem.capacity, 0)
    search.run(problem.all_kept(), None, Deadline(0.1, deterministic=True), 0)


def _overlapping() -> tuple[Program, SpillProblem]:
    """Three tensors that are live together, where two fit."""
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
    program = to_anf(Graph("g", tensors, ops))
    return program, spill_problem(program, Residency(), (Pool("fast", 16), Pool("slow")))
