"""Alias sets: storages at fixed distances from one another that may share bytes.

Candidates are taken one after another; a candidate is kept if no value that is still needed is then
overwritten. Two storages of an alias set may occupy a byte at the same step only if

* both hold the same value there: it has one origin, and the ops between only copied it, or
* both are live together only at the step of one op, which writes the one over the other in place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.aliasing.lives import Lives
from cpplan.aliasing.value_numbers import Origins

# Size of an alias set, in storages, above which an index finds its members that are live with
# a given storage.
_FEW_MEMBERS = 64


@dataclass(frozen=True, slots=True)
class Storage:
    """Size and alignment of a storage, bytes."""

    size: int
    alignment: int = 1
    pools: frozenset[int] | None = None


@dataclass(slots=True)
class AliasSets:
    """A partition of the storages that candidates name into alias sets.

    Attributes
    ----------
    members
        Number of an alias set -> its storages.
    number
        Storage -> the number of its alias set.
    place
        Storage -> its address less the address of its alias set, bytes. An alias set's address is a
        multiple of all its members' alignments; the lowest member lies as near above it as its
        alignment allows.
    candidates
        The candidates in force.
    """

    members: dict[int, list[str]] = field(default_factory=dict)
    number: dict[str, int] = field(default_factory=dict)
    place: dict[str, int] = field(default_factory=dict)
    candidates: list[AliasCandidate] = field(default_factory=list)


class SharingRules:
    """The rules above, by which two storages may share bytes.

    Parameters
    ----------
    storages
        Sizes and alignments of the storages.
    lives
        The lifespans of the storages.
    origins
        The origins of the storages' bytes.
    candidates
        All candidates between these storages.
    """

    def __init__(
        self,
        storages: Mapping[str, Storage],
        lives: Lives,
        origins: Origins,
        candidates: Iterable[AliasCandidate],
    ):
        self.storages, self.lives, self.origins = storages, lives, origins
        self._in_place: dict[tuple[str, str], list[AliasCandidate]] = defaultdict(list)
        self._copies: dict[tuple[str, str], list[AliasCandidate]] = defaultdict(list)
        for candidate in candidates:
            (self._in_place if candidate.in_place else self._copies)[
                candidate.outer, candidate.inner
            ].append(candidate)

    @cached_property
    def together(self) -> Callable[[str], Sequence[str]]:
        """Function from a storage to the other storages that may be live with it."""
        return self.lives.together(list(self.origins.of))

    def may_meet(self, one: str, other: str, shift: int) -> bool:
        """True if both keep their values if ``other`` lies ``shift`` bytes above ``one``."""
        return self.lives.apart(one, other) or self.survive(one, other, shift)

    def survive(self, one: str, other: str, shift: int) -> bool:
        """The answer of :meth:`may_meet` for two storages that may be live together."""
        if not self._share_addresses(one, other, shift):
            return True
        for outer, inner, distance in ((one, other, shift), (other, one, -shift)):
            if any(
                candidate.overlaps_itself(distance)
                for candidate in self._copies.get((outer, inner), ())
            ):
                return False
        if self.origins.equal(one, other, shift):
            return True
        return self._overwrites(one, other, shift) or self._overwrites(other, one, -shift)

    def _share_addresses(self, one: str, other: str, shift: int) -> bool:
        return shift < self.storages[one].size and -shift < self.storages[other].size

    def _overwrites(self, old: str, new: str, shift: int) -> bool:
        """True if both live together at one op only, which may write ``new`` over ``old``."""
        begin = max(0, shift)
        end = min(self.storages[old].size, shift + self.storages[new].size)
        return any(
            candidate.shift == shift
            and candidate.begin <= begin
            and end <= candidate.end
            and self.lives.hands_over(old, new, candidate.op)
            for candidate in self._in_place.get((old, new), ())
        )


def form_alias_sets(
    candidates: Sequence[AliasCandidate],
    rules: SharingRules,
    skip: Collection[AliasCandidate] = (),
    *,
    poll: Callable[[], object] = lambda: None,
) -> AliasSets:
    """Form alias sets: take every allowed candidate in the order given, except those in ``skip``.

    ``poll`` is called for every candidate, and may raise. O(candidates + pairs of storages of one
    alias set that may be live together).
    """
    forming = _Forming(candidates, rules)
    taken = set()
    for candidate in candidates:
        if candidate not in skip:
            poll()
            if forming.take(candidate):
                taken.add(candidate)
    # A candidate is also in force if other candidates put its storages at its distance.
    return forming.alias_sets(
        candidate for candidate in candidates if candidate in taken or forming.holds(candidate)
    )


def place_alias_sets(
    candidates: Sequence[AliasCandidate], rules: SharingRules, address: Mapping[str, int]
) -> AliasSets:
    """The alias sets of a layout: storages that lie at the distance of a candidate between them.

    ``address`` has every storage's offset, bytes; the layout must be valid.
    """
    forming = _Forming(candidates, rules)
    for candidate in candidates:
        if address[candidate.inner] - address[candidate.outer] == candidate.shift:
            forming.join(candidate)
    return forming.alias_sets(filter(forming.holds, candidates))


@dataclass(slots=True)
class _Group:
    """An alias set being formed; places count from a *base* = ``residue`` modulo ``period``."""

    members: list[str]
    lowest: int
    residue: int
    period: int
    pools: frozenset[int] | None

    def base(self, other: _Group, moved: int) -> tuple[int, int] | None:
        """Residue and period of the common base if ``other``'s places move by ``moved`` bytes.

        The solution of two congruences; ``None`` if there is none.
        """
        common = math.gcd(self.period, other.period)
        difference = other.residue - moved - self.residue
        if difference % common:
            return None
        period = other.period // common
        turns = difference // common * pow(self.period // common, -1, period) % period
        return self.residue + self.period * turns, self.period * period

    def common_pools(self, other: _Group) -> frozenset[int] | None:
        """Pools that both may go to; ``None`` if neither is restricted."""
        known = [pools for pools in (self.pools, other.pools) if pools is not None]
        return frozenset.intersection(*known) if known else None


class _Forming:
    def __init__(self, candidates: Iterable[AliasCandidate], rules: SharingRules):
        self.rules, self.lives = rules, rules.lives
        self.group: dict[str, _Group] = {}
        self.place: dict[str, int] = {}
        for root in dict.fromkeys(
            root for candidate in candidates for root in (candidate.outer, candidate.inner)
        ):
            storage = rules.storages[root]
            self.group[root] = _Group([root], 0, 0, storage.alignment, storage.pools)
            self.place[root] = 0

    def alias_sets(self, candidates: Iterable[AliasCandidate]) -> AliasSets:
        """The alias sets formed, with the candidates in force."""
        found = AliasSets(candidates=list(candidates))
        for number, group in enumerate({id(g): g for g in self.group.values()}.values()):
            found.members[number] = group.members
            lead = (group.lowest + group.residue) % group.period - group.lowest
            for root in group.members:
                found.number[root] = number
                found.place[root] = self.place[root] + lead
        return found

    def holds(self, candidate: AliasCandidate) -> bool:
        """True if the two storages lie at the candidate's distance and may share bytes by it."""
        distance = self.place[candidate.inner] - self.place[candidate.outer]
        if (
            self.group[candidate.inner] is not self.group[candidate.outer]
            or distance != candidate.shift
        ):
            return False
        return not candidate.in_place or self.lives.hands_over(
            candidate.outer, candidate.inner, candidate.op
        )

    def take(self, candidate: AliasCandidate) -> bool:
        """Join the two storages' alias sets if the rules allow it; returns True if they do."""
        if self.group[candidate.outer] is self.group[candidate.inner]:
            return self.holds(candidate)
        if candidate.in_place and not self.lives.hands_over(
            candidate.outer, candidate.inner, candidate.op
        ):
            return False
        if not self._fit_together(candidate):
            return False
        self.join(candidate)
        return True

    def join(self, candidate: AliasCandidate) -> None:
        """Join the alias sets of the two storages, at the distance that the candidate asks for."""
        ours, theirs, moved = (
            self.group[candidate.outer],
            self.group[candidate.inner],
            self._moved(candidate),
        )
        if ours is theirs:
            return
        if len(ours.members) < len(theirs.members):
            ours, theirs, moved = theirs, ours, -moved
        base = ours.base(theirs, moved)
        assert base is not None  # `_fit_together` found a common base
        ours.residue, ours.period = base
        ours.lowest = min(ours.lowest, theirs.lowest + moved)
        ours.pools = ours.common_pools(theirs)
        ours.members += theirs.members
        for root in theirs.members:
            self.place[root] += moved
            self.group[root] = ours

    def _moved(self, candidate: AliasCandidate) -> int:
        """Bytes by which the inner storage's alias set moves so that both count from one base."""
        return self.place[candidate.outer] + candidate.shift - self.place[candidate.inner]

    def _fit_together(self, candidate: AliasCandidate) -> bool:
        ours, theirs, moved = (
            self.group[candidate.outer],
            self.group[candidate.inner],
            self._moved(candidate),
        )
        pools = ours.common_pools(theirs)
        if ours.base(theirs, moved) is None or (pools is not None and not pools):
            return False
        if len(ours.members) < len(theirs.members):
            ours, theirs, moved = theirs, ours, -moved
        return all(
            self.rules.survive(other, one, self.place[one] + moved - self.place[other])
            for one in theirs.members
            for other in self._live_with(one, ours)
        )

    def _live_with(self, one: str, group: _Group) -> Iterator[str]:
        """Members of a group that may be live with a storage."""
        if len(group.members) <= _FEW_MEMBERS:
            return (other for other in group.members if not self.lives.apart(one, other))
        return (other for other in self.rules.together(one) if self.group[other] is group)
