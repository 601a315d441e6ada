"""Origins of the bytes of every storage, traced through ops that only copy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.model.graph import Graph
from cpplan.program.anf import to_anf


class Piece(NamedTuple):
    """Bytes ``[begin, end)`` of a storage: a copy of the bytes of ``origin`` from ``start`` on."""

    begin: int
    end: int
    origin: str
    start: int

    @property
    def past(self) -> int:
        """End of the piece in ``origin``."""
        return self.start + self.end - self.begin


class Origins:
    """The pieces of every storage that a candidate names, ascending and without holes.

    Only candidates count: bytes that no candidate declares a copy are their own origin. ``poll`` is
    called for every op that copies, and may raise.
    """

    def __init__(
        self,
        graph: Graph,
        candidates: Iterable[AliasCandidate],
        poll: Callable[[], object] = lambda: None,
    ):
        self.of: dict[str, list[Piece]] = {}
        copies: dict[int, list[AliasCandidate]] = {}
        for candidate in candidates:
            for root in (candidate.inner, candidate.outer):
                if root not in self.of:
                    self.of[root] = [Piece(0, graph.tensor[root].nbytes, root, 0)]
            if not candidate.in_place:
                copies.setdefault(candidate.op, []).append(candidate)
        for number in to_anf(graph).order if copies else ():
            if number in copies:
                poll()
            for candidate in copies.get(number, ()):
                if candidate.relation.other in graph.ops[number].outputs:
                    self._copy(
                        candidate.inner,
                        candidate.outer,
                        -candidate.shift,
                        candidate.begin,
                        candidate.end,
                    )
                else:
                    begin, end = candidate.begin - candidate.shift, candidate.end - candidate.shift
                    self._copy(candidate.outer, candidate.inner, candidate.shift, begin, end)

    def equal(self, one: str, other: str, shift: int) -> bool:
        """True if the bytes that two storages share have the same origin.

        ``shift`` is the address of ``other`` less the address of ``one``. O(pieces that they
        share).
        """
        mine, theirs = self.of[one], self.of[other]
        begin, end = max(0, shift), min(mine[-1].end, theirs[-1].end + shift)
        i, j = _index(mine, begin), _index(theirs, begin - shift)
        while begin < end:
            a, b = mine[i], theirs[j]
            if a.origin != b.origin or a.start - a.begin != b.start - b.begin - shift:
                return False
            begin = min(a.end, b.end + shift)
            i += a.end <= begin
            j += b.end + shift <= begin
        return True

    def _copy(self, source: str, target: str, shift: int, begin: int, end: int) -> None:
        """Give bytes ``[begin, end)`` of ``target`` the origins of ``source`` at ``+ shift``.

        ``shift`` is the address of the target less that of the source when both share these bytes.
        """
        taken = _cut(self.of[source], begin + shift, end + shift)
        moved = [Piece(p.begin - shift, p.end - shift, p.origin, p.start) for p in taken]
        old = self.of[target]
        size = old[-1].end
        if begin == 0 and end == size:
            self.of[target] = _join(moved)
            return
        pieces = [*_cut(old, 0, begin), *moved, *_cut(old, end, size)]
        self.of[target] = _join(pieces)


def _index(pieces: list[Piece], byte: int) -> int:
    return max(0, bisect_right(pieces, byte, key=lambda piece: piece.begin) - 1)


def _cut(pieces: list[Piece], begin: int, end: int) -> list[Piece]:
    """The pieces within ``[begin, end)``."""
    found = []
    for k in range(_index(pieces, begin), len(pieces)):
        piece = pieces[k]
        if piece.begin >= end:
            break
        low, high = max(begin, piece.begin), min(end, piece.end)
        if low < high:
            found.append(Piece(low, high, piece.origin, piece.start + low - piece.begin))
    return found


def _join(pieces: list[Piece]) -> list[Piece]:
    """The pieces with neighbours joined if one continues the other."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and last.origin == piece.origin and last.past == piece.start:
            joined[-1] = last._replace(end=piece.end)
        else:
            joined.append(piece)
    return joined
