"""Thresholds, turns and shares of the time of packing."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class PackingTuning:
    """Thresholds, turns and shares of the time of packing.

    Attributes
    ----------
    many_buffers
        Buffers from which methods are skipped that look at every pair: others find more in that
        time.
    grace
        Seconds for the quickest plan if no time is left for it.
    uncompiled_seconds
        Seconds that a heuristic without loops may take before the loops are compiled.
    most_effort
        Longest turn of all searches, as a multiple of the first.
    probing_buffers
        Buffers from which that brief search comes before most heuristics, which take longer.
    insertion_buffers
        Buffers up to which insertion looks at all of them at once.
    niche_buffers
        Most buffers for the niche search.
    pools_liquid_runs
        Several pools: most assignments by live bytes in one turn; they end once one gains nothing.
    pools_ordered_buffers
        Buffers up to which first fit is tried in more orders than the portfolio's: O(n²) each.
    sizes_moves_a_buffer
        Moves a buffer of local search in the first turn.
    sizes_top_pairs
        Pairs of a section and a buffer live in it up to which the topmost buffer is bounded: beyond
        that, tables take a gigabyte.
    sizes_compiled
        Placements from which it pays to compile the loop first.
    section_entries
        Pairs of a section and a buffer live in it up to which CP-SAT places buffers, or shares
        storages: presolve writes one constraint a section, and beyond that needs gigabytes.
    pools_entries
        Several pools: most such pairs, times the pools.
    full_steps
        Fullest first: shares of the most live bytes from which a step is full; one pass for each.
    size_classes
        Classes for each doubling of the size. Many classes waste little within slots; with few, the
        number of live buffers of each class varies less over the steps.
    """

    many_buffers: int = 2000
    grace: float = 1.0
    uncompiled_seconds: float = 1.0
    most_effort: int = 4**10
    probing_buffers: int = 200
    insertion_buffers: int = 5_000
    niche_buffers: int = 5_000
    pools_liquid_runs: int = 4
    pools_ordered_buffers: int = 5_000
    sizes_moves_a_buffer: int = 20
    sizes_top_pairs: int = 2_000_000
    sizes_compiled: int = 20_000
    section_entries: int = 1_000_000
    pools_entries: int = 400_000
    full_steps: tuple[float, ...] = (0.75, 0.6, 0.95)
    size_classes: tuple[float, ...] = (0.5, 1.0, 2.0)


def active() -> PackingTuning:
    """The thresholds and shares in use: the defaults, or those given to ``solve``."""
    return tuned(PackingTuning)
