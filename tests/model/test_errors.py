"""Errors say whether a plan was excluded, or only not found."""

from __future__ import annotations

import pytest

from cpplan.model.errors import InfeasibleError, NotFoundError, error_without_plan


@pytest.mark.parametrize(
    ("status", "kind"), [("infeasible", InfeasibleError), ("unknown", NotFoundError)]
)
def test_only_what_is_proved_is_called_infeasible(status, kind):
    error = error_without_plan(status, "model.onnx: no plan")
    assert type(error) is kind
    assert str(error) == "model.onnx: no plan"
    assert error.exit_code == 3
