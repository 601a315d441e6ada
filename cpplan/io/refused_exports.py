"""Plans that a format cannot hold: one table, by format, to refuse them before planning.

The documentation lists it beside the options of ``solve`` that exclude one another
(:mod:`cpplan.solving.combined_options`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cpplan.model.problem import Problem
from cpplan.model.refusals import Refusal, refuse
from cpplan.model.residency import choose_residency

if TYPE_CHECKING:
    from cpplan.model.graph import Graph
    from cpplan.solving.request import Request


def _is_symbolic(request: Request, source: Graph | Problem) -> bool:
    return getattr(source, "symbols", None) is not None


def _has_several_pools(request: Request, source: Graph | Problem) -> bool:
    return len(source.pools if isinstance(source, Problem) else request.pools or ()) > 1


def _leaves_constants_outside(request: Request, source: Graph | Problem) -> bool:
    pools = request.pools or ()
    where = choose_residency(request.inputs, request.outputs, request.constants, pools)
    return where.constants == "outside"


def _divides_constants(request: Request, source: Graph | Problem) -> bool:
    """True if constants may lie in several pools."""
    pools = request.pools or ()
    own = sum(pool.kind == "constant" for pool in pools)
    return (own or len(pools)) > 1


def _has_several_arenas(request: Request, source: Graph | Problem) -> bool:
    return sum(pool.kind == "workspace" for pool in request.pools or ()) > 1


def _without_moves(name: str) -> Refusal:
    return Refusal(
        (f"--{name}", "--spill"),
        f"--{name} has no place for the moves of --spill",
        lambda request, source: request.spill,
    )


def _of_fixed_sizes(name: str) -> Refusal:
    return Refusal(
        (f"--{name}", "dimensions"),
        f"--{name} needs extents of dimensions, not bounds",
        _is_symbolic,
    )


# Name of a format -> rules, called with a request and a graph or problem. Formats of one pool have
# no place for moves either.
EXPORT_RULES: Mapping[str, tuple[Refusal, ...]] = {
    "onnx": (_without_moves("onnx"), _of_fixed_sizes("onnx")),
    "tflite": (
        Refusal(
            ("--tflite", "pool"),
            "--tflite is for TFLite Micro's one arena, not for several pools",
            _has_several_arenas,
        ),
        Refusal(
            ("--tflite", "--remat"),
            "--tflite writes every operator once, which excludes --remat",
            lambda request, source: request.remat,
        ),
    ),
    "csv": (
        Refusal(("--csv", "pool"), "--csv holds one pool only", _has_several_pools),
        *(
            Refusal(
                ("--csv", f"--{option.replace('_', '-')}"),
                "--csv cannot say which buffers share bytes (--in-place, --placement)",
                lambda request, source, option=option: bool(getattr(request, option)),
            )
            for option in ("in_place", "placement")
        ),
    ),
    "program": (
        _without_moves("program"),
        Refusal(
            ("--program", "a bare packing problem"),
            "--program needs a graph, and this is a bare packing problem",
            lambda request, source: isinstance(source, Problem),
        ),
    ),
    "constants-image": (
        Refusal(
            ("--constants-image", "--constants"),
            "--constants-image needs constants in a pool (--constants keep)",
            _leaves_constants_outside,
        ),
        Refusal(
            ("--constants-image", "pool"),
            "--constants-image holds the constants of one pool only",
            _divides_constants,
        ),
        _of_fixed_sizes("constants-image"),
    ),
    "c-header": (_of_fixed_sizes("c-header"),),
}


def check_exports(names: Iterable[str], request: Request, source: Graph | Problem) -> None:
    """Raise for a format that cannot hold a plan as it was asked for."""
    for name in names:
        refuse(EXPORT_RULES.get(name, ()), request, source)
