"""The backend ``cpplan`` of ``torch.compile``: both halves of a step run in the plan's order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule

from cpplan.io.torch.training.compiled_graph import CompiledGraph
from cpplan.io.torch.training.many_sizes import many_sizes
from cpplan.io.torch.training.origins import find_origin
from cpplan.io.torch.training.settings import read_settings


def cpplan(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **others: Any,
) -> Callable[..., Any]:
    """Compiled function of a graph that dynamo traced; the backend named ``cpplan``.

    Parameters
    ----------
    module, example_inputs
        As dynamo passes them to every backend.
    options
        See :class:`cpplan.io.torch.training.settings.Settings`.

    Raises
    ------
    InputError
        If an option is not understood.
    UnsupportedError
        If the graph cannot be planned, and ``fallback`` is ``"error"``.
    InfeasibleError, NotFoundError
        If no schedule within the limits exists, or none is found in time.
    """
    compiled = CompiledGraph(module, read_settings(options), find_origin())
    run = compiled.compile(example_inputs)
    report = compiled.report
    if report is None or report.memory_limit is None:
        return run
    return many_sizes(compiled, report, run) or run
