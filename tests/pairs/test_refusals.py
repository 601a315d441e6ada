"""Combinations that are refused: by one line that names all of them, as the documentation says."""

from __future__ import annotations

import pytest
from support.sources import ROOT

from cpplan.io.refused_exports import EXPORT_RULES
from cpplan.model.refusals import Refusal
from cpplan.solving.combined_options import OPTION_RULES, SOURCE_RULES

EXPORTS = tuple(rule for rules in EXPORT_RULES.values() for rule in rules)
RULES = (*OPTION_RULES, *SOURCE_RULES, *EXPORTS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: " ".join(rule.options))
def test_a_refusal_is_one_line_that_names_what_cannot_be_combined(rule: Refusal) -> None:
    assert len(rule.options) >= 2
    assert all(option in rule.message for option in rule.options)
    assert "\n" not in rule.message
    assert ("{!r}" in rule.message) == (rule.name is not None)


def test_the_documentation_lists_the_refusals() -> None:
    text = (ROOT / "docs" / "limits.md").read_text()
    _, _, listed = text.partition("```text\n")
    messages = dict.fromkeys(rule.message.replace("{!r}", "…") for rule in RULES)
    assert listed == "".join(f"{message}\n" for message in messages) + "```\n"
