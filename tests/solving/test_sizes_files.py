"""Files of plans for several sizes: complete, and refused if they contradict themselves."""

from __future__ import annotations

import pytest
from support.sized_graphs import ELEVEN, ONE, growing, plan

from cpplan.io.sizes_json import format_sizes_json, sizes_from_dict, sizes_to_dict
from cpplan.model.errors import InputError
from cpplan.solving.sizes.sizes_plan import SizesPlan


def test_json_says_it_all(tmp_path):
    found = plan(growing(), [ONE, ELEVEN], prefix_stable=True, capacities=[None, "2 KiB"])
    path = tmp_path / "sizes.json"
    found.save(path)
    again = SizesPlan.load(path)
    assert again == found
    assert again.runtime is None
    assert again.plan.at(n=5).peak == 520
    assert format_sizes_json(again) == format_sizes_json(
        plan(growing(), [ONE, ELEVEN], prefix_stable=True, capacities=[None, "2 KiB"])
    )
    found.save(path, clock=True)
    assert SizesPlan.load(path).runtime == found.runtime
    empty = plan(growing(), [ONE], capacities=[5])
    assert sizes_from_dict(sizes_to_dict(empty)) == empty


def changed(values, *path, to):
    for key in path[:-1]:
        values = values[key]
    values[path[-1]] = to


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        (("format",), "cpplan.plan", "not a plan for several sizes"),
        (("version",), True, "version True"),
        (("status",), "best", "status 'best'"),
        (("sizes",), {}, "sizes must be a list"),
        (("sizes",), [], "expected those that the plan is for"),
        (("sizes", 0), 7, "size 0: expected an object"),
        (("sizes", 0, "arena"), 119, "arena is 119 B, but the plan needs 120 B"),
        (("sizes", 0, "arena"), None, "arena is None, which contradicts the plan"),
        (("sizes", 0, "alone"), -1, "alone must be a count"),
        (("sizes", 0, "price"), 1.0, "price is 1.0"),
        (("sizes", 0, "values"), {"n": 2}, "arena is 120 B, but the plan needs 220 B"),
        (("levels", 0, "value"), 1.5, "level 0: value"),
        (("levels", 0, "name"), 1, "level 0: name"),
        (("runtime",), "long", "runtime"),
        (("plan", "symbols", "sizes"), [{"n": 12}], "above its bound 11"),
        (("plan", "symbols", "sizes"), 1, "sizes must be a list"),
    ],
)
def test_files_that_contradict_themselves_are_refused(path, to, message):
    values = sizes_to_dict(plan(growing(), [ONE, ELEVEN], prefix_stable=True))
    changed(values, *path, to=to)
    with pytest.raises(InputError, match=message):
        sizes_from_dict(values)


@pytest.mark.parametrize("key", ["status", "levels", "sizes", "plan"])
def test_files_that_lack_something_are_refused(key):
    values = sizes_to_dict(plan(growing(), [ONE]))
    del values[key]
    with pytest.raises(InputError, match=f"{key} is missing"):
        sizes_from_dict(values)
