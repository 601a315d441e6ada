"""Compiled loops that change a choice of gaps: they keep one more gap and drop cheaper ones."""

# Arrays are described in ``gap_arrays``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import math

from cpplan.runtime.loop_compiler import compiled_loop
from cpplan.spilling.search.address_kernel import paid_of

# Part of the number of tries of each gap that is left after a change.
_FORGOTTEN = 0.9


@compiled_loop
def is_free(flat, gap):
    """True if the search may drop and keep a gap."""
    return flat.fixed[gap] < 0 and not flat.stay[flat.gap_storage[gap]]


@compiled_loop
def is_near(flat, drop, access):
    """True if an access happens in the fast pool."""
    if flat.near[access]:
        return True
    before, after = flat.before[access], flat.after[access]
    return (before >= 0 and not drop[before]) or (after >= 0 and not drop[after])


@compiled_loop
def _room_price(flat, state, gap):
    """Price of the room that a gap takes while it is kept."""
    room = flat.room[flat.gap_storage[gap]] * (flat.gap_upper[gap] - flat.gap_lower[gap])
    return int(state.price[0] * float(room))


@compiled_loop
def _flip(flat, state, gap):
    """Keep a dropped gap or drop a kept one; update the load and the cost."""
    storage = flat.gap_storage[gap]
    room = flat.room[storage]
    if not state.drop[gap]:
        room = -room
    state.drop[gap] = not state.drop[gap]
    before, after = flat.gap_before[gap], flat.gap_after[gap]
    if before >= 0 and not flat.near[before]:
        other = flat.before[before]
        if other < 0 or state.drop[other]:
            state.load[flat.access_step[before]] += room
    if after >= 0 and not flat.near[after]:
        other = flat.after[after]
        if other < 0 or state.drop[other]:
            state.load[flat.access_step[after]] += room
    for step in range(flat.gap_lower[gap], flat.gap_upper[gap]):
        state.load[step] += room
    paid = paid_of(flat, storage, state.drop)
    price = _room_price(flat, state, gap)
    state.cost[0] += paid - state.paid[storage] + (-price if state.drop[gap] else price)
    state.paid[storage] = paid


@compiled_loop
def change(flat, state, gap):
    """Flip a gap, and remember that."""
    _flip(flat, state, gap)
    state.changed[state.filled[0]] = gap
    state.filled[0] += 1
    state.fresh[gap] = not state.fresh[gap]


@compiled_loop
def undo(flat, state, count):
    """Take back all changes after the first ``count``."""
    while state.filled[0] > count:
        state.filled[0] -= 1
        gap = state.changed[state.filled[0]]
        _flip(flat, state, gap)
        state.fresh[gap] = not state.fresh[gap]


@compiled_loop
def _difference(flat, state, gap):
    """Cost added by flipping a gap."""
    storage = flat.gap_storage[gap]
    state.drop[gap] = not state.drop[gap]
    paid = paid_of(flat, storage, state.drop)
    state.drop[gap] = not state.drop[gap]
    price = _room_price(flat, state, gap)
    return paid - state.paid[storage] + (price if state.drop[gap] else -price)


@compiled_loop
def retention_of(flat, state, gap):
    """Steps of the retention that a gap lies in once it is kept."""
    storage = flat.gap_storage[gap]
    first = gap
    while first > flat.first_gap[storage] and not state.drop[first - 1]:
        first -= 1
    last = gap
    while last + 1 < flat.first_gap[storage + 1] and not state.drop[last + 1]:
        last += 1
    low = flat.gap_lower[first] - (flat.gap_before[first] >= 0)
    high = flat.gap_upper[last] + (flat.gap_after[last] >= 0)
    return low, high


@compiled_loop
def _drawn(flat, state, power, rng):
    """Random dropped gap, likelier if it is dear, short and was seldom tried; -1 if none is."""
    total = 0.0
    for gap in range(len(state.drop)):
        state.weight[gap] = 0.0
        if state.drop[gap] and is_free(flat, gap):
            saved = -float(_difference(flat, state, gap))
            length = float(flat.gap_upper[gap] - flat.gap_lower[gap])
            chance = max(saved, 1e-3) / (1.0 + length) ** power / (1.0 + state.tries[gap])
            state.weight[gap] = chance
            total += chance
    left = rng.random() * total
    found = -1
    for gap in range(len(state.drop)):
        if state.weight[gap] > 0.0:
            found = gap
            left -= state.weight[gap]
            if left < 0.0:
                break
    return found


@compiled_loop
def draw_gap(flat, state, power, rng):
    """Random dropped gap; -1 if none is. The greater the power, the likelier is a short gap."""
    gap = _drawn(flat, state, power, rng)
    if gap >= 0:
        state.tries[gap] += 1.0
    return gap


@compiled_loop
def draw_steps(flat, state, gap, rng):
    """Steps in which something must change place so that a gap is kept.

    The retention that it then lies in takes the place of the part before the gap, or of the part
    after it, or any.
    """
    begin, end = retention_of(flat, state, gap)
    before, after = flat.gap_before[gap], flat.gap_after[gap]
    left, right = -1, -1
    if before >= 0 and is_near(flat, state.drop, before):
        left = state.places[before]
    if after >= 0 and is_near(flat, state.drop, after):
        right = state.places[after]
    kind = int(3.0 * rng.random())
    if left >= 0 and (kind == 1 or left == right):
        begin = flat.gap_lower[gap]
    if right >= 0 and (kind == 2 or left == right):
        end = flat.gap_upper[gap]
    return begin, max(end, begin + 1)


@compiled_loop
def fit(flat, state, kept, first, last, most, noise, rng):
    """Drop cheap gaps until the load fits at the steps ``[first, last)``; false if it does not.

    At most ``most`` gaps are dropped, and ``kept`` is none of them.
    """
    count = 0
    for gap in range(len(state.drop)):
        if state.drop[gap] or gap == kept or not is_free(flat, gap):
            continue
        if flat.gap_lower[gap] < last and flat.gap_upper[gap] > first:
            state.listed[count] = gap
            state.weight[count] = float(_difference(flat, state, gap))
            state.weight[count] *= 1.0 + noise * (2.0 * rng.random() - 1.0)
            count += 1
    for _ in range(most + 1):
        over = 0
        full = 0
        for step in range(first, last):
            state.upto[step] = full
            if state.load[step] > flat.capacity:
                over = max(over, state.load[step] - flat.capacity)
                full += 1
        state.upto[last] = full
        if full == 0:
            return True
        best, least = -1, 1e300
        for number in range(count):
            gap = state.listed[number]
            if state.drop[gap]:
                continue
            steps = state.upto[min(last, flat.gap_upper[gap])]
            steps -= state.upto[max(first, flat.gap_lower[gap])]
            if steps > 0:
                room = min(over, flat.room[flat.gap_storage[gap]])
                cost = state.weight[number] / float(room * steps)
                if cost < least:
                    best, least = gap, cost
        if best < 0:
            return False
        change(flat, state, best)
    return False


@compiled_loop
def _has_room(flat, state, gap):
    """True if the load fits with a dropped gap kept."""
    room = flat.room[flat.gap_storage[gap]]
    most = flat.capacity - room
    for access in (flat.gap_before[gap], flat.gap_after[gap]):
        fills = access >= 0 and not is_near(flat, state.drop, access)
        if fills and state.load[flat.access_step[access]] > most:
            return False
    for step in range(flat.gap_lower[gap], flat.gap_upper[gap]):
        if state.load[step] > most:
            return False
    return True


@compiled_loop
def keep_beside(flat, state, low, high):
    """Keep gaps that fit where others were just dropped, the most saved a byte first."""
    begin, end = high, low
    for number in range(1, state.filled[0]):
        gap = state.changed[number]
        begin = min(begin, flat.gap_lower[gap])
        end = max(end, flat.gap_upper[gap])
    count = 0
    for gap in range(len(state.drop)):
        if not state.drop[gap] or state.fresh[gap] or not is_free(flat, gap):
            continue
        if flat.gap_lower[gap] < end and flat.gap_upper[gap] > begin:
            low_of, high_of = retention_of(flat, state, gap)
            if low_of >= low and high_of <= high and _has_room(flat, state, gap):
                room = flat.room[flat.gap_storage[gap]]
                length = flat.gap_upper[gap] - flat.gap_lower[gap]
                state.listed[count] = gap
                state.weight[count] = -float(_difference(flat, state, gap))
                state.weight[count] /= float(max(1, room * length))
                count += 1
    for _ in range(count):
        best = 0
        for number in range(1, count):
            if state.weight[number] > state.weight[best]:
                best = number
        if state.weight[best] <= 0.0:
            break
        state.weight[best] = 0.0
        gap = state.listed[best]
        low_of, high_of = retention_of(flat, state, gap)
        if low_of >= low and high_of <= high and _has_room(flat, state, gap):
            change(flat, state, gap)


@compiled_loop
def keep_one(flat, state, gap, low, high, most_dropped, noise, most, rng):
    """Keep a gap, and drop and keep others beside it; false if that costs ``most`` or more.

    All retentions that become longer lie at the steps ``[low, high)``.
    """
    change(flat, state, gap)
    first = max(0, flat.gap_lower[gap] - 1)
    last = min(len(state.load), flat.gap_upper[gap] + 1)
    fits = fit(flat, state, gap, first, last, most_dropped, noise, rng)
    if fits and state.cost[0] >= most:
        keep_beside(flat, state, low, high)
    if not fits or state.cost[0] >= most:
        undo(flat, state, 0)
        return False
    return True


@compiled_loop
def take_changes(state):
    """Keep all changes since the last call."""
    for number in range(state.filled[0]):
        state.fresh[state.changed[number]] = False
    state.filled[0] = 0
    for gap in range(len(state.tries)):
        state.tries[gap] *= _FORGOTTEN


@compiled_loop
def make_fit(flat, state, most, rng):
    """Drop cheap gaps until the load fits at all steps, at most ``most`` and one.

    Returns true if the load fits, and the number of gaps dropped.
    """
    fits = fit(flat, state, -1, 0, len(state.load), most, 0.0, rng)
    dropped = state.filled[0]
    take_changes(state)
    return fits, dropped


@compiled_loop
def change_choice(flat, state, turns, most_dropped, noise, heat, rng, best, kept):
    """Keep one more gap again and again, without offsets; the cheapest choice goes to ``kept``.

    A change may cost more by about ``heat``. ``best`` is the cost of the cheapest choice.
    """
    steps = len(state.load)
    for _ in range(turns):
        gap = draw_gap(flat, state, 0.5, rng)
        if gap < 0:
            break
        most = state.cost[0] + 1 + int(-heat * math.log(1.0 - rng.random()))
        if not keep_one(flat, state, gap, 0, steps, most_dropped, noise, most, rng):
            continue
        take_changes(state)
        if state.cost[0] < best[0]:
            best[0] = state.cost[0]
            for other in range(len(kept)):
                kept[other] = not state.drop[other]
