"""Searches in turns end, whatever their turns do."""

from __future__ import annotations

import pytest

from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.turns import Turn, Turns


@pytest.mark.parametrize("following", [Turn.AGAIN, Turn.LONGER])
def test_turns_without_work_end_in_counted_time(following):
    turns = Turns(longest=16)
    with pytest.raises(TimeUpError):
        turns.run(lambda effort: following, lambda: False, Deadline(0.1, deterministic=True))


def test_effort_grows_after_turns_that_ask_for_it_up_to_the_longest():
    efforts = []

    def turn(effort):
        efforts.append(effort)
        return Turn.LONGER if len(efforts) < 5 else Turn.LAST

    Turns(longest=20).run(turn, lambda: False, Deadline(60))
    assert efforts == [1, 4, 16, 20, 20]
