"""cpplan: memory plans for neural networks, with proof.

The names below are loaded on first use, so that ``import cpplan`` costs next to nothing and an easy
plan never loads a solver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cpplan.model.methods import offer
from cpplan.model.version import __version__ as __version__

if TYPE_CHECKING:
    from cpplan import report as report
    from cpplan.batches.running import batch as batch
    from cpplan.comparison.baselines import compare as compare
    from cpplan.comparison.pareto_curve import pareto as pareto
    from cpplan.io import load as load
    from cpplan.io.execution import execute as execute
    from cpplan.model import errors as errors
    from cpplan.model.answers import Answer as Answer
    from cpplan.model.graph import Graph as Graph
    from cpplan.model.graph import Op as Op
    from cpplan.model.graph import Placement as Placement
    from cpplan.model.plan import Plan as Plan
    from cpplan.model.pool import Pool as Pool
    from cpplan.model.problem import Gap as Gap
    from cpplan.model.problem import Problem as Problem
    from cpplan.model.residency import Residency as Residency
    from cpplan.model.tensor import Tensor as Tensor
    from cpplan.packing import heuristics as heuristics
    from cpplan.packing import storage_ids as storages  # noqa: F401
    from cpplan.packing.storage_ids import StorageAssignment as StorageAssignment
    from cpplan.packing.storage_ids import share_storages as share_storages
    from cpplan.program import expression as expression
    from cpplan.program.anf import Program as Program
    from cpplan.program.anf import to_anf as to_anf
    from cpplan.solving.all_loops import warm_up as warm_up
    from cpplan.solving.arrays import Packing as Packing
    from cpplan.solving.arrays import pack as pack
    from cpplan.solving.pipeline import solve as solve
    from cpplan.solving.sizes.for_graph import plan_sizes as plan_sizes
    from cpplan.solving.sizes.sizes_plan import SizesPlan as SizesPlan
    from cpplan.verification.arena import simulate as simulate
    from cpplan.verification.verifier import verify as verify

_HOME = {
    "Answer": "model.answers",
    "Gap": "model.problem",
    "Graph": "model.graph",
    "Op": "model.graph",
    "Packing": "solving.arrays",
    "Placement": "model.graph",
    "Plan": "model.plan",
    "Pool": "model.pool",
    "Problem": "model.problem",
    "Program": "program.anf",
    "Residency": "model.residency",
    "SizesPlan": "solving.sizes.sizes_plan",
    "StorageAssignment": "packing.storage_ids",
    "Tensor": "model.tensor",
    "batch": "batches.running",
    "compare": "comparison.baselines",
    "execute": "io.execution",
    "load": "io",
    "pack": "solving.arrays",
    "pareto": "comparison.pareto_curve",
    "plan_sizes": "solving.sizes.for_graph",
    "share_storages": "packing.storage_ids",
    "simulate": "verification.arena",
    "solve": "solving.pipeline",
    "to_anf": "program.anf",
    "verify": "verification.verifier",
    "warm_up": "solving.all_loops",
}
_SUBMODULES = {
    "errors": "model.errors",
    "expression": "program.expression",
    "heuristics": "packing.heuristics",
    "report": "report",
    "storages": "packing.storage_ids",
}
# Methods of public classes whose work is done in rooms above the class.
METHODS = {
    "Explanation.__str__": "cpplan.explanation.explanation_text:format_explanation",
    "Graph.at": "cpplan.program.binding:graph_at",
    "MovesExplanation.__str__": "cpplan.explanation.explanation_text:format_moves",
    "Plan.at": "cpplan.symbolic.at_values:at_values",
    "Plan.at(grow=True)": "cpplan.solving.growing:grown_at",
    "Plan.explain": "cpplan.explanation.explaining:explain",
    "Plan.explain(moves)": "cpplan.explanation.moved:explain_moves",
    "Plan.export": "cpplan.io.formats:export_plan",
    "Plan.load": "cpplan.io.plan_json:load_plan",
    "Plan.report": "cpplan.report.html.plan_report:write_plan_report",
    "Plan.save": "cpplan.io.plan_json:save_plan",
    "Program.__str__": "cpplan.program.text.printer:format_program",
    "Program.live_bytes": "cpplan.program.liveness:live_bytes",
    "Program.parse": "cpplan.program.text.parser:parse_program",
    "Program.used_memory": "cpplan.program.anf:find_used_memory",
    "SizesPlan.load": "cpplan.io.sizes_json:load_sizes",
    "SizesPlan.save": "cpplan.io.sizes_json:save_sizes",
}
offer(METHODS)
__all__ = [*_HOME, *_SUBMODULES]


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return import_module(f"cpplan.{_SUBMODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'cpplan' has no attribute {name!r}")
    value = getattr(import_module(f"cpplan.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
