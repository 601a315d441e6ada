"""Order around ops that write over a storage: what read the old values runs before, what reads the
new ones after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


class Hazards:
    """Which ops touch storages that are written over.

    Parameters
    ----------
    root_of
        The tensor in whose storage a tensor lies, by name.
    """

    def __init__(self, root_of: Callable[[str], str]):
        self._root_of = root_of
        self._writers: dict[str, set[str]] = {}
        self._last: dict[str, str] = {}
        self._readers: dict[str, list[str]] = {}

    def note(self, op: str, written: Iterable[int], storages: Mapping[int, str]) -> None:
        """An op writes over some storages; those of its arguments have names."""
        for storage in sorted(written):
            if storage in storages:
                self._writers.setdefault(op, set()).add(self._root_of(storages[storage]))

    def touched(self, *names: Iterable[str]) -> bool:
        """Whether any op writes over one of these tensors."""
        over = {root for roots in self._writers.values() for root in roots}
        return any(self._root_of(name) in over for group in names for name in group)

    def before(self, op: str, touches: Iterable[str]) -> list[str]:
        """The ops that this one must wait for; to be asked for in the order of the ops."""
        over = {root for roots in self._writers.values() for root in roots}
        found: list[str] = []
        for root in dict.fromkeys(self._root_of(name) for name in touches):
            if root not in over:
                continue
            found += [self._last[root]] if root in self._last else []
            if root in self._writers.get(op, ()):
                found += self._readers.pop(root, [])
                self._last[root] = op
            else:
                self._readers.setdefault(root, []).append(op)
        return [name for name in dict.fromkeys(found) if name != op]
