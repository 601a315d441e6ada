"""Order around ops that overwrite a storage.

Readers of the old values run before the op that overwrites them, readers of the new ones after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Hazards:
    """The ops that access overwritten storages, and the order between them.

    Parameters
    ----------
    root_of
        Function from a tensor to the tensor in whose storage it lies, by name.
    """

    def __init__(self, root_of: Callable[[str], str]):
        self._root_of = root_of
        self._written: set[str] = set()
        self._writes: dict[str, set[str]] = {}
        self._last: dict[str, str] = {}
        self._readers: dict[str, list[str]] = {}

    def note(self, op: str, written: Iterable[str]) -> None:
        """Record that an op overwrites some tensors."""
        roots = {self._root_of(name) for name in written}
        self._writes[op] = roots
        self._written |= roots

    def accessed(self, names: Iterable[str]) -> bool:
        """True if any op overwrites one of these tensors."""
        return any(self._root_of(name) in self._written for name in names)

    def before(self, op: str, names: Iterable[str]) -> list[str]:
        """Ops that must run before an op that accesses these tensors.

        Call it once for each op, in the order of the ops.
        """
        found: list[str] = []
        for root in dict.fromkeys(map(self._root_of, names)):
            if root not in self._written:
                continue
            found += [self._last[root]] if root in self._last else []
            if root in self._writes[op]:
                found += self._readers.pop(root, [])
                self._last[root] = op
            else:
                self._readers.setdefault(root, []).append(op)
        return list(dict.fromkeys(found))
