"""Plans that a format cannot hold: one table, by format, to refuse them before planning.

The documentation lists it beside the options of ``solve`` that exclude one another
(:mod:`cpplan.solving.combined_options`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cpplan.io.formats import writers
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


# Name of a format -> rules, called with a request and a graph or problem.
EXPORT_RULES = {
    form.name: tuple(
        Refusal(
            (f"--{form.name}", "--spill"),
            f"--{form.name} has no place for the moves of --spill",
            lambda request, source: request.spill,
        )
        for _ in range(not form.moves)
    )
    for form in writers()
}
EXPORT_RULES["program"] += (
    Refusal(
        ("--program", "a bare packing problem"),
        "--program needs a graph, and this is a bare packing problem",
        lambda request, source: isinstance(source, Problem),
    ),
)
EXPORT_RULES["constants-image"] += (
    Refusal(
        ("--constants-image", "--constants"),
        "--constants-image needs constants in a pool (--constants keep)",
        _leaves_constants_outside,
    ),
)
for _name in ("onnx", "constants-image", "c-header"):
    EXPORT_RULES[_name] += (
        Refusal(
            (f"--{_name}", "dimensions"),
            f"--{_name} needs extents of dimensions, not bounds",
            _is_symbolic,
        ),
    )
EXPORT_RULES["csv"] += (
    Refusal(("--csv", "pool"), "--csv holds one pool only", _has_several_pools),
    *(
        Refusal(
            ("--csv", f"--{option.replace('_', '-')}"),
            "--csv cannot say which buffers share bytes (--in-place, --placement)",
            lambda request, source, option=option: bool(getattr(request, option)),
        )
        for option in ("in_place", "placement")
    ),
)


def check_exports(names: Iterable[str], request: Request, source: Graph | Problem) -> None:
    """Raise for a format that cannot hold a plan as it was asked for.

    Raises
    ------
    InputError
        Names the format's option and the other.
    """
    for name in names:
        refuse(EXPORT_RULES[name], request, source)
