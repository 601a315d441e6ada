"""Compiled part of :mod:`cpplan.packing.heuristics.segregated_fit`."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

from cpplan.runtime.loop_compiler import compiled_loop

# Bits of a size after its leading one that tell classes of holes apart; see ``hole_class``.
_BITS = 3
# Holes of a class to look at before the next class.
_LOOKS = 8
# Fields of ``memory.state``: end of all blocks, the block that ends there, requests that have
# ended, block numbers given out, block numbers free for reuse, and classes that ever had a hole.
TOP, LAST, ENDED, MADE, SPARE, CLASSES = range(6)


@compiled_loop
def serve(memory, requests, ending, lower, upper, size, alignment, offset, block):
    """Serve requests in order; each buffer is freed when its lifespan ends."""
    state = memory.state
    for row in requests:
        while upper[ending[state[ENDED]]] <= lower[row]:
            freed = ending[state[ENDED]]
            if size[freed] > 0:
                _free(memory, block[freed])
            state[ENDED] += 1
        if size[row] > 0:
            block[row] = _take(memory, size[row], alignment[row])
            offset[row] = memory.begin[block[row]]


@compiled_loop
def hole_class(size):
    """Class of a size: one for each size up to 15, then one for each eighth of a power of two."""
    shift = 0
    while size >> shift >= 2 << _BITS:
        shift += 1
    return (shift << _BITS) + (size >> shift)


@compiled_loop
def _take(memory, size, alignment):
    """Take a block of this size from the first class with a hole that fits, else at the top."""
    for kind in range(hole_class(size), memory.state[CLASSES]):
        hole = memory.first[kind]
        for _ in range(_LOOKS):
            if hole < 0:
                break
            at = (memory.begin[hole] + alignment - 1) // alignment * alignment
            if at + size <= memory.end[hole]:
                return _cut(memory, hole, at, at + size)
            hole = memory.following[hole]
    top = memory.state[TOP]
    at = (top + alignment - 1) // alignment * alignment
    if at > top:
        _list(memory, _append(memory, at))
    return _append(memory, at + size)


@compiled_loop
def _cut(memory, hole, begin, end):
    """Take ``[begin, end)`` out of a hole; the rest on either side becomes a hole."""
    _unlist(memory, hole)
    for low, high in ((memory.begin[hole], begin), (end, memory.end[hole])):
        if low < high:
            rest = _new(memory, low, high)
            before, after = memory.before[hole], memory.after[hole]
            if low < begin:
                after = hole
            else:
                before = hole
            memory.before[rest], memory.after[rest] = before, after
            if before >= 0:
                memory.after[before] = rest
            memory.before[after] = rest
            _list(memory, rest)
    memory.begin[hole], memory.end[hole] = begin, end
    return hole


@compiled_loop
def _free(memory, block):
    """Free a block: join it with adjacent holes, or lower the top if it is last."""
    state = memory.state
    before, after = memory.before[block], memory.after[block]
    if after >= 0 and memory.is_hole[after]:
        memory.end[block] = memory.end[after]
        _unlist(memory, after)
        _remove(memory, after)
    if before >= 0 and memory.is_hole[before]:
        memory.begin[block] = memory.begin[before]
        _unlist(memory, before)
        _remove(memory, before)
    if memory.after[block] < 0:
        state[TOP] = memory.begin[block]
        _remove(memory, block)
    else:
        _list(memory, block)


@compiled_loop
def _append(memory, end):
    """Add a block from the top to ``end``, which becomes the top."""
    state = memory.state
    block = _new(memory, state[TOP], end)
    memory.before[block], memory.after[block] = state[LAST], -1
    if state[LAST] >= 0:
        memory.after[state[LAST]] = block
    state[TOP], state[LAST] = end, block
    return block


@compiled_loop
def _new(memory, begin, end):
    """Make a block between two addresses, without neighbours yet."""
    state = memory.state
    if state[SPARE] > 0:
        state[SPARE] -= 1
        block = memory.spare[state[SPARE]]
    else:
        block = state[MADE]
        state[MADE] += 1
    memory.begin[block], memory.end[block] = begin, end
    memory.is_hole[block] = False
    return block


@compiled_loop
def _remove(memory, block):
    """Take a block out of the list by address, and free its number for reuse."""
    state, before, after = memory.state, memory.before[block], memory.after[block]
    if before >= 0:
        memory.after[before] = after
    if after >= 0:
        memory.before[after] = before
    else:
        state[LAST] = before
    memory.spare[state[SPARE]] = block
    state[SPARE] += 1


@compiled_loop
def _list(memory, hole):
    """Make a block a hole and put it first in the list of its class."""
    kind = hole_class(memory.end[hole] - memory.begin[hole])
    old = memory.first[kind]
    memory.following[hole], memory.previous[hole] = old, -1
    if old >= 0:
        memory.previous[old] = hole
    memory.first[kind] = hole
    memory.is_hole[hole] = True
    memory.state[CLASSES] = max(memory.state[CLASSES], kind + 1)


@compiled_loop
def _unlist(memory, hole):
    """Take a hole out of the list of its class."""
    previous, following = memory.previous[hole], memory.following[hole]
    if previous >= 0:
        memory.following[previous] = following
    else:
        memory.first[hole_class(memory.end[hole] - memory.begin[hole])] = following
    if following >= 0:
        memory.previous[following] = previous
    memory.is_hole[hole] = False
