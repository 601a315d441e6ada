"""cpplan: memory plans for neural networks, with proof.

The names below are loaded on first use, so that ``import cpplan`` costs next to nothing and an easy
plan never loads a solver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpplan import errors as errors
    from cpplan import expression as expression
    from cpplan import heuristics as heuristics
    from cpplan import report as report
    from cpplan import storages as storages
    from cpplan.anf import Program as Program
    from cpplan.anf import to_anf as to_anf
    from cpplan.answers import Answer as Answer
    from cpplan.arena import simulate as simulate
    from cpplan.baselines import compare as compare
    from cpplan.batches.running import batch as batch
    from cpplan.compiled import warm_up as warm_up
    from cpplan.execution import execute as execute
    from cpplan.graph import Graph as Graph
    from cpplan.graph import Op as Op
    from cpplan.graph import Placement as Placement
    from cpplan.io import load as load
    from cpplan.pipeline import solve as solve
    from cpplan.plan import Plan as Plan
    from cpplan.pool import Pool as Pool
    from cpplan.problem import Gap as Gap
    from cpplan.problem import Problem as Problem
    from cpplan.residency import Residency as Residency
    from cpplan.sizes.for_graph import plan_sizes as plan_sizes
    from cpplan.sizes.sizes_plan import SizesPlan as SizesPlan
    from cpplan.storages import StorageAssignment as StorageAssignment
    from cpplan.storages import share_storages as share_storages
    from cpplan.tensor import Tensor as Tensor
    from cpplan.tradeoff import pareto as pareto
    from cpplan.verifier import verify as verify

__version__ = "0.1.0"

_HOME = {
    "Answer": "answers",
    "Gap": "problem",
    "Graph": "graph",
    "Op": "graph",
    "Placement": "graph",
    "Plan": "plan",
    "Pool": "pool",
    "Problem": "problem",
    "Program": "anf",
    "Residency": "residency",
    "SizesPlan": "sizes.sizes_plan",
    "StorageAssignment": "storages",
    "Tensor": "tensor",
    "batch": "batches.running",
    "compare": "baselines",
    "execute": "execution",
    "load": "io",
    "pareto": "tradeoff",
    "plan_sizes": "sizes.for_graph",
    "share_storages": "storages",
    "simulate": "arena",
    "solve": "pipeline",
    "to_anf": "anf",
    "verify": "verifier",
    "warm_up": "compiled",
}
_SUBMODULES = ("errors", "expression", "heuristics", "report", "storages")
__all__ = [*_HOME, *_SUBMODULES]


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return import_module(f"cpplan.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'cpplan' has no attribute {name!r}")
    value = getattr(import_module(f"cpplan.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
