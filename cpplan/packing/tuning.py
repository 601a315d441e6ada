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
    compiling_share
        Share of the time left for compiling loops before slower first plans: nearly every method
        that improves on them needs the loops.
    uncompiled_buffers
        Buffers up to which a plan is made and checked in less time than loading a compiled loop.
    most_effort
        Longest turn of all searches, as a multiple of the first.
    nodes_a_buffer
        Nodes a buffer that the exact search visits in the first turn.
    later_nodes
        Multiple of these nodes in later turns: it then has about half of the time.
    first_nodes_a_buffer
        Nodes a buffer before one exact search first gives way to the other; doubled every time.
    full_share
        Share of the most live bytes above which a step is full. If all steps are full, hardly a
        byte may be wasted and few buffers fit into any corner: the niche search is then far
        likelier than others to find a packing without waste.
    full_nodes_a_buffer
        Nodes a buffer that the exact search visits in the first turn if all steps are full.
    full_canonical_share
        Share of these nodes for the canonical search.
    probing_nodes_a_buffer
        Nodes a buffer of the brief exact search before all other searches.
    probing_buffers
        Buffers from which that brief search comes before most heuristics, which take longer.
    probing_heuristics
        Heuristics that still come before it.
    cp_sat_work
        CP-SAT's deterministic time for each run in the first turn.
    windows
        Windows in the first turn if few buffers are live at once; fewer if they do not help.
    windows_at_once
        Windows without a lower peak after which other searches have their turn.
    wide_windows
        Windows in the first turn if many buffers are live at once.
    staged_buffers
        Most buffers for insertion in stages.
    staged_insertions_a_buffer
        Its insertions, a buffer, in the first turn.
    rules
        Priority rules tried in the first turn.
    insertions_a_buffer
        Insertions a buffer in the first turn.
    brief_insertions_a_buffer
        Insertions a buffer of a brief search that only goes on while it lowers the peak.
    rankings_a_buffer
        Rankings a buffer in the first turn.
    slices
        Times in a turn that local search exchanges results with the exact search in its thread.
    few_buffers
        Buffers up to which CP-SAT mostly settles a part before compiled loops are loaded.
    cp_sat_at_once
        Buffers above which CP-SAT needs more time to start than other searches for their first
        turn.
    cp_sat_effort
        Effort of the first turn with CP-SAT for more buffers than that.
    canonical_share
        Share of the nodes for the canonical search; the niche search gets the others if it applies.
    insertion_buffers
        Buffers up to which insertion looks at all of them at once.
    canonical_buffers
        Most buffers for the canonical search: a node looks at every buffer of its component.
    canonical_entries
        Most pairs of buffer and section for the canonical search.
    niche_buffers
        Most buffers for the niche search.
    niche_entries
        Most pairs of buffer and section for the niche search.
    pools_first_moves
        Several pools: moves of hill climbing in the first turn.
    pools_first_liquid_work
        Several pools: CP-SAT's deterministic time for each run on live bytes alone in the first
        turn. It is much quicker without offsets, and its assignments can mostly be packed.
    pools_liquid_runs
        Most such runs in one turn; they end once one gains nothing.
    pools_first_work
        CP-SAT's deterministic time on pools and offsets together in the first turn.
    pools_ordered_buffers
        Buffers up to which first fit is tried in more orders than the portfolio's: O(n²) each.
    sizes_largest_share
        Several sizes: share of the time for the largest arena of the layout.
    sizes_alone_share
        Share of the remaining time for each size packed alone.
    sizes_moves_a_buffer
        Moves a buffer of local search in the first turn.
    sizes_first_work
        CP-SAT's deterministic time in the first turn.
    sizes_turns_share
        Share of the time for all levels in turns; the rest is for the levels after the first that
        is not proved.
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
    storages_literals
        Literals up to which CP-SAT shares storages: beyond that it takes minutes to start.
    storages_improved
        Buffers up to which stages by size are tried: their tables take gigabytes beyond that.
    window_least, window_lives
        Insertion in windows: buffers that a first window meets, at least, and as a multiple of
        those live on average.
    window_moves, window_wider, window_longer
        Moves in a first window; growth of the buffers and of the moves from one to the next.
    window_step, window_near
        Each window aims below the peak by this share of the way to the target; within the second
        share of the target, it aims at the target itself.
    window_tries
        Windows around a buffer after which the aim is raised.
    window_patience
        Windows spent on buffers that a forced move put on top.
    insertion_epoch
        Insertion: moves after which weights are halved.
    insertion_patience
        Insertion: moves a buffer without a lower peak after which the search returns to its best
        packing, and raises its limit.
    tightness
        Insertion: power of e by which a buffer at the fullest step weighs more than one that meets
        only empty steps; in between, in proportion to the live bytes.
    insertion_learning, insertion_tenure
        Weight that an ejection adds to a buffer; moves for which a placed buffer is not ejected.
    rule_totals
        Priority rules: weights of totals against width and size, from none to nearly all.
    rule_blurs
        Standard deviations of the noise added to a new rule (logarithms of sizes).
    rule_changes, rule_changed
        Standard deviations of the noise on a rule of the elite, and shares of the buffers changed.
    rule_elite
        Best rules kept to be changed.
    tie_spreads
        Exact searches: standard deviations of the noise on logarithms of keys that break ties. A
        small one stays near a good order, a large one explores.
    canonical_first_nodes
        Canonical search: nodes of each tree in the first round; twice as many every round.
    canonical_limits
        Limits tried in every round, as shares of the way from the smallest limit to the largest.
    canonical_kept_bytes
        Bytes for kept trees. All trees take turns, so that the first ones serve as well as any.
    full_steps
        Fullest first: shares of the most live bytes from which a step is full; one pass for each.
    rankings_share
        Fullest first: share of the time left for further rankings of a part; the rest is for
        placing the other buffers.
    placed_rows, shuffled_rows
        Placements of a part after its first ranking, and those under shuffled rankings, in buffers.
    shuffled_ranks
        Standard deviations of ranks in shuffled rankings, as shares of their number.
    size_classes
        Classes for each doubling of the size. Many classes waste little within slots; with few, the
        number of live buffers of each class varies less over the steps.
    check_reserve
        Time reserved for the final check of the plan and its claims, as a multiple of the time that
        checking the offsets takes.
    """

    many_buffers: int = 2000
    grace: float = 1.0
    uncompiled_seconds: float = 1.0
    compiling_share: float = 0.5
    uncompiled_buffers: int = 200_000
    most_effort: int = 4**10
    nodes_a_buffer: int = 500
    later_nodes: int = 8
    first_nodes_a_buffer: int = 10
    full_share: float = 0.999
    full_nodes_a_buffer: int = 10_000
    full_canonical_share: float = 0.01
    probing_nodes_a_buffer: int = 100
    probing_buffers: int = 200
    probing_heuristics: int = 3
    cp_sat_work: float = 0.0025
    windows: int = 1000
    windows_at_once: int = 3
    wide_windows: int = 1
    staged_buffers: int = 30_000
    staged_insertions_a_buffer: int = 40
    rules: int = 50
    insertions_a_buffer: int = 600
    brief_insertions_a_buffer: int = 30
    rankings_a_buffer: int = 10
    slices: int = 10
    few_buffers: int = 40
    cp_sat_at_once: int = 150
    cp_sat_effort: int = 16
    canonical_share: float = 0.2
    insertion_buffers: int = 5_000
    canonical_buffers: int = 5_000
    canonical_entries: int = 1_000_000
    niche_buffers: int = 5_000
    niche_entries: int = 1_000_000
    pools_first_moves: int = 40
    pools_first_liquid_work: float = 0.4
    pools_liquid_runs: int = 4
    pools_first_work: float = 0.05
    pools_ordered_buffers: int = 5_000
    sizes_largest_share: float = 0.3
    sizes_alone_share: float = 0.4
    sizes_moves_a_buffer: int = 20
    sizes_first_work: float = 0.02
    sizes_turns_share: float = 0.8
    sizes_top_pairs: int = 2_000_000
    sizes_compiled: int = 20_000
    section_entries: int = 1_000_000
    pools_entries: int = 400_000
    storages_literals: int = 200_000
    storages_improved: int = 10_000
    window_least: int = 300
    window_lives: int = 4
    window_moves: int = 1000
    window_wider: float = 1.5
    window_longer: int = 2
    window_step: float = 0.5
    window_near: float = 0.001
    window_tries: int = 3
    window_patience: int = 60
    insertion_epoch: int = 1_000_000
    insertion_patience: int = 50
    tightness: float = 30.0
    insertion_learning: float = 0.1
    insertion_tenure: int = 2
    rule_totals: tuple[float, ...] = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0)
    rule_blurs: tuple[float, ...] = (0.0, 0.003, 0.01, 0.03, 0.1)
    rule_changes: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03)
    rule_changed: tuple[float, ...] = (1.0, 0.3, 0.1, 0.01)
    rule_elite: int = 4
    tie_spreads: tuple[float, ...] = (0.05, 0.15, 0.3)
    canonical_first_nodes: int = 500
    canonical_limits: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)
    canonical_kept_bytes: int = 1 << 28
    full_steps: tuple[float, ...] = (0.75, 0.6, 0.95)
    rankings_share: float = 0.3
    placed_rows: int = 300_000
    shuffled_rows: int = 100_000
    shuffled_ranks: tuple[float, ...] = (0.01, 0.03, 0.1)
    size_classes: tuple[float, ...] = (0.5, 1.0, 2.0)
    check_reserve: float = 2.5


def active() -> PackingTuning:
    """The thresholds and shares in use: the defaults, or those given to ``solve``."""
    return tuned(PackingTuning)
