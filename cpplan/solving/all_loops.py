"""All groups of compiled loops by name, and ``warm_up``, which compiles them ahead of time."""

from __future__ import annotations

from collections.abc import Callable

from cpplan.model.names import not_understood
from cpplan.ordering import loops as ordering
from cpplan.packing import loops as packing
from cpplan.remat import loops as remat
from cpplan.runtime.compiled import compile_groups
from cpplan.spilling import loops as spilling
from cpplan.splitting import loops as splitting
from cpplan.verification import loops as verification

GROUPS = {
    group.name: group
    for room in (packing, ordering, remat, splitting, spilling, verification)
    for group in room.LOOPS
}


def warm_up(*groups: str, tell: Callable[[str], None] = lambda text: None) -> dict[str, float]:
    """Compile the loops of the searches ahead of time, for later runs of any process.

    Parameters
    ----------
    groups
        Names of groups, such as ``"niche"``; all groups if none is named.
    tell
        Called with the name of each group before it is compiled.

    Returns
    -------
    dict
        Seconds that each group took; almost none if it was already compiled.

    Raises
    ------
    InputError
        If a group is unknown; the message lists the known ones.

    Examples
    --------
    >>> seconds = warm_up("sizes")
    >>> list(seconds), warm_up("sizes")["sizes"] < 60
    (['sizes'], True)
    """
    for name in groups:
        if name not in GROUPS:
            raise not_understood(repr(name), name, GROUPS)
    return compile_groups([GROUPS[name] for name in groups or GROUPS], tell)
