"""A model whose moves between pools run as ops of their own, for execution in the arenas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.verification.execution import Execution, ModelRun, execute_in_arena
from cpplan.verification.lowering import Lowered
from cpplan.verification.moves import check_moves
from cpplan.verification.tensor_bytes import Array


def execute_with_moves(run: ModelRun, plan: Plan) -> Execution:
    """Run a model by a plan with moves; raise if a byte differs from the unplanned run.

    The pools lie one above the other in one arena. A move copies the bytes at its source; at every
    step, the copies of a tensor must have the bytes of the unplanned run.

    Parameters
    ----------
    run
        Graph, inputs and kernels.
    plan
        A plan for this model in which tensors may move.

    Raises
    ------
    VerificationError
        As :func:`~cpplan.verification.execution.execute_in_arena`; also if a move is impossible.
    """
    lowered = Lowered(run.graph, plan)
    inner, moving, runs = lowered.moving
    check_moves(inner, moving)
    moved = lowered.moved
    origin = {copy: runs.get(tensor, tensor) for copy, tensor in moved.origin.items()}
    moved_run = _MovedRun(run, lowered.graph, origin, moved.ends, runs)
    done = execute_in_arena(moved_run, lowered.plan)
    outputs = {name: done.outputs[moved.ends[name]] for name in run.output_names}
    return Execution(done.steps, done.bytes_checked, done.arena_bytes, outputs)


class _MovedRun:
    """The kernels of a model for the copies of its tensors."""

    def __init__(
        self,
        run: ModelRun,
        graph: Graph,
        origin: Mapping[str, str],
        ends: Mapping[str, str],
        runs: Mapping[str, str],
    ):
        self.run, self.graph, self.origin, self.runs = run, graph, origin, runs
        self.output_names: Sequence[str] = tuple(ends[name] for name in run.output_names)

    def values(self) -> Mapping[str, Array]:
        """Values of the unplanned run; all copies of a tensor have the tensor's value."""
        known = self.run.values()
        copies = {copy: known[tensor] for copy, tensor in self.origin.items() if tensor in known}
        return {**known, **copies}

    def compute(self, op: Op, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Results of an op, or the bytes that a move copies."""
        name = self.runs.get(op.name, op.name)
        if name not in self.run.graph.op:
            return dict.fromkeys(op.outputs, arrays[op.inputs[0]])
        found = self.run.compute(
            self.run.graph.op[name],
            {self.origin.get(name, name): array for name, array in arrays.items()},
        )
        return {
            copy: found[tensor]
            for copy, tensor in ((name, self.origin.get(name, name)) for name in op.outputs)
            if tensor in found
        }
