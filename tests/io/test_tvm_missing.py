"""Without TVM, one line names the extra."""

from __future__ import annotations

import pytest

import cpplan.tvm
from cpplan.model.errors import MissingExtraError


def test_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(cpplan.tvm, "find_spec", lambda name: None)
    for use in (cpplan.tvm.pipeline, cpplan.tvm.PlanMemory, cpplan.tvm.last_plans):
        with pytest.raises(MissingExtraError, match=r"pip install '\.\[tvm\]'"):
            use()
