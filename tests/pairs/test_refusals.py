"""Combinations that are refused: by one line that names all of them, as the documentation says."""

from __future__ import annotations

import pytest
from support.pairs.covering import complete
from support.pairs.options import OPTIONS, Cell, example_of, fields_of, refusals, refused_by
from support.sources import ROOT

from cpplan import Problem, solve
from cpplan.io.refused_exports import EXPORT_RULES, check_exports
from cpplan.model.errors import InputError
from cpplan.model.refusals import Refusal
from cpplan.solving.combined_options import OPTION_RULES, SOURCE_RULES
from cpplan.solving.request import Request

EXPORTS = tuple(rule for rules in EXPORT_RULES.values() for rule in rules)
# Rules for objectives that are no peak in one pool: cpplan has none, users may register some.
OWN_OBJECTIVES = {"objective capacity", "objective memory_limit"}
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


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: " ".join(rule.options))
def test_a_combination_is_refused_by_its_rule_before_planning(rule: Refusal) -> None:
    others = [c for other, cells in refusals().items() if other is not rule for c in cells]
    completed = (complete(OPTIONS, part, others) for part in refusals()[rule])
    cell = next((cell for cell in completed if cell is not None), None)
    if cell is None:
        assert " ".join(rule.options) in OWN_OBJECTIVES
        return
    assert refused_by(cell) is rule
    start, _, _ = rule.message.partition("{!r}")
    with pytest.raises(InputError) as caught:
        plan(cell)
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)


def plan(cell: Cell) -> None:
    """Plan the smallest model of the cell's kind, as ``cpplan plan`` does."""
    source, fields = example_of(cell["source"], cell["sizes"]), fields_of(cell)
    graph = source if isinstance(source, Problem) else source.graph
    if cell["use"] in EXPORT_RULES:
        check_exports([cell["use"]], Request(**fields), graph)
    solve(source, **fields)
