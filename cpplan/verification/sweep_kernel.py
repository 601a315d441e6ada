"""Compiled sweep over very many rectangles. Shares no code with any planner."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def sweep(lower, rank, upper, rank_of_ended, begins, ends, marked, end_at):
    """True if no two rectangles have a byte in common at a step. O(n log n).

    The rectangles that are live are the marked leaves of a binary tree over all first addresses:
    while they are disjoint, a new one can only meet its two neighbours. No two can have the same
    first address.

    Parameters
    ----------
    lower, rank, ends
        First step, number of the first address and end of every rectangle, sorted by ``lower``.
    upper, rank_of_ended
        Step after the last step, and number of the first address, of every rectangle, sorted by
        ``upper``.
    begins
        The first addresses, each once, ascending.
    marked, end_at
        Scratch of zeros: a mark for every node of the tree, and the end of the rectangle that
        begins at each leaf. The number of leaves is the length of ``end_at``: a power of two, at
        least the length of ``begins``.
    """
    leaves = len(end_at)
    ended = 0
    for new in range(len(lower)):
        while upper[ended] <= lower[new]:
            node = leaves + rank_of_ended[ended]
            marked[node] = False
            while node > 1 and not marked[node ^ 1]:
                node //= 2
                marked[node] = False
            ended += 1
        leaf = leaves + rank[new]
        if marked[leaf]:
            return False
        # Find the highest marked leaf below, and the lowest one above.
        node = leaf
        while node > 1 and not (node & 1 and marked[node - 1]):
            node //= 2
        if node > 1:
            node -= 1
            while node < leaves:
                node = 2 * node + 1 if marked[2 * node + 1] else 2 * node
            if end_at[node - leaves] > begins[rank[new]]:
                return False
        node = leaf
        while node > 1 and (node & 1 or not marked[node + 1]):
            node //= 2
        if node > 1:
            node += 1
            while node < leaves:
                node = 2 * node if marked[2 * node] else 2 * node + 1
            if begins[node - leaves] < ends[new]:
                return False
        end_at[rank[new]] = ends[new]
        node = leaf
        while node > 0 and not marked[node]:
            marked[node] = True
            node //= 2
    return True
