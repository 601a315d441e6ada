"""``execute``: a model's own kernels inside the planned arena, for the formats that have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from cpplan.io.pieces_run import PiecesRun
from cpplan.model.errors import InputError, MissingExtraError
from cpplan.model.plan import Plan
from cpplan.model.workspaces import with_workspaces
from cpplan.verification.execution import Execution, execute_in_arena, execute_with_moves

if TYPE_CHECKING:
    import onnx
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

    from cpplan.verification.tensor_bytes import Array


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

    An ONNX model runs with onnx's reference kernels, a TFLite model with LiteRT's, one of torch
    with torch's own on the CPU, in any schedule of the plan: ops may run again. A random op draws
    once.

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
    if workspaces is not None:
        run.graph = with_workspaces(run.graph, workspaces)
    if not plan.pieces:
        done = within(run, plan)
        return replace(done, outputs={n: run.output(n, a) for n, a in done.outputs.items()})
    pieces = PiecesRun(run, plan.pieces)
    return pieces.whole_outputs(within(pieces, replace(plan, pieces=())))


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
