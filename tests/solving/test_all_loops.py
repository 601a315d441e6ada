"""All groups of compiled loops, and what warms them up."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import cpplan
from cpplan.model.errors import InputError
from cpplan.solving.all_loops import GROUPS

ROOT = Path(cpplan.__file__).parent


def test_every_kernel_is_in_one_group():
    """Before a group is compiled, what is stored of its modules is deleted."""
    kernels = sorted(
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        for path in ROOT.rglob("*_kernel.py")
    )
    assert sorted(name for group in GROUPS.values() for name in group.kernels) == kernels != []


def test_every_first_use_is_a_function():
    for group in GROUPS.values():
        module, _, function = group.first_use.partition(":")
        assert callable(getattr(import_module(module), function))


def test_an_unknown_group_is_named():
    with pytest.raises(InputError, match="'cooking' is not understood: expected one of niche"):
        cpplan.warm_up("cooking")
