"""Published rules of splitting that a user can name; importing this registers the built-in ones.

To add one, see :func:`register` and :mod:`cpplan.splitting.heuristics.registered`.
"""

from __future__ import annotations

from cpplan.splitting.heuristics import published
from cpplan.splitting.heuristics.registered import Rule, get, names, register, unregister

__all__ = ["Rule", "get", "names", "published", "register", "unregister"]
