"""Places between the steps of a program at which regions may begin and end.

Where few bytes are live between steps that need more, a region keeps little at its ends. *Valleys*
have fewer live bytes than the places around them, *shoulders* fewer than the steps around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from cpplan.splitting.problem import SplitProblem

# Most valleys, and most shoulders: those with the fewest live bytes.
MOST_ENDS = 48
# Regions may end before an op that leaves less than this share of the live bytes.
_STEEPEST = 0.2


def find_valleys(problem: SplitProblem, most: int = MOST_ENDS) -> list[int]:
    """Places at which regions may begin and end, ascending; ``most`` of the first two kinds.

    A place is chosen if one of these holds:

    * fewer bytes are live there than on both sides of it;
    * the next op leaves less than a fifth of the live bytes;
    * an op beside it cannot be cut, or moves its input to other positions;
    * an op beside it is the first or the last that writes a storage in turn.
    """
    live = problem.boundary
    steps = len(live) - 1
    if steps < most:
        return list(range(steps + 1))
    # Place -> its number in its valley: the first place, the last one, then all others.
    found: dict[int, int] = {}
    valleys: list[tuple[int, int]] = []
    begin = 0
    while begin <= steps:
        end = begin
        while end < steps and live[end + 1] == live[begin]:
            end += 1
        left = live[begin - 1] if begin else live[begin] + 1
        right = live[end + 1] if end < steps else live[begin] + 1
        # Before an op with a large input and a small output, the pieces may change their axis.
        if (live[begin] < left and live[begin] < right) or right < live[begin] * _STEEPEST:
            places = dict.fromkeys((begin, end, *range(begin, end + 1)))
            found |= {k: number for number, k in enumerate(places)}
            valleys.append((begin, end))
        begin = end + 1
    for k, can in enumerate(problem.may_be_cut):
        if not can and problem.writes_new_storage(k):
            found |= {k: 0, k + 1: 0}
    # A region that contains one of these ops besides others has no pieces.
    walls = {end for k in problem.permuting for end in (k, k + 1)}
    for writers in problem.written_in_turn:
        walls.update((writers[0], writers[-1] + 1))
    before = list(accumulate(live, max))
    after = list(accumulate(reversed(live), max))[::-1]
    beside = _hills_beside(live, valleys)
    # The first places of all valleys come first, those beside the highest hills ahead; of equally
    # high ones, the deepest.
    chosen = sorted(
        found,
        key=lambda k: (found[k], -beside.get(k, 0), live[k] - min(before[k], after[k]), k),
    )
    return sorted({0, steps, *chosen[:most], *walls})


def _hills_beside(live: Sequence[int], valleys: Sequence[tuple[int, int]]) -> dict[int, int]:
    """First and last place of each valley -> the most live bytes up to the next valleys."""
    begins, ends = [begin for begin, _ in valleys], [end for _, end in valleys]
    between = zip([0, *ends], [*begins, len(live) - 1], strict=True)
    hills = [max(live[low : high + 1]) for low, high in between]
    return {k: max(hills[n : n + 2]) for n, places in enumerate(valleys) for k in places}


def find_shoulders(problem: SplitProblem, whole: Sequence[int]) -> list[int]:
    """Places with fewer live bytes than ``whole`` tells of the steps around, the lowest first.

    Steps that need no more are passed over. An op that reads and writes much has them on both
    sides, where a valley may be far.
    """
    live, steps = problem.boundary, len(whole)
    found: set[int] = set()
    for k in range(1, steps):
        if whole[k - 1] > live[k]:
            end = k
            while end < steps and whole[end] == live[end] == live[end + 1]:
                end += 1
            if end < steps and whole[end] > live[end]:
                found |= {k, end}
    before = list(accumulate(whole, max, initial=0))
    after = list(accumulate(reversed(whole), max, initial=0))[::-1]
    return sorted(found, key=lambda k: (live[k] - min(before[k], after[k]), k))[:MOST_ENDS]
