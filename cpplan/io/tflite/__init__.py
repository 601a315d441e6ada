"""TFLite models: read as graphs, and written with a plan that TFLite Micro follows.

``.tflite`` files are read directly, without TensorFlow. The graph is that of the first subgraph,
which TFLite Micro runs; subgraphs that ``IF``, ``WHILE``, ``CALL`` and ``CALL_ONCE`` run are bodies
of these ops. ``Plan.export`` writes a plan into the file, and
:func:`~cpplan.io.tflite.carried.read_carried_plan` reads it again.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from dataclasses import replace
from os import PathLike, fspath

from cpplan.io.tflite.arena import MicroArena, micro_arena, micro_overhead, piece_bytes
from cpplan.io.tflite.carried import CarriedPlan, read_carried_plan
from cpplan.io.tflite.extents import bind_extents, stored_extents
from cpplan.io.tflite.graph import translate
from cpplan.io.tflite.model import naming, parse_model
from cpplan.io.tflite.planning import plan_micro
from cpplan.io.tflite.scratch import REFERENCE, check_kernels, unknown_scratch
from cpplan.io.tflite.write import planned_tflite, write_tflite
from cpplan.model.graph import Graph
from cpplan.model.names import name_of_file

_logger = logging.getLogger(__name__)

__all__ = [
    "CarriedPlan",
    "MicroArena",
    "micro_arena",
    "piece_bytes",
    "plan_micro",
    "planned_tflite",
    "read_carried_plan",
    "read_tflite",
    "write_tflite",
]


def read_tflite(
    source: str | PathLike[str] | bytes,
    dims: Mapping[str, int] | None = None,
    *,
    name: str | None = None,
    workspaces: Container[str] = (),
    kernels: str | None = None,
) -> Graph:
    """The graph of a TFLite model; its ops are listed in the order of the file.

    Ops have the names of their first outputs. See :mod:`cpplan.io.tflite.graph` and
    :mod:`cpplan.io.tflite.operators` for views, constants, in-place pairs and placements. Limits of
    plans are on all of TFLite Micro's arena (``Graph.overhead``).

    Parameters
    ----------
    source
        A file, or its bytes.
    dims
        Extents of the inputs' axes that the file leaves open, by ``input[axis]``. For open axes
        that are left out, the extents stored in the file are used, as runtimes do; a warning says
        so.
    name
        The graph's name; if left out, the file's name without its suffix.
    workspaces
        Kinds or names of ops whose scratch memory the caller knows. A warning is logged for other
        ops whose scratch memory is not known.
    kernels
        Kernels whose scratch memory is planned: ``"reference"``, the default, or CMSIS-NN's on a
        processor without extensions (``"cmsis-nn"``), with DSP (``"cmsis-nn-dsp"``) or with Helium
        (``"cmsis-nn-mve"``). See :mod:`cpplan.io.tflite.scratch`.

    Raises
    ------
    InputError
        If the file cannot be read, is not a TFLite model or is cut short, if an axis has no extent
        or an extent only known at run time, or if an operator is not supported; names the file and
        the item at fault.
    MissingExtraError
        If the package ``tflite`` is missing, or ``ai-edge-litert`` for ``dims``.

    Examples
    --------
    >>> graph = read_tflite("datasets/tflite/two_inputs.tflite")
    >>> graph.op["gated"].kind, graph.op["gated"].inputs, graph.tensor["image/flat"].view_of
    ('MUL', ('image/dense', 'vector/gate'), ('image/conv', 0))
    """
    if name is None:
        name = "main" if isinstance(source, bytes) else name_of_file(source)
    with naming(source):
        model = parse_model(source)
        kernels = kernels or REFERENCE
        check_kernels(kernels)
        bound = bind_extents(model, dims)
        translation = translate(bound, name, kernels=kernels)
        graph = replace(translation.graph, overhead=micro_overhead(bound, translation, kernels))
    where = "TFLite model" if isinstance(source, bytes) else fspath(source)
    stored = stored_extents(model, dims)
    if stored:
        options = " ".join(f"--dim '{axis}={extent}'" for axis, extent in stored.items())
        _logger.warning("%s: open axes are planned as the file stores them: %s", where, options)
    unknown = unknown_scratch(translation.unknown, workspaces)
    if unknown:
        _logger.warning("%s: %s", where, unknown)
    return graph
