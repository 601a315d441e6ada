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
        Storage -> its address less that of its cluster, bytes. A cluster's address is a multiple of
        all alignments in it, and the lowest storage lies as near above it as it can.
    links
        Those in force.
    """

    members: dict[int, list[str]] = field(default_factory=dict)
    number: dict[str, int] = field(default_factory=dict)
    place: dict[str, int] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)


class SharingRules:
    """When two storages may share bytes; see above.

    Parameters
    ----------
    storages
        Their sizes.
    lives
        When they live.
    origins
        Where their bytes come from.
    links
        All that there are.
    """

    def __init__(
        self,
        storages: Mapping[str, Storage],
        lives: Lives,
        origins: Origins,
        links: Iterable[Link],
    ):
        self.storages, self.lives, self.origins = storages, lives, origins
        self._in_place: dict[tuple[str, str], list[Link]] = defaultdict(list)
        for link in links:
            if link.in_place:
                self._in_place[link.outer, link.inner].append(link)

    def may_meet(self, one: str, other: str, shift: int) -> bool:
        """Whether both stay intact if ``other`` lies ``shift`` bytes above ``one``."""
        if self.lives.apart(one, other) or not self._share_addresses(one, other, shift):
            return True
        if self.origins.equal(one, other, shift):
            return True
        return self._overwrites(one, other, shift) or self._overwrites(other, one, -shift)

    def _share_addresses(self, one: str, other: str, shift: int) -> bool:
        return shift < self.storages[one].size and -shift < self.storages[other].size

    def _overwrites(self, old: str, new: str, shift: int) -> bool:
        """Whether one op alone sees both, and may write ``new`` in place over all they share."""
        begin = max(0, shift)
        end = min(self.storages[old].size, shift + self.storages[new].size)
        return any(
            link.shift == shift
            and link.begin <= begin
            and end <= link.end
            and self.lives.hands_over(old, new, link.op)
            for link in self._in_place.get((old, new), ())
        )


def form_clusters(
    links: Sequence[Link], rules: SharingRules, skip: Collection[Link] = ()
) -> Clusters:
    """Take every link that can be taken, in the order given, ``skip`` aside.

    O(links × storages of the clusters that they join).
    """
    forming = _Forming(links, rules)
    taken = {link for link in links if link not in skip and forming.take(link)}
    # A link that others have made true is in force as well.
    forming.clusters.links = [link for link in links if link in taken or forming.holds(link)]
    return forming.clusters


def place_clusters(
    links: Sequence[Link], rules: SharingRules, address: Mapping[str, int]
) -> Clusters:
    """The clusters of a layout: what shares bytes there by a link, at the distances it has.

    ``address`` has every storage's offset, bytes; what it places together may lie so.
    """
    forming = _Forming(links, rules)
    clusters = forming.clusters
    for link in links:
        if address[link.inner] - address[link.outer] == link.shift:
            forming.join(link)
    clusters.links = [link for link in links if forming.holds(link)]
    return clusters


class _Forming:
    def __init__(self, links: Iterable[Link], rules: SharingRules):
        self.rules, self.storages, self.lives = rules, rules.storages, rules.lives
        self.clusters = Clusters()
        for link in links:
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
        number = self.clusters.number
        if number[link.outer] == number[link.inner]:
            return self.holds(link)
        if link.in_place and not self.lives.hands_over(link.outer, link.inner, link.op):
            return False
        if not self._fit_together(link):
            return False
        self.join(link)
        return True

    def join(self, link: Link) -> None:
        """Make one cluster of the two storages' clusters, at the distance that the link asks."""
        clusters = self.clusters
        one, other = clusters.number[link.outer], clusters.number[link.inner]
        if one == other:
            return
        moved = self._moved(link)
        ours, theirs = clusters.members[one], clusters.members[other]
        if len(ours) < len(theirs):
            one, other, ours, theirs, moved = other, one, theirs, ours, -moved
        for root in theirs:
            clusters.place[root] += moved
            clusters.number[root] = one
        ours += theirs
        del clusters.members[other]
        lead = self._lead((root, clusters.place[root]) for root in ours)
        assert lead is not None  # they were found to fit together
        if lead:
            for root in ours:
                clusters.place[root] += lead

    def _moved(self, link: Link) -> int:
        """How far the inner one's cluster moves, so that both count from one address."""
        place = self.clusters.place
        return place[link.outer] + link.shift - place[link.inner]

    def _fit_together(self, link: Link) -> bool:
        clusters, place, moved = self.clusters, self.clusters.place, self._moved(link)
        ours = clusters.members[clusters.number[link.outer]]
        theirs = clusters.members[clusters.number[link.inner]]
        stay = [(root, place[root]) for root in ours]
        move = [(root, place[root] + moved) for root in theirs]
        if self._lead((*stay, *move)) is None:
            return False
        if not self._have_a_pool([*ours, *theirs]):
            return False
        return all(
            self.rules.may_meet(one, other, there - here)
            for one, here in stay
            for other, there in move
        )

    def _lead(self, placed: Iterable[tuple[str, int]]) -> int | None:
        """What to add to places so that they suit all alignments, the lowest as low as it can be.

        ``None`` if nothing does. One congruence an alignment, solved one after another.
        """
        lowest, lead, period = None, 0, 1
        for root, at in placed:
            lowest = at if lowest is None else min(lowest, at)
            alignment = self.storages[root].alignment
            common = math.gcd(period, alignment)
            wanted = -(at + lead) % alignment
            if wanted % common:
                return None
            turns = wanted // common * pow(period // common, -1, alignment // common)
            lead += period * turns
            period = math.lcm(period, alignment)
        return (lead + (lowest or 0)) % period - (lowest or 0)

    def _have_a_pool(self, roots: Iterable[str]) -> bool:
        allowed = [pools for root in roots if (pools := self.storages[root].pools) is not None]
        return not allowed or bool(frozenset.intersection(*allowed))
