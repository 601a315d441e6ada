"""Plans of fixed instances, settings and seeds, byte for byte: a move of code changes none."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import record as golden

PLANS = golden.tomllib.loads((golden.HERE / "plans.toml").read_text())
CASES = [(model, setting, options) for model, setting, options in golden.cases()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "setting", "options"),
    CASES,
    ids=[f"{model}, {setting}" for model, setting, _ in CASES],
)
def test_plan_is_unchanged(model, setting, options):
    expected = PLANS[f"{model}, {setting}"]
    record = golden.record(model, options)
    found = {key: value for key, value in record.items() if value is not None}
    assert found == expected
