"""The first use of the room's compiled loops, with the types of real uses."""

from __future__ import annotations

from cpplan.model.axes import Axis, Window
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region
from cpplan.splitting.styles import Style


def use_splitting() -> None:
    """Estimate a region of one op in two pieces and in two strips, which compiles the loops."""
    tensors = (
        Tensor("x", shape=(2,), dtype="int8", kind="input"),
        Tensor("y", shape=(2,), dtype="int8", kind="output"),
    )
    rows = Axis("rows", 2, (Window("x", 0), Window("y", 0)))
    graph = Graph("g", tensors, (Op("f", inputs=("x",), outputs=("y",), axes=(rows,)),))
    region = Region(SplitProblem(to_anf(graph), Residency()), 0, 1)
    region.estimate(Style("rows"))
    region.estimate(Style(None, "rows", 2))
