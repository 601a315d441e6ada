"""Eviction rules that a user can name; importing this registers the built-in ones.

To add one, see :func:`register` and :mod:`cpplan.spilling.heuristics.registered`.
"""

from __future__ import annotations

from cpplan.spilling.heuristics import eviction, whole_tensors
from cpplan.spilling.heuristics.registered import Eviction, get, names, register, unregister

__all__ = ["Eviction", "eviction", "get", "names", "register", "unregister", "whole_tensors"]
