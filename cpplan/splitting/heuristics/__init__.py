"""Published rules of splitting that a user can name; importing this registers the built-in ones.

To add one, see :func:`register` and :mod:`cpplan.splitting.heuristics.registered`.
"""

from __future__ import annotations

from cpplan.splitting.heuristics import cascades, channels, patches
from cpplan.splitting.heuristics.registered import Rule, get, names, register, unregister

__all__ = ["Rule", "cascades", "channels", "get", "names", "patches", "register", "unregister"]
