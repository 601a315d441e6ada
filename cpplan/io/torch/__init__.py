"""torch: exported programs, FX graph modules and training graphs, and plans applied to them.

The other modules of this package import torch at once; this one imports it when a function is
called.

Parameters and buffers become constants. The values that the model returns become outputs: results,
gradients and new values of buffers. An op's schema tells its views and the arguments that it
overwrites. Modules, Python functions and ops composed of other ops have no such schema: they are
run on tensors without data. Views are ops that move no bytes. Sizes are the bytes that eager torch
allocates, even where a storage is larger than its tensor. A branch or loop is one op; its workspace
is the bytes needed inside, for a loop with the values passed from one pass to the next. Ops that
draw random numbers form one sequence and run once. Ops that access a storage which some op
overwrites keep their order and run once.

An op's cost is its number of floating-point operations if ``torch.utils.flop_counter`` knows it.
Otherwise it is the number of elements of the result or, for a reduction, of the input. Views cost
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError, MissingExtraError
from cpplan.model.graph import Graph
from cpplan.runtime.regular_file import check_source

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

    from cpplan.io.torch.live_bytes import LiveBytes
    from cpplan.io.torch.training.partitioner import Partitioner
    from cpplan.io.torch.training.report import TrainingReport
    from cpplan.io.torch.training_step import TrainingStep

__all__ = [
    "last_report",
    "measure_live_bytes",
    "partitioner",
    "read_torch",
    "reorder_graph_module",
    "reports",
    "training_graph",
    "training_module",
    "training_step",
]


def read_torch(
    source: str | PathLike[str] | ExportedProgram | GraphModule,
    dims: Mapping[str, object] | None = None,
    *,
    example_inputs: Sequence[Any] | None = None,
    name: str | None = None,
    workspaces: bool = False,
) -> Graph:
    """The graph of an exported program, of a ``.pt2`` file or of an FX graph module.

    Parameters
    ----------
    source
        A graph module needs shapes: in ``meta["val"]`` of its nodes, or from ``example_inputs``. It
        is not changed.
    dims
        Symbolic dimensions by the program's names for them (``s77``): an integer, or bounds
        ``(lower, upper)`` that replace the program's own.
    example_inputs
        Inputs of a graph module, from which the shapes of all its values follow. Nothing is
        computed.
    name
        Name of the graph; if left out, the name of the file or of the module's class.
    workspaces
        Run the kernel of every op on this machine, once for each shape, on zeros; count the bytes
        that it allocates beside its results as workspaces. The peak of a plan, and so its
        ``memory_limit``, is then the most that running it takes from torch's CPU allocator. Sizes
        must be fixed.

    Raises
    ------
    InputError
        If the file cannot be read or is not an exported program, or if a node has no shape or is
        not supported; names the file and the node.
    MissingExtraError
        If the package ``torch`` is missing.

    Examples
    --------
    >>> import torch
    >>> program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> graph = read_torch(program)
    >>> [(op.kind, op.inputs, op.cost) for op in graph.ops]
    [('aten.linear.default', ('input', 'p_weight', 'p_bias'), 48)]
    """
    _need_torch("reading torch models")
    from cpplan.io.torch.sources import open_source, reading_archive
    from cpplan.io.torch.translation import naming, translate

    is_file = isinstance(source, (str, PathLike))
    if is_file:
        check_source(source)
    with naming(source), reading_archive() if is_file else nullcontext():
        traced = open_source(source, dims or {}, example_inputs)
        return translate(traced, name or traced.name, workspaces=workspaces).graph


def read_model(
    source: str | PathLike[str] | ExportedProgram | GraphModule,
    dims: Mapping[str, object] | None = None,
    *,
    kernels: str | None = None,
) -> Graph:
    """The graph of a torch model for ``cpplan.load``."""
    return read_torch(source, dims, workspaces=is_measured(kernels))


def is_measured(kernels: str | None) -> bool:
    """True if the workspaces of torch's kernels are to be measured."""
    if kernels not in (None, "measured"):
        raise InputError(f"kernels={kernels!r} is not understood: expected 'measured'")
    return kernels is not None


def training_module(module: torch.nn.Module, example_inputs: Sequence[Any]) -> GraphModule:
    """Forward and backward pass of a module as one functional graph module.

    It takes parameters, buffers and inputs. It returns new values of buffers, the module's outputs
    and the gradients of the parameters that need them, in the module's own order.
    :func:`training_step` runs it in any order, and assigns its results by name.

    Parameters
    ----------
    module
        Module that returns its loss, a scalar; a tuple that begins with the loss; or a dictionary
        with a ``loss``.
    example_inputs
        Positional arguments, which give the shapes and element types.

    Raises
    ------
    InputError
        If this version of torch is not supported, or the module cannot be traced.
    MissingExtraError
        If the package ``torch`` is missing.

    Examples
    --------
    >>> import torch
    >>> class Loss(torch.nn.Linear):
    ...     def forward(self, x):
    ...         return super().forward(x).square().mean()
    >>> joint = training_module(Loss(3, 2), (torch.ones(4, 3),))
    >>> loss, *gradients = joint(torch.ones(2, 3), torch.zeros(2), torch.ones(4, 3))
    >>> float(loss), [tuple(gradient.shape) for gradient in gradients]
    (9.0, [(2, 3), (2,)])
    """
    _need_torch("tracing training graphs")
    from cpplan.io.torch.joint import trace_joint

    return trace_joint(module, example_inputs)


def training_step(
    module: torch.nn.Module,
    example_inputs: Sequence[Any],
    order: Sequence[str] | None = None,
) -> TrainingStep:
    """Function that runs a training step of a module in a given order, for a user's own loop.

    Called with inputs of the same shapes, it returns the loss, adds the gradients to those of the
    module's parameters, and writes new values into its buffers.

    Parameters
    ----------
    module, example_inputs
        As for :func:`training_module`.
    order
        Names of ops of :func:`training_graph`, which may repeat, as in a plan's ``order``; the
        traced order if left out.

    Raises
    ------
    InputError
        As :func:`training_module` and :func:`reorder_graph_module`.
    MissingExtraError
        If the package ``torch`` is missing.
    """
    from cpplan.io.torch.training_step import TrainingStep

    joint = training_module(module, example_inputs)
    return TrainingStep(module, joint if order is None else reorder_graph_module(joint, order))


def training_graph(
    module: torch.nn.Module,
    example_inputs: Sequence[Any],
    *,
    name: str | None = None,
    workspaces: bool = False,
) -> Graph:
    """The graph of a module's forward and backward pass; see :func:`training_module`.

    Parameters
    ----------
    module, example_inputs
        As for :func:`training_module`.
    name, workspaces
        As for :func:`read_torch`.

    Examples
    --------
    >>> import torch
    >>> class Loss(torch.nn.Linear):
    ...     def forward(self, x):
    ...         return super().forward(x).square().mean()
    >>> graph = training_graph(Loss(3, 2), (torch.ones(4, 3),))
    >>> [t.name for t in graph.tensors if t.kind in ("constant", "input")]
    ['arg0_1', 'arg1_1', 'arg2_1']
    """
    return read_torch(
        training_module(module, example_inputs),
        name=name or type(module).__name__.lower(),
        workspaces=workspaces,
    )


def reorder_graph_module(
    module: GraphModule | ExportedProgram,
    order: Sequence[str],
    *,
    example_inputs: Sequence[Any] | None = None,
) -> GraphModule:
    """The graph module with its nodes in another order, in which nodes may repeat.

    If the order names ``relu`` a second time, a second node ``relu_again`` is made. Later nodes and
    the module's results use the newest node. Weights are shared with the module, which is not
    changed.

    Parameters
    ----------
    module
        A graph module or an exported program. The graph module of a program takes parameters and
        buffers as inputs, too.
    order
        Names of ops as in the graph of :func:`read_torch`.
    example_inputs
        As for :func:`read_torch`.

    Raises
    ------
    InputError
        If the order is not valid for the module's graph; see :class:`cpplan.program.anf.Program`.
    MissingExtraError
        If the package ``torch`` is missing.

    Examples
    --------
    >>> import torch
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + torch.exp(x))
    >>> inputs = (torch.ones(2),)
    >>> again = reorder_graph_module(traced, ["exp", "relu", "exp", "add"], example_inputs=inputs)
    >>> [node.name for node in again.graph.nodes]
    ['x', 'exp', 'relu', 'exp_again', 'add', 'output']
    >>> torch.equal(again(*inputs), traced(*inputs))
    True
    """
    _need_torch("reordering torch models")
    from cpplan.io.torch.reorder import reorder

    return reorder(module, order, example_inputs)


def measure_live_bytes(module: GraphModule, inputs: Sequence[Any]) -> LiveBytes:
    """Run a graph module and count the bytes of the storages live at each node.

    Examples
    --------
    >>> import torch
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(torch.exp(x)))
    >>> found = measure_live_bytes(traced, (torch.ones(4),))
    >>> found.per_node
    {'exp': 32, 'relu': 32}
    """
    _need_torch("running torch models")
    from cpplan.io.torch.live_bytes import measure

    return measure(module, inputs)


def partitioner(**options: Any) -> Partitioner:
    """Partitioner of training steps within a memory limit, for inductor and for AOTAutograd.

    Pass it to ``torch.compile(model, options={"custom_partitioner_fn": ...})``, or to
    ``aot_autograd`` as its ``partition_fn``. In the joint graph of forward and backward pass, it
    chooses the tensors that are saved and the ops that run again.

    Parameters
    ----------
    options
        ``memory_limit``, ``cost_limit``, ``time_limit`` and others, as the backend ``cpplan`` takes
        them; see :class:`cpplan.io.torch.training.settings.Settings`.

    Raises
    ------
    InputError
        If an option is unknown or not understood.
    MissingExtraError
        If the package ``torch`` is missing.

    Examples
    --------
    >>> partitioner(memory_limit="2 GiB").settings.memory_limit
    2147483648
    """
    _need_torch("partitioning training steps")
    from cpplan.io.torch.training.partitioner import Partitioner
    from cpplan.io.torch.training.settings import read_settings

    return Partitioner(read_settings(options))


def last_report(compiled: Any | None = None) -> TrainingReport | None:
    """The report of the graph of a compiled module that was planned last; ``None`` without one.

    A module has no report before its first run, and none if dynamo leaves it to eager torch.

    Parameters
    ----------
    compiled
        Module or function as ``torch.compile`` returns it, or the module that it was given.
        ``None`` for the graph planned last in this process, if no other module was compiled for a
        plan since.

    Raises
    ------
    InputError
        If ``compiled`` is neither a module nor compiled.
    MissingExtraError
        If the package ``torch`` is missing.
    """
    _need_torch("planning training steps")
    from cpplan.io.torch.training.report import latest_report

    return latest_report(compiled)


def reports(compiled: Any | None = None) -> list[TrainingReport]:
    """Reports of the graphs of a compiled module, one for each graph and shape, the latest last.

    Of all reports of a process, the last 64 are kept.

    Parameters
    ----------
    compiled
        As for :func:`last_report`; ``None`` for all reports of this process.

    Raises
    ------
    InputError
        If ``compiled`` is neither a module nor compiled.
    MissingExtraError
        If the package ``torch`` is missing.
    """
    _need_torch("planning training steps")
    from cpplan.io.torch.training.report import reports_of

    return reports_of(compiled)


def _need_torch(purpose: str) -> None:
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", purpose)
