"""A plan found by the search for pieces."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.aliasing.packed import Packed
from cpplan.model.pieces import Pieces
from cpplan.program.anf import Program
from cpplan.splitting.between_pieces import Between
from cpplan.splitting.bounds import LeastPiece
from cpplan.splitting.piece_graph import PieceGraph


@dataclass(frozen=True, slots=True)
class Split:
    """The best plan found, with or without pieces.

    Attributes
    ----------
    packed
        The program of pieces and its packing, which exceeds the limit if none within was found.
    pieces, graph
        Cuts of the ops, and the graph of pieces; empty and ``None`` if no op runs in pieces.
    cost, base
        Cost of all runs, and cost of running every op once.
    least
        Lower bound on the bytes of every splitting.
    between
        Lower bound on the bytes of every splitting at no more work, if only such ones were asked.
    limit
        Limit on the bytes, if there is one.
    weighed
        True if plans were ranked by their peak plus bytes for their pieces.
    derived
        Seconds that it took to derive the pieces and their order.
    ordered
        True if the order of the pieces was searched.
    """

    packed: Packed
    pieces: tuple[Pieces, ...]
    graph: PieceGraph | None
    cost: int | float
    base: int | float
    least: LeastPiece
    between: Between | None = None
    limit: int | None = None
    weighed: bool = False
    derived: float = 0.0
    ordered: bool = False

    @property
    def program(self) -> Program:
        """The program of pieces, in the order of the plan."""
        assert isinstance(self.packed.source, Program)
        return self.packed.source

    @property
    def runs_again(self) -> bool:
        """True if some piece runs more than once."""
        return len(self.program.order) > len(self.program.graph.ops)
