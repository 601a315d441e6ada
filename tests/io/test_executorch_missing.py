"""Without the package, each function names the extra that brings it."""

from __future__ import annotations

import pytest

from cpplan.io import executorch
from cpplan.model.errors import MissingExtraError


@pytest.mark.parametrize("call", ["algorithm", "planning_pass", "read_program", "verify_program"])
def test_the_extra_is_named(monkeypatch, call):
    monkeypatch.setattr(executorch, "find_spec", lambda name: None)
    arguments = [None] if call.endswith("_program") else []
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[executorch\]'"):
        getattr(executorch, call)(*arguments)
