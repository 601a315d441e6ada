"""Clusters: storages at fixed distances from one another, whose bytes may meet where they do.

Links are taken one after another; each is kept if nothing that must stay intact is then destroyed.
Two storages of a cluster may occupy a byte at the same step only if

* both hold the same value there: it has one origin, and the ops between only copied it, or
* they meet at the step of one op alone, which writes the one over the other in place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cpplan.sharing.links import Link
from cpplan.sharing.lives import Lives
from cpplan.sharing.origins import Origins


@dataclass(frozen=True, slots=True)
class Storage:
    """Size and alignment of a storage, bytes."""

    size: int
    alignment: int = 1
    pools: frozenset[int] | None = None


@dataclass(slots=True)
class Clusters:
    """A partition of the storages that links name.

    Attributes
    ----------
    members
        Of every cluster, by a number of its own, its storages.
    number
        Storage -> its cluster.
    place
        Storage -> its address less that of the lowest in its cluster, bytes.
    links
        Those in force.
    """

    members: dict[int, list[str]] = field(default_factory=dict)
    number: dict[str, int] = field(default_factory=dict)
    place: dict[str, int] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)


def form_clusters(
    links: Sequence[Link],
    storages: Mapping[str, Storage],
    lives: Lives,
    origins: Origins,
    skip: Collection[Link] = (),
) -> Clusters:
    """Take every link that can be taken, in the order given, ``skip`` aside.

    O(links × storages of the clusters that they join).
    """
    forming = _Forming(storages, lives, origins, links)
    taken = [link for link in links if link not in skip and forming.take(link)]
    # A link that another one has made true is in force as well.
    forming.clusters.links = [link for link in links if link in taken or forming.holds(link)]
    return forming.clusters


class _Forming:
    def __init__(
        self,
        storages: Mapping[str, Storage],
        lives: Lives,
        origins: Origins,
        links: Iterable[Link],
    ):
        self.storages, self.lives, self.origins = storages, lives, origins
        self.clusters = Clusters()
        self.overwrites: dict[tuple[str, str], list[Link]] = defaultdict(list)
        for link in links:
            if link.in_place:
                self.overwrites[link.outer, link.inner].append(link)
            for root in (link.inner, link.outer):
                if root not in self.clusters.number:
                    number = self.clusters.number[root] = len(self.clusters.number)
                    self.clusters.members[number] = [root]
                    self.clusters.place[root] = 0

    def holds(self, link: Link) -> bool:
        """Whether the two lie as the link says, and it is one that may be used."""
        number, place = self.clusters.number, self.clusters.place
        together = number[link.inner] == number[link.outer]
        if not together or place[link.inner] - place[link.outer] != link.shift:
            return False
        return not link.in_place or self.lives.hands_over(link.outer, link.inner, link.op)

    def take(self, link: Link) -> bool:
        """Join the clusters of the two storages, if that does no harm."""
        clusters = self.clusters
        one, other = clusters.number[link.outer], clusters.number[link.inner]
        if one == other:
            return self.holds(link)
        if link.in_place and not self.lives.hands_over(link.outer, link.inner, link.op):
            return False
        # How far the places of the inner one's cluster move, so that both count from one address.
        moved = clusters.place[link.outer] + link.shift - clusters.place[link.inner]
        ours, theirs = clusters.members[one], clusters.members[other]
        if not self._fit_together(ours, theirs, moved):
            return False
        if len(ours) < len(theirs):
            one, other, ours, theirs, moved = other, one, theirs, ours, -moved
        for root in theirs:
            clusters.place[root] += moved
            clusters.number[root] = one
        ours += theirs
        del clusters.members[other]
        lowest = min(clusters.place[root] for root in theirs)
        if lowest < 0:
            for root in ours:
                clusters.place[root] -= lowest
        return True

    def _fit_together(self, ours: list[str], theirs: list[str], moved: int) -> bool:
        place = self.clusters.place
        lowest = min(0, moved + min(place[root] for root in theirs))
        places = [(root, place[root] - lowest) for root in ours]
        moved_places = [(root, place[root] + moved - lowest) for root in theirs]
        everyone = [*places, *moved_places]
        if any(at % self.storages[root].alignment for root, at in everyone):
            return False
        if not self._have_a_pool([*ours, *theirs]):
            return False
        return all(
            self._may_meet(one, other, there - here)
            for one, here in places
            for other, there in moved_places
            if here < there + self.storages[other].size and there < here + self.storages[one].size
        )

    def _have_a_pool(self, roots: Iterable[str]) -> bool:
        allowed = [pools for root in roots if (pools := self.storages[root].pools) is not None]
        return not allowed or bool(frozenset.intersection(*allowed))

    def _may_meet(self, one: str, other: str, shift: int) -> bool:
        """Whether two storages that share addresses leave each other intact."""
        if self.lives.apart(one, other) or self.origins.equal(one, other, shift):
            return True
        return self._overwrites(one, other, shift) or self._overwrites(other, one, -shift)

    def _overwrites(self, old: str, new: str, shift: int) -> bool:
        """Whether one op alone sees both, and may write ``new`` in place over all they share."""
        begin = max(0, shift)
        end = min(self.storages[old].size, shift + self.storages[new].size)
        return any(
            link.shift == shift
            and link.begin <= begin
            and end <= link.end
            and self.lives.hands_over(old, new, link.op)
            for link in self.overwrites.get((old, new), ())
        )


def cluster_alignment(storages: Iterable[Storage]) -> int:
    """What the lowest address of a cluster must be a multiple of, bytes."""
    return math.lcm(*(storage.alignment for storage in storages))
