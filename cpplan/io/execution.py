"""``execute``: a model's own kernels inside the planned arena, for the formats that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from cpplan.io.pieces import PieceWork, common, piece_work, slices, within
from cpplan.model.errors import InputError, MissingExtraError
from cpplan.model.graph import Graph, Op
from cpplan.model.pieces import Pieces
from cpplan.model.plan import Plan
from cpplan.model.workspaces import with_workspaces
from cpplan.verification.execution import Execution, ModelRun, execute_in_arena, execute_with_moves
from cpplan.verification.pieces import describe_pieces
from cpplan.verification.tensor_bytes import Array

if TYPE_CHECKING:
    import onnx
    from torch.export import ExportedProgram
    from torch.fx import GraphModule


class Runner(NamedTuple):
    """A format whose models can be run op by op.

    Attributes
    ----------
    suffix
        Of its files.
    package
        The top package of its models' classes in memory; ``None`` if there are none.
    home
        Module and class, separated by a colon, that is called with the model, ``dims`` and
        ``inputs``, with ``seed`` and ``weights`` by name, and gives a
        :class:`~cpplan.verification.execution.ModelRun`; its ``output`` makes the array that the
        caller gets of an output's value.
    takes
        Further keywords of :func:`execute` that it takes.
    """

    suffix: str
    package: str | None
    home: str
    takes: tuple[str, ...] = ()


RUNNERS = (
    Runner(".onnx", "onnx", "cpplan.io.onnx.run:OnnxRun"),
    Runner(".tflite", None, "cpplan.io.tflite.run:TfliteRun", ("kernels",)),
    Runner(".pt2", "torch", "cpplan.io.torch.run:TorchRun", ("kernels",)),
)


def execute(
    model: str | PathLike[str] | onnx.ModelProto | ExportedProgram | GraphModule,
    plan: Plan,
    *,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    weights: Literal["model", "random"] = "model",
    workspaces: Mapping[str, int | str] | None = None,
    kernels: str | None = None,
) -> Execution:
    """Run a model inside the planned arena; every byte must be that of the unplanned run.

    An ONNX model runs with onnx's reference kernels, and with ONNX Runtime's where an operator is
    its own; a TFLite model with LiteRT's, one of torch with torch's own on the CPU, in any schedule
    of the plan: ops may run again. A random op draws once.

    Of a plan in pieces, every band must be that part of the unsplit run's tensor. In ONNX models,
    convolutions and matrix products of 32 and 64 bit floats then add up in one order, in the
    unsplit run too; where other kernels round by shape, they run on whole tensors of which the
    piece's part is filled in.

    Parameters
    ----------
    model
        An ``.onnx``, ``.tflite`` or ``.pt2`` file, a loaded ONNX model, an exported program of
        torch, or a graph module, also one of :func:`cpplan.io.torch.training_module`.
    plan
        Offsets and order for this model.
    inputs
        Values of graph inputs; the others are random: normal, or 0 and 1 for integers, or any for
        quantized ones.
    seed
        Of random inputs and weights.
    dims
        Extents of symbolic dimensions, the same as for the plan, or within its bounds.
    weights
        ``"random"`` replaces the constant weights of convolutions, matrix products, normalisations
        and the like: He-normal, so that activations neither vanish nor blow up. Constant weights
        can make all activations equal, and would hide a broken plan. Of ONNX models only.
    workspaces, kernels
        Scratch memory that was planned for, as for :func:`cpplan.load`. Kernels run with memory of
        their own; no op may write to the scratch memory of the op that runs.

    Raises
    ------
    InputError
        If the model is of no format that can be run, or cannot be read or run, or an input does
        not match; names an op whose reference kernel gives more than the operator's definition
        says.
    MissingExtraError
        If a package is missing that runs the model.
    VerificationError
        If the plan is for another model, a kernel's result takes more bytes than the model
        declares, or a byte differs: names op, step, tensor, address, and the last writer of that
        byte.

    Examples
    --------
    >>> import numpy as np
    >>> import onnx.parser
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     tiny (float[4] x) => (float[4] y) { t = Exp(x) y = Neg(t) }''')
    >>> columns = {"size": [16] * 3, "lower": [0, 0, 1], "upper": [1, 2, 2], "offset": [0, 16, 0]}
    >>> plan = Plan(
    ...     "tiny",
    ...     "feasible",
    ...     ("x", "t", "y"),
    ...     **{key: np.array(column) for key, column in columns.items()},
    ...     peak=32,
    ...     order=("Exp_0", "Neg_1"),
    ... )
    >>> done = execute(model, plan)
    >>> done.steps, done.arena_bytes
    (2, 32)
    """
    if not isinstance(plan, Plan):
        raise InputError(f"expected a Plan of the model, not {type(plan).__name__}")
    runner = _runner_of(model)
    if runner.package is not None and find_spec(runner.package) is None:
        raise MissingExtraError(runner.package, runner.package, f"executing {runner.suffix} models")
    module, _, name = runner.home.partition(":")
    if kernels is not None and "kernels" not in runner.takes:
        raise InputError(f"kernels={kernels!r} is for TFLite and torch models only")
    more: dict[str, object] = {} if kernels is None else {"kernels": kernels}
    sized = plan.symbols is not None
    if plan.symbols is not None:
        if plan.symbols.unbounded:
            unbounded = next(iter(plan.symbols.unbounded))
            raise InputError(f"tensor {unbounded!r} may have any size: no arena holds it")
        plan = plan.at({k: v for k, v in (dims or {}).items() if k in plan.symbols.dims}).plan_at
    make = getattr(import_module(module), name)
    within = execute_with_moves if plan.spills else execute_in_arena
    if plan.pieces:
        more["ordered"] = True
    run = make(model, dims or {}, inputs or {}, seed=seed, weights=weights, **more)
    if sized:
        run.graph = _with_buffers(run.graph, frozenset(plan.buffers))
    if workspaces is not None:
        run.graph = with_workspaces(run.graph, workspaces)
    if not plan.pieces:
        done = within(run, plan)
        return replace(done, outputs={n: run.output(n, a) for n, a in done.outputs.items()})
    pieces = PiecesRun(run, plan.pieces)
    return pieces.whole_outputs(within(pieces, replace(plan, pieces=())))


def _with_buffers(graph: Graph, buffers: frozenset[str]) -> Graph:
    """The graph in which tensors with buffers are no views.

    A transposition copies in general, but is a view where an extent is 1.
    """
    tensors = (replace(t, view_of=None) if t.name in buffers else t for t in graph.tensors)
    return replace(graph, tensors=tuple(tensors))


def _runner_of(model: object) -> Runner:
    """The format of a file, by its suffix, or of a model in memory, by its class."""
    if isinstance(model, (str, PathLike)):
        suffix, what = Path(model).suffix.lower(), f"{model}: a file {Path(model).suffix!r}"
        found = [runner for runner in RUNNERS if runner.suffix == suffix]
    else:
        packages = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
        what = f"a {type(model).__name__}"
        found = [runner for runner in RUNNERS if runner.package in packages]
    if not found:
        known = " or ".join(
            runner.suffix + (f" or a model of {runner.package}" if runner.package else "")
            for runner in RUNNERS
        )
        raise InputError(f"{what} has no kernels to be executed: expected {known}")
    return found[0]


class DividedRun(ModelRun, Protocol):
    """A model whose ops can be run whole, and piece by piece."""

    def compute_piece(
        self, work: PieceWork, parts: Mapping[str, Array], sums: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """Parts of an op's outputs that a piece computes, from those of its inputs.

        ``sums`` are what the pieces before it have added up, if pieces add up.
        """


class PiecesRun:
    """The pieces of a model's ops; every band must be that part of the unsplit run's tensor.

    Attributes
    ----------
    graph
        The graph of pieces.
    output_names
        The bands of the model's outputs.
    """

    def __init__(self, run: DividedRun, pieces: Sequence[Pieces]):
        self._run, self._whole = run, run.graph
        self._described = describe_pieces(run.graph, pieces)
        self.graph: Graph = self._described.graph
        self._bands = bands = self._described.bands
        self.output_names = tuple(
            band for name in run.output_names for band in bands.get(name, [name])
        )
        self._values: dict[str, Array] = {}

    def values(self) -> Mapping[str, Array]:
        """Every value of the unsplit, unplanned run, also band by band; and every sum so far."""
        self._values = dict(self._run.values())
        for name, (tensor, part) in self._described.parts.items():
            self._values[name] = np.ascontiguousarray(self._values[tensor][slices(part)])
        for op in self.graph.ops:
            if op.name in self._described.pieces and self._adds(op):
                self._values.update(self.compute(op, {}))
        return self._values

    def compute(self, op: Op, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Results of a piece, or of a whole op, on these bands; on the unsplit run's otherwise."""
        bands = {name: arrays[name] if name in arrays else self._values[name] for name in op.inputs}
        if op.name not in self._described.pieces:
            source = self._whole.op[op.name]
            inputs = {name: self._joined(name, bands) for name in source.inputs}
            results = self._run.compute(source, inputs)
            return self._cut(op, results, {})
        source_name, axes, spans = self._described.pieces[op.name]
        source = self._whole.op[source_name]
        work = piece_work(self._whole, source, axes, spans)
        parts = {
            name: self._part(name, work, bands) for name in source.inputs if name in work.boxes
        }
        sums = self._sums(source, work, op, bands) if self._adds(op) else {}
        return self._cut(op, self._run.compute_piece(work, parts, sums), work.boxes)

    def _sums(
        self, source: Op, work: PieceWork, op: Op, bands: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Sums of the pieces before one; none before the first."""
        if work.begins:
            return {}
        found = {}
        for name in source.outputs:
            if name not in self._bands:
                before = next(n for n in op.inputs if self.graph.root[n][0].startswith(f"{name}+"))
                found[name] = bands[before]
                continue
            found[name] = self._part(name, work, bands)
        return found

    def whole_outputs(self, done: Execution) -> Execution:
        """The execution, with the model's outputs joined from their bands."""
        outputs = {}
        for name in self._run.output_names:
            if name in self._bands:
                outputs[name] = self._joined(name, done.outputs)
            else:
                outputs[name] = done.outputs[name]
        return replace(done, outputs=outputs)

    def _adds(self, op: Op) -> bool:
        """True if a piece adds to what pieces before it wrote."""
        name, axes, _ = self._described.pieces[op.name]
        return any(a.accumulates for a in self._whole.op[name].axes if a.name in axes)

    def _joined(self, name: str, bands: Mapping[str, Array]) -> Array:
        """A whole tensor from its bands."""
        if name not in self._bands:
            return bands[name] if name in bands else self._values[name]
        whole = np.empty(self._values[name].shape, self._values[name].dtype)
        for band in self._bands[name]:
            whole[slices(self._described.parts[band][1])] = bands[band]
        return whole

    def _part(self, name: str, work: PieceWork, bands: Mapping[str, Array]) -> Array:
        """The part of a tensor that a piece reads, gathered from bands."""
        box = work.boxes[name]
        if name not in self._bands:
            value = bands[name] if name in bands else self._values[name]
            place: tuple[Any, ...] = (*slices(box), ...)
            taken: Array = np.asarray(value)[place]
            return taken
        gathered = np.empty([high - low for low, high in box], self._values[name].dtype)
        for band, value in bands.items():
            tensor, part = self._described.parts.get(band, ("", ()))
            if tensor == name and (both := common(part, box)) is not None:
                gathered[slices(within(both, box))] = value[slices(within(both, part))]
        return gathered

    def _cut(
        self, op: Op, results: Mapping[str, Array], boxes: Mapping[str, tuple[tuple[int, int], ...]]
    ) -> dict[str, Array]:
        """The bands of an op's results; ``boxes`` are the parts that these are."""
        found = {}
        for name in op.outputs:
            if name not in self._described.parts:
                whole = name if name in results else name.rpartition("+")[0]
                found[name] = results[whole]
                continue
            tensor, part = self._described.parts[name]
            box = within(part, boxes[tensor]) if tensor in boxes else part
            found[name] = np.ascontiguousarray(results[tensor][slices(box)])
        return found
